//! Our extensions of ACP: `_meta` keys, methods behind `_windlass/` and their shapes.

use serde::{Deserialize, Serialize};

use windlass_protocol::opencode::{
    event::Event,
    id::{PermissionId, QuestionId, SessionId},
    permission::Reply,
};

/// `clientCapabilities._meta`: `true` or a list of event names. Advertised in the agent's `_meta`.
pub const EVENTS: &str = "windlass/events";
/// `session/new` `_meta`: the session id that the client wants. Advertised in the agent's `_meta`.
pub const SESSION_ID: &str = "windlass/sessionId";
/// `session/new` `_meta`: `true`, or the name of a git worktree to work in. Advertised in the agent's `_meta`.
pub const WORKTREE: &str = "windlass/worktree";
/// The link of a session that is shared, in the `_meta` of its information. Advertised in the agent's `_meta`.
pub const SHARE: &str = "windlass/share";
/// `session/fork` `_meta`: the message before which the copy ends. Advertised in the agent's `_meta`.
pub const FORK_MESSAGE: &str = "windlass/forkMessage";
/// Advertised in the agent's `_meta`: [`PERMISSION_REPLY`] is understood.
pub const PERMISSION_REPLY_META: &str = "windlass/permissionReply";
/// Advertised in the agent's `_meta`: [`QUESTION_REPLY`] and [`QUESTION_REJECT`] are understood.
pub const QUESTION_REPLY_META: &str = "windlass/questionReply";
/// Advertised in the agent's `_meta`: [`QUEUE_LIST`], [`QUEUE_CHANGE`] and [`QUEUE_WITHDRAW`] are understood.
pub const QUEUE_META: &str = "windlass/queue";
/// In the agent's `_meta`: the [`Sandbox`] that commands can run in.
pub const SANDBOX: &str = "windlass/sandbox";
/// Notification: one of OpenCode's events.
pub const EVENT: &str = "_windlass/event";
/// Request: answers a permission by id, with feedback for the model.
pub const PERMISSION_REPLY: &str = "_windlass/permission/reply";
/// Request: answers a question of a tool by id.
pub const QUESTION_REPLY: &str = "_windlass/question/reply";
/// Request: dismisses a question of a tool by id.
pub const QUESTION_REJECT: &str = "_windlass/question/reject";

/// Request of the large adapters: words of the user for the turn that runs.
pub const STEERING: &str = "_session/steering";
/// Request of the large adapters: changes of a directory's list of sessions are wanted as [`LIST_CHANGES`].
pub const LIST_SUBSCRIBE: &str = "_session/list/subscribe";
/// Request: they are wanted no more.
pub const LIST_UNSUBSCRIBE: &str = "_session/list/unsubscribe";
/// Notification: sessions of a list that changed or went.
pub const LIST_CHANGES: &str = "_session/list/changes";
/// Request: lists the prompts that wait behind a session's work.
pub const QUEUE_LIST: &str = "_windlass/queue/list";
/// Request: changes a prompt that waits.
pub const QUEUE_CHANGE: &str = "_windlass/queue/change";
/// Request: takes a prompt back that waits.
pub const QUEUE_WITHDRAW: &str = "_windlass/queue/withdraw";

/// Value of [`SANDBOX`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sandbox<'a> {
    /// `full`, `landlock` or `none`.
    pub level: &'a str,
    /// The reason that it is not `full`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'a str>,
}

/// Parameters of [`EVENT`].
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventNotification<'a> {
    /// Absent for events that belong to no session.
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

/// Parameters of [`QUESTION_REPLY`] and, without answers, of [`QUESTION_REJECT`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuestionReply {
    pub session_id: SessionId,
    pub request_id: QuestionId,
    /// For each question the chosen labels and any text of the user.
    #[serde(default)]
    pub answers: Vec<Vec<String>>,
}
