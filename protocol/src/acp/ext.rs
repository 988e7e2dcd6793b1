//! Our extensions of ACP: `_meta` keys, methods behind `_windlass/` and their shapes.

use serde::{Deserialize, Serialize};

use crate::opencode::{
    event::Event,
    id::{PermissionId, SessionId},
    permission::Reply,
};

/// `clientCapabilities._meta`: `true` or a list of event names. Advertised in the agent's `_meta`.
pub const EVENTS: &str = "windlass/events";
/// `session/new` `_meta`: the session id the client wants. Advertised in the agent's `_meta`.
pub const SESSION_ID: &str = "windlass/sessionId";
/// Advertised in the agent's `_meta`: [`PERMISSION_REPLY`] is understood.
pub const PERMISSION_REPLY_META: &str = "windlass/permissionReply";
/// Notification: one of OpenCode's events.
pub const EVENT: &str = "_windlass/event";
/// Request: answers a permission by id, with feedback for the model.
pub const PERMISSION_REPLY: &str = "_windlass/permission/reply";

/// Parameters of [`EVENT`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventNotification<'a> {
    /// Absent for events that are about no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<&'a SessionId>,
    pub event: &'a Event,
}

/// Parameters of [`PERMISSION_REPLY`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionReply {
    pub session_id: SessionId,
    pub request_id: PermissionId,
    pub reply: Reply,
    /// Feedback for the model, with `reject`.
    #[serde(default)]
    pub message: Option<String>,
}
