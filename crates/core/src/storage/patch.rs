//! Settings of a session that clients change from outside of its task: they hold against all later writes of the task.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    id::SessionId,
    permission::Rule,
    session::{Session, SessionShare},
};

use super::{Storage, StorageError, Write, apply, session};

/// The settings as they are stored once a client has changed one of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Settings {
    archived: Option<i64>,
    permission: Option<Vec<Rule>>,
    metadata: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    share: Option<SessionShare>,
}

impl Settings {
    fn of(session: &Session) -> Self {
        let (permission, metadata) = (session.permission.clone(), session.metadata.clone());
        Self { archived: session.time.archived, permission, metadata, share: session.share.clone() }
    }

    /// Puts them in the place of those that the session's task wrote.
    pub fn replace(self, session: &mut Session) {
        let Self { archived, permission, metadata, share } = self;
        session.time.archived = archived;
        session.permission = permission;
        session.metadata = metadata;
        session.share = share;
    }
}

impl Storage {
    /// Changes the settings of a stored session in one step, and returns it as it then is; `None` if there is none.
    pub async fn patch(
        &self,
        id: SessionId,
        change: impl FnOnce(&mut Session) + Send + 'static,
    ) -> Result<Option<Session>, StorageError> {
        let patched = self
            .writer
            .write(move |connection| {
                let Some(mut session) = session(connection, &id)? else { return Ok(None) };
                change(&mut session);
                let write = Write::Settings { session_id: id, settings: Settings::of(&session) };
                apply(connection, &write)?;
                Ok(Some((session, write)))
            })
            .await?;
        let Some((session, write)) = patched else { return Ok(None) };
        self.outlet.send(vec![write]).await?;
        Ok(Some(session))
    }
}
