//! What a workspace offers by files and configuration: agents and instruction files.

use serde_json::{Map, Value};
use windlass_protocol::opencode::{config::AgentMode, message::ModelRef, permission::Rule};

use crate::config::{Config, Warning};

mod agents;
mod instructions;

/// Put before the user's message while the agent is `plan`.
pub const PLAN_REMINDER: &str = include_str!("library/prompts/plan_reminder.txt");

/// Put before the first message after leaving `plan`.
pub const BUILD_REMINDER: &str = include_str!("library/prompts/build_reminder.txt");

/// Who answers: a prompt, a model and what is allowed.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: String,
    /// What people are shown instead of the name.
    pub title: Option<String>,
    pub description: Option<String>,
    pub mode: AgentMode,
    /// Built in.
    pub native: bool,
    /// Not offered to the user.
    pub hidden: bool,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub color: Option<String>,
    pub model: Option<ModelRef>,
    pub variant: Option<String>,
    /// Replaces the provider's prompt.
    pub prompt: Option<String>,
    /// Extra fields of the request body.
    pub options: Map<String, Value>,
    /// Model calls in one turn.
    pub steps: Option<u32>,
    pub permission: Vec<Rule>,
}

impl Agent {
    /// Whether a user may choose it to answer: no subagent, not hidden.
    pub fn is_primary(&self) -> bool {
        !self.hidden && self.mode != AgentMode::Subagent
    }
}

/// An instruction file for the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionBlock {
    /// Absolute path.
    pub source: String,
    /// With a first line that names the source.
    pub text: String,
}

/// The built-in agents and those of the configuration: the default agent first, then by name.
pub fn agents(config: &Config) -> (Vec<Agent>, Vec<Warning>) {
    agents::agents(config)
}

/// The instruction files for the system prompt: the global one, the project's (outermost first), then those that
/// `instructions` names. Does blocking reads.
pub fn instructions(config: &Config) -> Vec<InstructionBlock> {
    instructions::read(config)
}
