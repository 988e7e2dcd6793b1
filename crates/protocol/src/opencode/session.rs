//! Session, todo and session status.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    id::{MessageId, PartId, SessionId},
    permission::Rule,
    tokens::Tokens,
};

/// A conversation: OpenCode's `Session` object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session's id.
    pub id: SessionId,
    /// A short name of two random words.
    pub slug: String,
    /// The root commit of the repository, or `global` outside git.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// The absolute working directory.
    pub directory: String,
    /// `directory` relative to the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The session that started this one as a subagent.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The title; `New session - <ISO time>` until one is made.
    pub title: String,
    /// The version of the application that created the session.
    pub version: String,
    /// The name of the last agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The last model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SessionModel>,
    /// The running total in US dollars.
    #[serde(default)]
    pub cost: f64,
    /// The running totals.
    #[serde(default)]
    pub tokens: Tokens,
    /// The size of the changes so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<SessionSummary>,
    /// The page that others can read, while it is shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<SessionShare>,
    /// Whatever a client keeps with the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// Rules for this session only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<Rule>>,
    /// Ours: for a session copied from a subagent's, the rules of the sessions above that one, a list for each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<Vec<Rule>>,
    /// A pending undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revert: Option<Revert>,
    /// The times of creation and of changes.
    pub time: SessionTime,
}

/// The page of a session that is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionShare {
    /// The link, which nobody can guess.
    pub url: String,
    /// Ours: the directory of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
}

/// The last model of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionModel {
    /// The model's id within the provider.
    pub id: String,
    /// The provider's id.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The variant, such as a reasoning effort.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// The size of a session's changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionSummary {
    /// The number of added lines.
    pub additions: u64,
    /// The number of removed lines.
    pub deletions: u64,
    /// The number of changed files.
    pub files: u64,
}

/// A pending undo: everything after the named message (or part) is hidden.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Revert {
    /// The first message that is undone.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The first part that is undone, if only a part of the message is.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// The git tree to restore on redo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The changes of the undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// Times in milliseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionTime {
    /// The time of creation.
    pub created: i64,
    /// The time of the last change.
    pub updated: i64,
    /// The start of a compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacting: Option<i64>,
    /// The time of archiving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<i64>,
}

/// One entry of a session's todo list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Todo {
    /// The task.
    pub content: String,
    /// The state of the task.
    pub status: TodoStatus,
    /// The importance of the task.
    pub priority: TodoPriority,
}

/// The state of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
    Cancelled,
}

impl TodoStatus {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The importance of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TodoPriority {
    High,
    Medium,
    Low,
}

impl TodoPriority {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// The activity of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SessionStatus {
    /// No turn is running.
    Idle,
    /// A turn is running.
    Busy,
    /// A turn waits before the next request to the provider.
    Retry {
        /// The number of the failed attempt, from 1.
        attempt: u32,
        /// The reason of the failure.
        message: String,
        /// The start of the next attempt, in milliseconds since the epoch.
        next: i64,
        /// The number of attempts after which the failure is final; not on the wire.
        #[serde(skip)]
        limit: Option<u32>,
    },
}

/// The sessions that a list has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ArchiveFilter {
    /// Those that are not archived.
    #[default]
    Exclude,
    Include,
    /// Archived ones.
    Only,
}
