//! Configuration: raw layers in, one resolved value out.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::{AgentConfig, CommandConfig, McpConfig, ProviderConfig, SkillsConfig},
    model_ref::ModelRef,
    permission::{Action, Rule},
    settings::{SandboxSettings, Settings},
};

mod binding;
pub mod cache;
pub mod check;
pub mod data_directory;
pub mod decode;
mod environment;
pub mod faults;
pub mod filled_in;
pub mod fixture;
pub mod formats;
pub mod frontmatter;
mod git_settings;
mod hook;
pub mod jsonc;
mod judge;
pub mod known_keys;
pub mod layer;
pub mod layers;
pub mod limits;
pub mod looser;
pub mod markdown;
pub mod market;
pub mod merge;
pub mod model;
pub mod normalize;
pub mod patch;
pub mod paths;
pub mod policy;
pub mod project_files;
mod project_programs;
pub mod protected_paths;
pub mod reader;
pub mod refusal;
pub mod remote;
pub mod rules;
pub mod sandbox;
pub mod schema;
pub mod secrets;
pub mod sources;
mod stronger;
pub mod text_file;
pub mod trust;
mod warning;
mod wording;
pub mod worktree;

pub use binding::ProjectAddresses;
pub use environment::Environment;
pub use hook::Hook;
pub use project_programs::ProjectPrograms;
pub use warning::{Findings, Warning};

use paths::Paths;

/// The resolved configuration of one directory. A turn keeps the one it began with.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub environment: Environment,
    pub paths: Paths,
    /// The directory sessions work in.
    pub directory: PathBuf,
    /// The repository's root; `/` outside git.
    pub worktree: PathBuf,
    /// The files of the project that are obeyed.
    pub project_files: Arc<project_files::ProjectFiles>,
    pub model: Option<ModelRef>,
    pub small_model: Option<ModelRef>,
    /// Keys that name a model, such as `agent.build.model`, where the source that may say so cannot be read:
    /// place and
    /// problem.
    pub unread_models: BTreeMap<String, String>,
    /// Place and problem of a provider that is left out whole, though it may be the one that is meant.
    pub lost_provider: Option<String>,
    /// Faults by their keys, for the failures that follow from them.
    pub faults: faults::Faults,
    pub default_agent: Option<String>,
    /// The rules of the merged `tools` and `permission`.
    pub permission: Vec<Rule>,
    /// The administrator's rules, which `permission` begins with: no other rules are looser.
    pub managed: Managed,
    pub agents: BTreeMap<String, AgentConfig>,
    /// Rules of agents that came over the network, which stand below the user's.
    pub fetched_rules: BTreeMap<String, Vec<Rule>>,
    /// Lists of tools and other limits, each a layer of every policy that it concerns.
    pub limits: Vec<limits::Bound>,
    /// Agents that are left out, because a restriction of theirs cannot be understood.
    pub left_out: BTreeSet<String>,
    pub commands: BTreeMap<String, CommandConfig>,
    pub skills: SkillsConfig,
    /// Directories with subdirectories that hold agents, commands and skills as files, the weakest first.
    pub directories: Vec<PathBuf>,
    /// Files and directories that may change this when they change.
    pub watched: BTreeSet<PathBuf>,
    /// Files and directories that rules, agents, commands and programs come from.
    pub protected: Arc<protected_paths::ProtectedPaths>,
    /// The part of the project that does not act, because nobody has trusted it.
    pub held: trust::Held,
    /// The addresses that only the project names.
    pub project_addresses: ProjectAddresses,
    /// The sandbox that the user asks for, without a project's additions.
    pub own_sandbox: SandboxSettings,
    /// The programs that the project brings.
    pub project_programs: ProjectPrograms,
    /// Texts that were put in for variables and files.
    pub substituted: BTreeSet<String>,
    /// Last readable state of each file of the configuration, for the time when it is broken.
    pub kept: BTreeMap<String, layer::Layer>,
    pub providers: BTreeMap<String, ProviderConfig>,
    pub disabled_providers: Vec<String>,
    pub enabled_providers: Option<Vec<String>>,
    pub mcp: BTreeMap<String, McpConfig>,
    /// Paths, globs and URLs of instruction files, with the directory each was named in.
    pub instructions: Vec<Instruction>,
    pub shell: Option<String>,
    pub tool_output: ToolOutputLimits,
    /// `windlass.file_time`: an existing file is changed only when the session knows it as it is.
    pub file_time: bool,
    /// `windlass.max_answer_bytes`: a longer answer of a model is cut off.
    pub max_answer_bytes: usize,
    /// The other keys, each of one feature.
    pub settings: Settings,
    /// Names that lose their order, or their place in the files, in the other fields.
    pub written: WrittenNames,
    /// The merged JSON, without `agent` and `command` where [`layers::load`] made it.
    raw: Map<String, Value>,
    /// Problems in the files, for the user to see.
    pub warnings: Vec<Warning>,
    /// Remarks for `windlass config check` on values that take effect but could be written better.
    pub notes: Vec<Warning>,
}

