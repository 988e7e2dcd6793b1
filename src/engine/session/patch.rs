//! Changes of a stored session that a client may make beside its turns.

use serde_json::{Map, Value};
use windlass_protocol::opencode::{permission::Rule, session::Session};

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
