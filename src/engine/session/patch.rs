//! Changes of a stored session that a client may make beside its turns.

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    permission::Rule,
    session::Session,
};

use super::request::Command;
use crate::{
    base::lock::lock,
    engine::{Engine, EngineError},
    storage::Write,
};

/// The fields to change; what is absent stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPatch {
    /// The time of archiving, in milliseconds since the epoch; `Some(None)` takes the session out of the archive.
    pub archived: Option<Option<i64>>,
    pub permission: Option<Vec<Rule>>,
    pub metadata: Option<Map<String, Value>>,
}

impl SessionPatch {
    /// Changes a session.
    pub fn apply(self, info: &mut Session) {
        let Self { archived, permission, metadata } = self;
        if let Some(archived) = archived {
            info.time.archived = archived;
        }
        info.permission = permission.or(info.permission.take());
        info.metadata = metadata.or(info.metadata.take());
    }
}

impl Engine {
    /// Changes a session, and returns it as it then is. One that works takes the change with its next step.
    pub async fn patch_session(&self, id: &SessionId, patch: SessionPatch) -> Result<Session, EngineError> {
        let mut info = self.session(id).await?;
        if patch == SessionPatch::default() {
            return Ok(info);
        }
        patch.clone().apply(&mut info);
        let task = lock(&self.0.sessions).get(id).and_then(|open| Some(open.task.as_ref()?.inbox.clone()));
        if let Some(inbox) = task
            && inbox.send(Command::Patch(patch)).await.is_ok()
        {
            return Ok(info);
        }
        self.storage().apply(vec![Write::Session(Box::new(info.clone()))]).await?;
        let event = SessionInfo { session_id: id.clone(), info: Box::new(info.clone()) };
        self.bus().publish(EventPayload::SessionUpdated(event));
        Ok(info)
    }
}
