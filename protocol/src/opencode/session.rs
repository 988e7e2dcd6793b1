//! Session, todo and session status.

use serde::{Deserialize, Serialize};

use super::{
    id::{MessageId, PartId, SessionId},
    message::Tokens,
    permission::Rule,
};

/// A conversation: OpenCode's `Session` object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session's id.
    pub id: SessionId,
    /// Two random words.
    pub slug: String,
    /// Root commit of the repository, or `global` outside git.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Absolute working directory.
    pub directory: String,
    /// `directory` relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The session that started this one as a subagent.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// Shown title; `New session - <ISO time>` until one is made.
    pub title: String,
    /// Version of the application that created the session.
    pub version: String,
    /// Name of the agent used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model used last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// Running total in US dollars.
    #[serde(default)]
    pub cost: f64,
    /// Running totals.
    #[serde(default)]
    pub tokens: Tokens,
    /// Size of the changes made so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SessionSummary>,
    /// Rules that hold for this session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<Rule>>,
    /// Ours: the rules of the sessions above the subagent's that this one was copied from, a list for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Vec<Rule>>,
    /// A pending undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
    /// When things happened.
    pub time: SessionTime,
}

/// The model a session used last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionModel {
    /// Model id within the provider.
    pub id: String,
    /// Provider id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Reasoning-effort variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Size of the changes a session made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Lines added.
    pub additions: u64,
    /// Lines removed.
    pub deletions: u64,
    /// Files touched.
    pub files: u64,
}

/// A pending undo: everything after the named message (or part) is hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Revert {
    /// First message that is undone.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// First part that is undone, when only a part of the message is.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// Tree to restore on redo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What the undo changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionTime {
    /// Created.
    pub created: i64,
    /// Last changed.
    pub updated: i64,
    /// Compaction began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<i64>,
    /// Archived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<i64>,
}

/// One entry of a session's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// Where it stands.
    pub status: TodoStatus,
    /// How much it matters.
    pub priority: TodoPriority,
}

/// Where a todo stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

/// How much a todo matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    High,
    Medium,
    Low,
}

/// What a session is doing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionStatus {
    /// Nothing runs.
    Idle,
    /// A turn runs.
    Busy,
    /// A turn waits before asking the provider again.
    Retry {
        /// Attempt that failed, from 1.
        attempt: u32,
        /// Why.
        message: String,
        /// Milliseconds since the epoch at which the next attempt starts.
        next: i64,
    },
}
