//! Permission rules, requests and replies (facts: OpenCode §4).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::{MessageId, PermissionId, SessionId};

/// One line of a ruleset. The last matching rule decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Wildcard over permission names.
    pub permission: String,
    /// Wildcard over what is asked for.
    pub pattern: String,
    pub action: Action,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Allow,
    Ask,
    Deny,
}

impl Action {
    /// The word for it in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

/// A question to the user: may this tool call go on?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionRequest {
    pub id: PermissionId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Permission name, such as `bash` or `edit`.
    pub permission: String,
    /// What exactly is asked for.
    pub patterns: Vec<String>,
    /// What the user is shown: command, path, diff.
    pub metadata: Map<String, Value>,
    /// Patterns that are allowed from now on when the answer is `always`.
    pub always: Vec<String>,
    /// Ours: those of the patterns that were allowed for ever before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
}

/// The tool call that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRef {
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    #[serde(rename = "callID")]
    pub call_id: String,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Once,
    Always,
    Reject,
    /// Ours: a rejection that is remembered. Events say `reject`, as OpenCode knows no other.
    #[serde(rename = "reject_always")]
    RejectAlways,
}
