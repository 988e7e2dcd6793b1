//! Permission rules, requests and replies (facts: OpenCode §4).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::id::{MessageId, PermissionId, SessionId};

/// One line of a ruleset. The last matching rule decides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rule {
    /// Wildcard over permission names.
    pub permission: String,
    /// Wildcard over the requested patterns.
    pub pattern: String,
    pub action: Action,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Allow,
    Ask,
    Deny,
}

impl Action {
    /// Returns the word for it in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

/// A question to the user about a tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionRequest {
    pub id: PermissionId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Permission name, such as `bash` or `edit`.
    pub permission: String,
    /// The requested patterns.
    pub patterns: Vec<String>,
    /// Details for the user: command, path, diff.
    pub metadata: Map<String, Value>,
    /// Patterns that are allowed from now on if the answer is `always`.
    pub always: Vec<String>,
    /// Ours: those of the patterns that were approved for ever earlier.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
}

/// The tool call that needs the permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolRef {
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    #[serde(rename = "callID")]
    pub call_id: String,
}

/// The user's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    Once,
    Always,
    Reject,
    /// Ours: a rejection that is remembered. Events report `reject`, as OpenCode knows no other.
    #[serde(rename = "reject_always")]
    RejectAlways,
}
