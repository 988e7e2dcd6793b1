//! The keys of `opencode.json` that are plain settings of one feature each (facts: OpenCode §2.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings that take no part in choosing agents, models and permissions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    #[serde(rename = "logLevel")]
    pub log_level: Option<LogLevel>,
    pub server: ServerSettings,
    /// How deep subagents may start subagents.
    pub subagent_depth: Option<u32>,
    /// `name@version`, `file://…`, or a list of one of these and its options.
    pub plugin: Vec<PluginSpec>,
    /// Further directories, by name.
    #[serde(alias = "reference")]
    pub references: BTreeMap<String, Reference>,
    pub formatter: Option<Programs<Formatter>>,
    pub lsp: Option<Programs<LanguageServer>>,
    pub watcher: WatcherSettings,
    /// Whether the worktree's states are kept for undo.
    pub snapshot: Option<bool>,
    pub share: Option<Share>,
    /// Deprecated: `share: "auto"`.
    pub autoshare: Option<bool>,
    pub autoupdate: Option<AutoUpdate>,
    pub attachment: AttachmentSettings,
    pub tool_output: ToolOutputSettings,
    pub compaction: CompactionSettings,
    pub enterprise: EnterpriseSettings,
    /// The user's name in conversations.
    pub username: Option<String>,
    /// Deprecated, without effect.
    pub layout: Option<String>,
    pub experimental: ExperimentalSettings,
    pub windlass: WindlassSettings,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// `server`: OpenCode's HTTP interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSettings {
    pub port: Option<u16>,
    pub hostname: Option<String>,
    pub mdns: Option<bool>,
    #[serde(rename = "mdnsDomain")]
    pub mdns_domain: Option<String>,
    pub cors: Vec<String>,
}

/// An entry of `plugin`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum PluginSpec {
    Name(String),
    WithOptions(String, Map<String, Value>),
}

/// An entry of `references`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    pub path: Option<String>,
    pub repository: Option<String>,
    pub branch: Option<String>,
    pub description: Option<String>,
}

/// `formatter` and `lsp`: all off, all on, or one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Programs<P> {
    All(bool),
    ByName(BTreeMap<String, P>),
}

/// A program that formats files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Formatter {
    pub disabled: Option<bool>,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// A language server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LanguageServer {
    pub disabled: Option<bool>,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    pub initialization: Map<String, Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatcherSettings {
    /// Globs of files whose changes do not matter.
    pub ignore: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Share {
    Manual,
    Auto,
    Disabled,
}

/// `true`, `false` or `"notify"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AutoUpdate {
    Always(bool),
    Only(AutoUpdateWord),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AutoUpdateWord {
    Notify,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttachmentSettings {
    pub image: ImageSettings,
}

/// `attachment.image`: how large a picture may reach the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImageSettings {
    pub auto_resize: Option<bool>,
    pub max_width: Option<u32>,
    pub max_height: Option<u32>,
    pub max_base64_bytes: Option<u64>,
}

/// `tool_output`: what a tool may hand to the model before the rest goes to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolOutputSettings {
    pub max_lines: Option<usize>,
    pub max_bytes: Option<usize>,
}

/// `compaction`: when a long conversation is summarised, and what of it stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactionSettings {
    pub auto: Option<bool>,
    pub prune: Option<bool>,
    pub tail_turns: Option<u32>,
    pub preserve_recent_tokens: Option<u64>,
    pub reserved: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnterpriseSettings {
    /// Address of a share server of one's own.
    pub url: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentalSettings {
    pub disable_paste_summary: Option<bool>,
    #[serde(rename = "openTelemetry")]
    pub open_telemetry: Option<bool>,
    /// Tools that only primary agents have.
    pub primary_tools: Vec<String>,
    /// Whether a turn goes on after a refused call.
    pub continue_loop_on_deny: Option<bool>,
    /// Milliseconds.
    pub mcp_timeout: Option<u64>,
    pub policies: Option<Value>,
    /// Commands that run after a file was edited or a session ended.
    pub hook: Option<HookSettings>,
    /// How often a failed request is sent again.
    #[serde(rename = "chatMaxRetries")]
    pub chat_max_retries: Option<u32>,
    /// Whether models have the tool `batch`, which makes several calls at once.
    pub batch_tool: Option<bool>,
}

/// `experimental.hook`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookSettings {
    /// By the pattern of the files.
    pub file_edited: BTreeMap<String, Vec<HookCommand>>,
    pub session_completed: Vec<HookCommand>,
}

/// A command of `experimental.hook`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookCommand {
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
}

/// `windlass`: what OpenCode does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindlassSettings {
    /// Whether an existing file is changed only when the session knows it as it is.
    pub file_time: Option<bool>,
    /// Where else agents are: marketplaces.
    pub agents: MarketSettings,
    /// Where `websearch` and `codesearch` ask instead of Exa.
    pub exa_url: Option<String>,
    /// Where `websearch` asks instead of Parallel.
    pub parallel_url: Option<String>,
    /// The boundary around the commands that agents run.
    pub sandbox: SandboxSettings,
}

/// `windlass.sandbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxSettings {
    pub mode: Option<SandboxMode>,
    pub network: Option<SandboxNetwork>,
    /// Files and directories that may be written in every mode but `read-only`, from the session's directory.
    pub writable: Option<Vec<String>>,
    /// Names of variables that commands keep although windlass uses them itself.
    pub environment: Option<Vec<String>>,
    /// Whether commands in a full sandbox skip the rules of `bash` that ask.
    pub ask_less: Option<bool>,
    /// What is different for an agent, by its name.
    pub agents: BTreeMap<String, AgentSandbox>,
}

/// An entry of `windlass.sandbox.agents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AgentSandbox {
    pub mode: Option<SandboxMode>,
    pub network: Option<SandboxNetwork>,
    pub writable: Option<Vec<String>>,
    pub environment: Option<Vec<String>>,
    pub ask_less: Option<bool>,
}

/// What a command may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxMode {
    ReadOnly,
    WorkspaceWrite,
    Off,
}

impl SandboxMode {
    /// The word for it in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Off => "off",
        }
    }
}

/// The network a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxNetwork {
    Allow,
    Deny,
    Loopback,
}

/// `windlass.agents`: agents that nobody configured one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarketSettings {
    /// Directories of markdown agents, from the directory of the file that names them.
    pub paths: Vec<String>,
    /// Addresses of lists of agents: of a directory with `index.json`, or of a `.json` file.
    pub urls: Vec<String>,
}