/// Keys that hold rules, at the top and below an agent.
const RULE_KEYS: [&str; 2] = ["permission", "tools"];
/// The key under which the merged configuration shows an administrator's rules.
const ADMINISTRATOR: &str = "administrator";

/// The administrator's rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Managed {
    pub general: Vec<Rule>,
    /// Rules under the names of agents.
    pub agents: BTreeMap<String, Vec<Rule>>,
}

impl Managed {
    /// Turns every `allow` into `ask`, since rules that cannot be read may have denied it.
    pub fn let_ask(&mut self) {
        let allowing = self.general.iter_mut().chain(self.agents.values_mut().flatten());
        allowing.filter(|rule| rule.action == Action::Allow).for_each(|rule| rule.action = Action::Ask);
        self.general.insert(0, rules::rule("*", "*", Action::Ask));
    }

    /// Returns the administrator's rules for an agent.
    pub fn rules(&self, agent: &str) -> Vec<Rule> {
        let own = self.agents.get(agent).map(Vec::as_slice).unwrap_or_default();
        [self.general.as_slice(), own].concat()
    }
}

/// An entry of `instructions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub pattern: String,
    /// Directory that relative patterns start from.
    pub base: PathBuf,
}

/// Names of entries, in the order of the files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenNames {
    pub providers: Vec<String>,
    /// Names below the general `permission`.
    pub permissions: Vec<String>,
    /// Names below the deprecated general `tools`.
    pub tools: Vec<String>,
}

/// `tool_output`: the amount that a tool may hand to the model before the rest goes to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolOutputLimits {
    pub max_lines: usize,
    pub max_bytes: usize,
}

impl Default for ToolOutputLimits {
    fn default() -> Self {
        Self { max_lines: 2000, max_bytes: 51_200 }
    }
}

impl Config {
    /// Returns the merged JSON for people to look at; nothing decides by it.
    pub fn merged_json(&self) -> &Map<String, Value> {
        &self.raw
    }

    /// Returns the values that are secret by their names or places, the longest first.
    pub fn secrets(&self) -> Vec<String> {
        secrets::known(&[], &Value::Object(self.raw.clone()))
    }

    /// Returns the directory that `OPENCODE_CONFIG_DIR` names, from the session's directory.
    pub fn named_directory(&self) -> Option<PathBuf> {
        self.environment.get("OPENCODE_CONFIG_DIR").map(|named| self.directory.join(named))
    }

    /// Returns the directories that plugins and tools are loaded from.
    pub fn script_directories(&self) -> impl Iterator<Item = &PathBuf> {
        self.directories.iter().filter(|it| !self.held.directories.contains(*it))
    }

    /// Returns true for a session in the user's home directory, where everything is the user's own.
    pub fn is_of_home(&self) -> bool {
        self.directory == self.environment.home
    }

    /// Returns true if a plugin or tool belongs to the project.
    pub fn is_projects(&self, file: &Path) -> bool {
        !self.is_of_home() && self.project_files.has(file)
    }

    /// Returns the session's directory, its parent, and so on up to the worktree's root.
    pub fn upwards(&self) -> Vec<PathBuf> {
        worktree::upwards(&self.directory, &self.worktree)
    }
}
