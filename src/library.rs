//! What a workspace offers by files and configuration: agents, commands, skills and instruction files.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{config::AgentMode, message::ModelRef, session::Session};

use crate::{
    base::watch::Target,
    config::{Config, Warning, markdown, policy::Policy},
};

mod agents;
pub mod commands;
mod instructions;
pub mod nested;
pub mod skills;

/// Put before the user's message while the agent is `plan`.
pub const PLAN_REMINDER: &str = include_str!("library/prompts/plan_reminder.txt");

/// Put behind [`PLAN_REMINDER`] where the plan can be handed over; `{plan}` is the plan's file.
pub const PLAN_FILE_REMINDER: &str = include_str!("library/prompts/plan_file.txt");

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
    /// Not shown to people.
    pub hidden: bool,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub color: Option<String>,
    pub model: Option<ModelRef>,
    pub variant: Option<String>,
    /// Replaces the provider's prompt.
    pub prompt: Option<Arc<str>>,
    /// Extra fields of the request body.
    pub options: Map<String, Value>,
    /// Model calls in one turn.
    pub steps: Option<u32>,
    /// The rules that decide about its calls.
    pub policy: Policy,
}

impl Agent {
    /// Whether a user may choose it to answer: no subagent, not hidden.
    pub fn is_primary(&self) -> bool {
        !self.hidden && self.mode != AgentMode::Subagent
    }

    /// Whether it may be given work, by the model and by `@name`: hidden ones are only not shown to people.
    pub fn is_subagent(&self) -> bool {
        self.mode != AgentMode::Primary && !self.is_internal()
    }

    /// Whether it is one that windlass uses itself, whatever the configuration makes of it.
    pub fn is_internal(&self) -> bool {
        self.native && matches!(self.name.as_str(), "title" | "summary" | "compaction")
    }
}

/// An instruction file or page for the system prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionBlock {
    /// Absolute path or URL.
    pub source: String,
    /// With a first line that names the source.
    pub text: String,
}

/// Where a session's plan is written: in the project, or beside our own data where there is none (facts: OpenCode §3.3).
pub fn plan_file(config: &Config, session: &Session) -> PathBuf {
    let directory = match config.worktree == Path::new("/") {
        true => config.paths.data.join("plans"),
        false => config.worktree.join(".opencode/plans"),
    };
    directory.join(format!("{}-{}.md", session.time.created, session.slug))
}

/// The built-in agents and those of the configuration: the default agent first, then by name. They may read what lies
/// beside `skills`.
pub fn agents(config: &Config, skills: &[skills::Skill]) -> (Vec<Agent>, Vec<Warning>) {
    agents::agents(config, skills)
}

/// What is known of the pages behind URLs: their texts, or why there is none.
pub type Pages = HashMap<String, Result<String, String>>;

/// What the user's instructions come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    pub blocks: Vec<InstructionBlock>,
    /// What was left out because it cannot be used, for the user to see.
    pub warnings: Vec<Warning>,
    /// What was cut or left out because there is so much of it, for the user to see; nobody's mistake.
    pub cuts: Vec<Warning>,
}

impl Instructions {
    /// Everything of which something does not reach a model.
    pub fn told(&self) -> Vec<Warning> {
        [self.warnings.as_slice(), &self.cuts].concat()
    }
}

/// The instructions for the system prompt: the global file, the project's (outermost first), then what
/// `instructions` names, in its order. Does blocking reads.
pub fn instructions(config: &Config, pages: &Pages) -> Instructions {
    instructions::read(config, pages)
}

/// The entries of `instructions` that name no file, pages aside. Does blocking reads.
pub fn missing_instructions(config: &Config) -> Vec<String> {
    instructions::missing(config)
}

/// What there is to tell of the instruction files, pages apart. Does blocking reads.
pub fn instruction_files(config: &Config) -> Instructions {
    let mut read = instructions::read(config, &Pages::new());
    let is_file = |warning: &Warning| !instructions::is_url(&warning.source);
    read.warnings.retain(is_file);
    read.cuts.retain(is_file);
    read
}

/// Where agents, commands and skills are read from, beside the configuration's own files.
pub fn sources(config: &Config) -> Vec<Target> {
    const NAMES: [&str; 6] = ["agent", "agents", "command", "commands", "mode", "modes"];
    let below = |directory: &PathBuf| NAMES.map(|name| definitions(directory.join(name)));
    let skills = skills::places(config).into_iter();
    let skills = skills.map(|root| Target::Tree { root, depth: skills::MAX_DEPTH });
    config.directories.iter().flat_map(below).chain(skills).collect()
}

/// A directory of agents, modes or commands.
pub fn definitions(root: PathBuf) -> Target {
    Target::Tree { root, depth: markdown::MAX_DEPTH }
}

/// The URLs among `instructions`, whose pages [`instructions`] wants.
pub fn instruction_urls(config: &Config) -> Vec<String> {
    let patterns = config.instructions.iter().map(|instruction| &instruction.pattern);
    patterns.filter(|pattern| instructions::is_url(pattern)).cloned().collect()
}
