//! Changes of a session's settings that a client may make beside its turns.

use serde_json::{Map, Value};
use windlass_base::lock::lock;
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    permission::{Action, Rule},
    session::{Session, SessionShare},
};

use super::{inbox::MAX_COMMANDS, request::Command};
use crate::{EngineError, EngineErrorKind, Sessions};

/// The fields to change; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionPatch {
    /// The time of archiving, in milliseconds since the epoch; `Some(None)` takes the session out of the archive.
    pub archived: Option<Option<i64>>,
    pub permission: Option<Vec<Rule>>,
    /// Tools that are on or off from now on, in the order of their rules.
    pub tools: Vec<(String, bool)>,
    pub metadata: Option<Map<String, Value>>,
    /// Its page; `Some(None)` where it is shared no more.
    pub share: Option<Option<SessionShare>>,
}

impl SessionPatch {
    /// Changes a session.
    pub fn apply(self, info: &mut Session) {
        let Self { archived, permission, tools, metadata, share } = self;
        if let Some(archived) = archived {
            info.time.archived = archived;
        }
        info.permission = permission.or(info.permission.take());
        info.metadata = metadata.or(info.metadata.take());
        if let Some(share) = share {
            info.share = share;
        }
        for (tool, is_on) in tools {
            let rules = info.permission.get_or_insert_default();
            rules.retain(|rule| rule.permission != tool || rule.pattern != "*");
            let action = if is_on { Action::Allow } else { Action::Deny };
            rules.push(Rule { permission: tool, pattern: "*".to_owned(), action });
        }
    }
}

impl Sessions<'_> {
    /// Changes a session's settings, and returns it as it then is. They are stored when this returns; a session that
    /// works follows them from its next step on.
    pub async fn patch(self, id: &SessionId, patch: SessionPatch) -> Result<Session, EngineError> {
        if patch == SessionPatch::default() {
            return self.get(id).await;
        }
        self.engine.fleet().claim(id, None).await?;
        // The place is taken before anything is stored: a task that takes no more would not follow the change.
        let inbox = lock(&self.engine.0.sessions.open)
            .get(id)
            .and_then(|open| Some(open.task.as_ref()?.inbox.clone()));
        let place = match inbox.filter(|inbox| !inbox.is_closed()) {
            Some(inbox) => Some(inbox.try_reserve_owned().map_err(|_| {
                let message = format!("{MAX_COMMANDS} changes are waiting for this session already");
                EngineError::new(EngineErrorKind::InvalidInput, message)
            })?),
            None => None,
        };
        let stored = self.engine.storage().patch(id.clone(), |info| patch.apply(info)).await?;
        let mut info = stored.ok_or_else(|| EngineError::session_not_found(id))?;
        if let Some(place) = place {
            place.send(Command::Patched);
        }
        self.entitle([&mut info]).await?;
        let event = SessionInfo { session_id: id.clone(), info: info.clone().into() };
        self.engine.bus().publish(EventPayload::SessionUpdated(event));
        Ok(info)
    }
}
