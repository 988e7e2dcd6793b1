//! Instructions of a session's client, kept with the session.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use windlass_protocol::opencode::id::SessionId;

use super::{Storage, StorageError, Write};

/// Instructions that a client has given a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientPrompt {
    /// They take the place of the agent's own instructions. The description of the session stays.
    pub is_override: bool,
    pub text: String,
}

impl Storage {
    /// Puts instructions in the place of those that a session has; `None` takes them away.
    pub async fn set_client_prompt(
        &self,
        id: SessionId,
        prompt: Option<ClientPrompt>,
    ) -> Result<(), StorageError> {
        self.change(Write::ClientPrompt { session_id: id, prompt }).await?;
        Ok(())
    }
}

pub(super) fn set(
    connection: &Connection,
    id: &SessionId,
    prompt: Option<&ClientPrompt>,
) -> Result<(), StorageError> {
    let prompt = prompt.map(serde_json::to_string).transpose()?;
    let mut statement = connection.prepare_cached("UPDATE session SET client_prompt = ?2 WHERE id = ?1")?;
    statement.execute((id.as_str(), prompt))?;
    Ok(())
}

/// Reads the instructions of a session.
pub(super) fn read(connection: &Connection, id: &SessionId) -> Result<Option<ClientPrompt>, StorageError> {
    let mut statement = connection.prepare_cached("SELECT client_prompt FROM session WHERE id = ?1")?;
    let prompt: Option<Option<String>> = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    Ok(prompt.flatten().map(|prompt| serde_json::from_str(&prompt)).transpose()?)
}

/// Gives a copy of a session its instructions.
pub(super) fn copy(connection: &Connection, from: &SessionId, to: &SessionId) -> Result<(), StorageError> {
    let sql =
        "UPDATE session SET client_prompt = (SELECT client_prompt FROM session WHERE id = ?1) WHERE id = ?2";
    connection.prepare_cached(sql)?.execute([from.as_str(), to.as_str()])?;
    Ok(())
}
