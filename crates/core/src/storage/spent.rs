//! Costs of removed answers: an undone turn is paid for as well.

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    tokens::Tokens,
};

use super::{Storage, StorageError};

const KEEP: &str = "
    INSERT OR IGNORE INTO spent_message (id, session_id, data)
    SELECT id, session_id, json_object(
        'role', 'assistant', 'time', data -> '$.time', 'providerID', data ->> '$.providerID',
        'modelID', data ->> '$.modelID', 'cost', ifnull(data ->> '$.cost', 0), 'tokens', data -> '$.tokens')
    FROM message WHERE id = ?1 AND data ->> '$.role' = 'assistant'";

/// The cost of a removed answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpentAnswer {
    pub id: MessageId,
    pub time: SpentTime,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    #[serde(rename = "modelID")]
    pub model_id: String,
    pub cost: f64,
    pub tokens: Tokens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpentTime {
    pub created: i64,
}

/// Keeps the cost of a message that is about to be removed.
pub fn keep(connection: &Connection, id: &MessageId) -> rusqlite::Result<()> {
    connection.prepare_cached(KEEP)?.execute([id.as_str()])?;
    Ok(())
}

impl Storage {
    /// Reads the costs of a session's removed answers.
    pub async fn spent(&self, id: SessionId) -> Result<Vec<SpentAnswer>, StorageError> {
        self.reader.read(move |connection| of_session(connection, &id)).await
    }
}

pub(super) fn of_session(connection: &Connection, id: &SessionId) -> Result<Vec<SpentAnswer>, StorageError> {
    let mut statement = connection.prepare_cached(
        "SELECT json_set(data, '$.id', id) FROM spent_message WHERE session_id = ?1 ORDER BY id",
    )?;
    let mut rows = statement.query([id.as_str()])?;
    let mut answers = Vec::new();
    while let Some(row) = rows.next()? {
        let data = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        answers.push(serde_json::from_str(data)?);
    }
    Ok(answers)
}

/// Stores a removed answer of an imported session; one that is known counts already.
pub fn insert(
    connection: &Connection,
    session_id: &SessionId,
    answer: &SpentAnswer,
) -> Result<(), StorageError> {
    let SpentAnswer { id, time, provider_id, model_id, cost, tokens } = answer;
    let data = json!({
        "role": "assistant", "time": time, "providerID": provider_id, "modelID": model_id, "cost": cost,
        "tokens": tokens,
    });
    connection
        .prepare_cached("INSERT OR IGNORE INTO spent_message (id, session_id, data) VALUES (?1, ?2, ?3)")?
        .execute(params![id.as_str(), session_id.as_str(), data.to_string()])?;
    Ok(())
}
