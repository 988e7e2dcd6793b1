//! Settings of a session that clients change from outside of its task: they hold against all later writes of the task.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{id::SessionId, permission::Rule, session::Session};

use super::{Storage, StorageError, session};

/// The settings as they are stored once a client has changed one of them.
#[derive(Debug, Serialize, Deserialize)]
pub struct Settings {
    archived: Option<i64>,
    permission: Option<Vec<Rule>>,
    metadata: Option<Map<String, Value>>,
}

impl Settings {
    fn of(session: &Session) -> Self {
        let (permission, metadata) = (session.permission.clone(), session.metadata.clone());
        Self { archived: session.time.archived, permission, metadata }
    }

    /// Puts them in the place of those that the session's task wrote.
    pub fn replace(self, session: &mut Session) {
        let Self { archived, permission, metadata } = self;
        session.time.archived = archived;
        session.permission = permission;
        session.metadata = metadata;
    }
}

impl Storage {
    /// Changes the settings of a stored session in one step, and returns it as it then is; `None` if there is none.
    pub async fn patch(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut Session) + Send + 'static,
    ) -> Result<Option<Session>, StorageError> {
        self.writer
            .write(move |connection| {
                let Some(mut session) = session(connection, &id)? else { return Ok(None) };
                change(&mut session);
                let settings = serde_json::to_string(&Settings::of(&session))?;
                connection
                    .prepare_cached("UPDATE session SET patch = ?2 WHERE id = ?1")?
                    .execute([id.as_str(), &settings])?;
                Ok(Some(session))
            })
            .await
    }
}
