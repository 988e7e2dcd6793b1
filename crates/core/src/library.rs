//! The contents of a workspace's files and configuration: agents, commands, skills and instruction files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};
use windlass_base::watch::Target;
use windlass_protocol::opencode::{config::AgentMode, model_ref::ModelRef, session::Session};

use crate::config::{Config, Warning, markdown, policy::Policy};

mod agents;
pub mod commands;
mod instructions;
pub mod nested;
pub mod skills;

/// The text in front of the user's message while the agent is `plan`.
pub const PLAN_REMINDER: &str = include_str!("library/prompts/plan_reminder.txt");

/// The text behind [`PLAN_REMINDER`] where the plan can be handed over; `{plan}` is the plan's file.
pub const PLAN_FILE_REMINDER: &str = include_str!("library/prompts/plan_file.txt");

/// The text in front of the first message after leaving `plan`.
pub const BUILD_REMINDER: &str = include_str!("library/prompts/build_reminder.txt");

/// An agent: a prompt, a model and permissions.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    pub name: String,
    /// The name that people are shown instead.
    pub title: Option<String>,
    pub description: Option<String>,
    pub mode: AgentMode,
    /// True for a built-in agent.
    pub native: bool,
    /// True if people are not shown the agent.
    pub hidden: bool,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub color: Option<String>,
    pub model: Option<ModelRef>,
    pub variant: Option<String>,
    /// The prompt that replaces the provider's.
    pub prompt: Option<Arc<str>>,
    /// Extra fields of the request body.
    pub options: Map<String, Value>,
    /// Maximum number of model calls in one turn.
    pub steps: Option<u32>,
    /// As a subagent, it works in a git worktree of its own.
    pub worktree: bool,
    /// The rules for its tool calls.
    pub policy: Policy,
}

impl Agent {
    /// Returns true if a user may choose it to answer: no subagent, not hidden.
    pub fn is_primary(&self) -> bool {
        !self.hidden && self.mode != AgentMode::Subagent
    }

    /// Returns true if the model or `@name` may give it work. Hidden subagents are only not shown to people.
    pub fn is_subagent(&self) -> bool {
        self.mode != AgentMode::Primary && !self.is_internal()
    }

    /// Returns true for the agents that windlass uses itself, even if the configuration changes them.
    pub fn is_internal(&self) -> bool {
        self.native && matches!(self.name.as_str(), "title" | "summary" | "compaction")
    }
}

/// An instruction file or page for the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionBlock {
    /// The absolute path or URL.
    pub source: String,
    /// The text, with a first line that names the source.
    pub text: String,
}

/// Returns the path of a session's plan: in the project, or in our data directory if there is no project
/// (facts: OpenCode §3.3).
pub fn plan_file(config: &Config, session: &Session) -> PathBuf {
    plans(config).join(format!("{}-{}.md", session.time.created, session.slug))
}

/// Returns the directory of plans.
pub fn plans(config: &Config) -> PathBuf {
    if config.worktree == Path::new("/") {
        config.paths.data.join("plans")
    } else {
        config.worktree.join(".opencode/plans")
    }
}

/// Returns the built-in agents and those of the configuration: the default agent first, then by name. They may
/// read the files of `skills`.
pub fn agents(config: &Config, skills: &[skills::Skill]) -> (Vec<Agent>, Vec<Warning>) {
    agents::agents(config, skills)
}

/// The known contents of the pages behind URLs: the text of each, or why it has none.
pub type Pages = HashMap<String, Result<String, String>>;

/// The instructions for the system prompt, and the problems found on the way.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    pub blocks: Vec<InstructionBlock>,
    /// Sources that were left out because they cannot be used, for the user to see.
    pub warnings: Vec<Warning>,
    /// Sources that were cut or left out because of their size, for the user to see. These are not mistakes.
    pub cuts: Vec<Warning>,
}

impl Instructions {
    /// Returns the warnings about all sources that do not reach the model in full.
    pub fn all_warnings(&self) -> Vec<Warning> {
        [self.warnings.as_slice(), &self.cuts].concat()
    }
}

/// Reads the instructions for the system prompt: the global file, the project's (outermost first), then the
/// entries of `instructions`, in their order. Does blocking reads.
pub fn instructions(config: &Config, pages: &Pages) -> Instructions {
    instructions::read(config, pages)
}

/// Returns the entries of `instructions` that match no file, apart from pages. Does blocking reads.
pub fn missing_instructions(config: &Config) -> Vec<String> {
    instructions::missing(config)
}

/// Reads the instruction files for their warnings, without pages. Does blocking reads.
pub fn instruction_files(config: &Config) -> Instructions {
    let mut read = instructions::read(config, &Pages::new());
    let is_file = |warning: &Warning| !instructions::is_url(&warning.source);
    read.warnings.retain(is_file);
    read.cuts.retain(is_file);
    read
}

/// Returns the files and directories that agents, commands and skills are read from, without the
/// configuration's own files.
pub fn sources(config: &Config) -> Vec<Target> {
    const NAMES: [&str; 6] = ["agent", "agents", "command", "commands", "mode", "modes"];
    let below = |directory: &PathBuf| NAMES.map(|name| definitions(directory.join(name)));
    let skills = skills::places(config).into_iter();
    let skills = skills.map(|root| Target::Tree { root, depth: skills::MAX_DEPTH });
    config.directories.iter().flat_map(below).chain(skills).collect()
}

/// Makes the target for a directory of agents, modes or commands.
pub fn definitions(root: PathBuf) -> Target {
    Target::Tree { root, depth: markdown::MAX_DEPTH }
}

/// Returns the URLs among `instructions`; [`instructions`] needs their pages.
pub fn instruction_urls(config: &Config) -> Vec<String> {
    let patterns = config.instructions.iter().map(|instruction| &instruction.pattern);
    patterns.filter(|pattern| instructions::is_url(pattern)).cloned().collect()
}
