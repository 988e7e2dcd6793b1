//! Rules and their evaluation: the last matching rule decides (facts: OpenCode §4).

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

pub mod bash;

/// What a tool wants to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Permission name, such as `bash`, `edit` or `external_directory`.
    pub permission: String,
    /// What exactly is asked for; every pattern must be allowed.
    pub patterns: Vec<String>,
    /// Patterns that `always` allows from then on.
    pub always: Vec<String>,
    /// What the user is shown.
    pub metadata: Map<String, Value>,
}

/// What the rules say of one pattern; `Ask` when none matches.
pub fn evaluate(_permission: &str, _pattern: &str, _rules: &[Rule]) -> Action {
    Action::Ask
}
