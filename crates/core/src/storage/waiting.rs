//! Prompts that wait for their turn: a row each, until its message is stored.

use rusqlite::Connection;
use serde_json::Value;
use windlass_protocol::opencode::id::{MessageId, SessionId};

use super::{Storage, StorageError, Write};

impl Storage {
    /// Keeps a prompt, in the place of the one that it was before.
    pub async fn keep_prompt(
        &self,
        session_id: SessionId,
        id: MessageId,
        prompt: Value,
    ) -> Result<(), StorageError> {
        self.change(Write::KeepPrompt { session_id, id, prompt }).await?;
        Ok(())
    }

    /// Forgets a prompt that does not wait any more.
    pub async fn forget_prompt(&self, session_id: SessionId, id: MessageId) -> Result<(), StorageError> {
        self.change(Write::TakePrompt { session_id, id }).await?;
        Ok(())
    }

    /// Returns true if a prompt is kept still: another process may have carried it out.
    pub async fn has_kept_prompt(&self, session_id: SessionId, id: MessageId) -> Result<bool, StorageError> {
        self.reader
            .read(move |connection| {
                let sql = "SELECT 1 FROM waiting_prompt WHERE session_id = ?1 AND id = ?2";
                Ok(connection.prepare_cached(sql)?.exists([session_id.as_str(), id.as_str()])?)
            })
            .await
    }

    /// Reads the prompts that wait for turns of a session, in their order.
    pub async fn kept_prompts(&self, id: SessionId) -> Result<Vec<(MessageId, Value)>, StorageError> {
        self.reader
            .read(move |connection| {
                let sql = "SELECT id, data FROM waiting_prompt WHERE session_id = ?1 ORDER BY id";
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query([id.as_str()])?;
                let mut prompts = Vec::new();
                while let Some(row) = rows.next()? {
                    let (id, data): (String, String) = (row.get(0)?, row.get(1)?);
                    // One that cannot be read is left for a newer windlass.
                    if let (Ok(id), Ok(prompt)) = (MessageId::parse(&id), serde_json::from_str(&data)) {
                        prompts.push((id, prompt));
                    }
                }
                Ok(prompts)
            })
            .await
    }
}

/// Writes a prompt's row.
pub(super) fn keep(
    connection: &Connection,
    session_id: &SessionId,
    id: &MessageId,
    prompt: &Value,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO waiting_prompt (id, session_id, data) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute((id.as_str(), session_id.as_str(), prompt.to_string()))?;
    Ok(())
}

/// Removes a prompt's row, if it has one.
pub(super) fn remove(
    connection: &Connection,
    session_id: &SessionId,
    id: &MessageId,
) -> rusqlite::Result<()> {
    let sql = "DELETE FROM waiting_prompt WHERE session_id = ?1 AND id = ?2";
    connection.prepare_cached(sql)?.execute([session_id.as_str(), id.as_str()])?;
    Ok(())
}
