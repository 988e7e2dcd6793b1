//! The keys of `opencode.json` that are plain settings of one feature each (facts: OpenCode §2.3).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings that do not affect the choice of agents, models and permissions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    #[serde(rename = "logLevel")]
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub log_level: Option<LogLevel>,
    pub server: ServerSettings,
    /// Maximum depth of subagents that start subagents.
    pub subagent_depth: Option<u32>,
    /// `name@version`, `file://…`, or a list of one of these and its options.
    pub plugin: Vec<PluginSpec>,
    /// Further directories, by name.
    #[serde(alias = "reference")]
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub references: BTreeMap<String, Reference>,
    /// Programs that format a file behind a change of it.
    pub formatter: Option<Programs<Formatter>>,
    pub lsp: Option<Programs<LanguageServer>>,
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub watcher: WatcherSettings,
    /// True to keep states of the worktree for undo.
    pub snapshot: Option<bool>,
    /// Whether sessions may be shared, and whether each new one is.
    pub share: Option<Share>,
    /// Deprecated: `share: "auto"`.
    pub autoshare: Option<bool>,
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub autoupdate: Option<AutoUpdate>,
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub attachment: AttachmentSettings,
    pub tool_output: ToolOutputSettings,
    pub compaction: CompactionSettings,
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
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

/// `formatter` and `lsp`: all off, all on, or individual settings.
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
    /// Globs of files whose changes are ignored.
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

/// `attachment.image`: the maximum size of pictures for the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImageSettings {
    pub auto_resize: Option<bool>,
    pub max_width: Option<u32>,
    pub max_height: Option<u32>,
    pub max_base64_bytes: Option<u64>,
}

/// `tool_output`: the maximum output of a tool for the model; the rest goes to a file. More fills any context.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolOutputSettings {
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub max_lines: Option<usize>,
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 10_000_000)))]
    pub max_bytes: Option<usize>,
}

/// `compaction`: when to summarise a long conversation, and which part of it to keep.
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
    /// The address of your own share server.
    pub url: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExperimentalSettings {
    pub disable_paste_summary: Option<bool>,
    #[serde(rename = "openTelemetry")]
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub open_telemetry: Option<bool>,
    /// Tools that only primary agents have.
    pub primary_tools: Vec<String>,
    /// True if a turn continues after a refused call.
    pub continue_loop_on_deny: Option<bool>,
    /// Time limit in milliseconds of the MCP servers that name none.
    pub mcp_timeout: Option<u64>,
    /// The older place of `policies`, which are read from here too.
    pub policies: Option<Value>,
    /// Commands that run after a file was edited or a session ended.
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub hook: Option<HookSettings>,
    /// Number of retries of a failed request.
    #[serde(rename = "chatMaxRetries")]
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub chat_max_retries: Option<u32>,
    /// True to offer models the tool `batch`, which makes several calls at once.
    pub batch_tool: Option<bool>,
}

/// `experimental.hook`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookSettings {
    /// Commands by the pattern of the files.
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

/// `windlass`: settings that OpenCode does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindlassSettings {
    /// True to change an existing file only if the session knows its current content.
    pub file_time: Option<bool>,
    /// The bytes of one answer's texts, thoughts and tool arguments; a longer answer is cut off.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 67_108_864)))]
    pub max_answer_bytes: Option<u64>,
    /// Additional agents from marketplaces.
    pub agents: MarketSettings,
    /// True to offer subagents that work in the background, as OpenCode does by a variable.
    pub background_subagents: Option<bool>,
    /// The address that `websearch` and `codesearch` use instead of Exa's.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub exa_url: Option<String>,
    /// The address that `websearch` uses instead of Parallel's.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub parallel_url: Option<String>,
    /// MCP servers in general.
    pub mcp: McpSettings,
    /// The process that plugins and custom tools run in.
    pub plugin: PluginSettings,
    /// The sandbox of the commands that agents run.
    pub sandbox: SandboxSettings,
    /// The Postgres in which this machine's sessions are shared with others. No project can set it.
    pub shared: SharedSettings,
    /// The place of pages of sessions that are shared with people.
    pub share: ShareSettings,
    /// The people of a server with accounts. No project can set it.
    pub accounts: AccountsSettings,
    /// The search for tools of MCP servers, where there are many.
    pub tool_search: ToolSearchSettings,
    /// Patterns of directories whose projects are trusted. No project can set it.
    pub trust: Vec<String>,
    /// The protocols of providers, by their ids, that their npm packages do not tell.
    pub wire: BTreeMap<String, WireName>,
}

/// `windlass.shared`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SharedSettings {
    /// The database, as `postgres://user@host/database`; without it nothing is shared.
    pub url: Option<String>,
    /// When a change is shown: once the database has it (default), or once this machine has it.
    pub ack: Option<Acknowledge>,
    /// The name of this node for people (default: the machine's).
    pub name: Option<String>,
    /// The address under which other nodes reach the server of this one.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub address: Option<String>,
    /// The schema that has the tables (default `windlass`).
    pub schema: Option<String>,
    /// Milliseconds after which a node that is not heard of loses its sessions (default 15000).
    #[cfg_attr(feature = "schema", schemars(range(min = 500, max = 600_000)))]
    pub lease: Option<u64>,
    /// A secret that encrypts the texts in the database; it has to be the same on every node.
    pub key: Option<String>,
    /// Whether answers that are remembered for a project hold on every node (default false).
    pub answers: Option<bool>,
    /// A git remote that brings the files of sessions from one machine to the next; without it they stay where they are.
    pub worktrees: Option<String>,
}

/// `windlass.share`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShareSettings {
    /// The directory that gets a page for each session that is shared, for a web server to serve.
    pub directory: Option<String>,
    /// The address of that directory for others; without it links lead to the file.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub url: Option<String>,
}

/// `windlass.accounts`: for `windlass serve --accounts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AccountsSettings {
    /// The server's address as browsers have it, such as `https://windlass.example.com`.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub url: Option<String>,
    /// The providers that log people in, by ids of your choice.
    pub providers: BTreeMap<String, LoginProvider>,
    /// A gateway before the server that has logged people in.
    pub gateway: Option<GatewaySettings>,
    /// Directories that a new account may open, with all below them.
    pub directories: Vec<String>,
    /// Sessions of one account that work at once.
    pub max_working: Option<u64>,
    /// Dollars that the sessions of one account may cost in 24 hours.
    pub max_cost: Option<u32>,
    /// False to leave `windlass.sandbox` as it is set: commands need a sandbox otherwise.
    pub sandbox: Option<bool>,
}

/// An entry of `windlass.accounts.providers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoginProvider {
    /// The name on the page; the id where it is absent.
    pub name: Option<String>,
    /// The address of an OpenID Connect provider; GitHub where it is absent.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub issuer: Option<String>,
    pub client_id: String,
    pub client_secret: Option<String>,
    pub scopes: Vec<String>,
    /// The address of a GitHub of your own.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub site: Option<String>,
    /// The same of its programming interface.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub api: Option<String>,
    /// Domains of confirmed mail addresses that get an account with their first login.
    pub domains: Vec<String>,
    /// True to give everybody an account that this provider logs in.
    pub everybody: bool,
}

/// `windlass.accounts.gateway`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GatewaySettings {
    pub issuer: String,
    pub audience: String,
    /// The address of its keys.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub keys: String,
    /// The header with the signed token, else `authorization`.
    pub header: Option<String>,
}

/// `windlass.shared.ack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Acknowledge {
    Shared,
    Local,
}

/// `windlass.mcp`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct McpSettings {
    /// Milliseconds that a prompt waits at most for the servers that are starting, all together (default 1000).
    #[cfg_attr(feature = "schema", schemars(range(max = 60_000)))]
    pub start_wait: Option<u64>,
}

/// `windlass.tool_search`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolSearchSettings {
    /// The tokens of all definitions above which servers' tools are searched for and not listed (default 10000).
    #[cfg_attr(feature = "schema", schemars(range(max = 10_000_000)))]
    pub above: Option<u64>,
    /// Names of servers whose tools are listed all the same.
    pub direct: Vec<String>,
}

/// `windlass.plugin`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PluginSettings {
    /// The program that runs plugins, Bun or Node; the first one found unless it is named.
    pub runtime: Option<String>,
    /// Milliseconds after which a hook that has not answered counts as failed (default 30000).
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 3_600_000)))]
    pub hook_timeout: Option<u64>,
    /// Milliseconds that a plugin may take to load (default 10000).
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 3_600_000)))]
    pub load_timeout: Option<u64>,
}

/// An entry of `windlass.wire`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WireName {
    /// OpenAI's chat completions.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini API.
    Google,
    /// Amazon Bedrock's Converse.
    Bedrock,
}

/// `windlass.sandbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxSettings {
    pub mode: Option<SandboxMode>,
    pub network: Option<SandboxNetwork>,
    /// Files and directories that are writable in every mode but `read-only`; relative paths start from the
    /// session's directory.
    pub writable: Option<Vec<String>>,
    /// Names of variables that commands keep although windlass uses them itself.
    pub environment: Option<Vec<String>>,
    /// Paths below the places of other programs' credentials, such as `~/.ssh`, that may be read.
    pub readable: Option<Vec<String>>,
    /// True to let commands in a full sandbox skip the `ask` rules of `bash`.
    pub ask_less: Option<bool>,
    /// True to run nothing outside: every command needs a sandbox, on a machine that holds none they are refused, and
    /// none is asked to leave it.
    pub required: Option<bool>,
    /// What the command line says; no file can.
    #[serde(skip)]
    pub at_start: SandboxAtStart,
    /// Settings that differ for an agent, by its name.
    pub agents: BTreeMap<String, AgentSandbox>,
    /// The boundary around local MCP servers.
    pub mcp: ServerSandbox,
    /// The boundary around language servers.
    pub lsp: ServerSandbox,
    /// The boundary around the host of plugins and tool files.
    pub plugins: ServerSandbox,
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
    pub readable: Option<Vec<String>>,
    pub ask_less: Option<bool>,
}

/// `windlass.sandbox.mcp`, `.lsp` and `.plugins`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServerSandbox {
    pub mode: Option<SandboxMode>,
    pub network: Option<SandboxNetwork>,
    pub writable: Option<Vec<String>>,
    pub environment: Option<Vec<String>>,
    pub readable: Option<Vec<String>>,
}

/// The sandbox that the start of a process asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SandboxAtStart {
    #[default]
    Unsaid,
    /// Commands may write the workspace, where the settings say nothing else and the machine holds the full level.
    Usual,
    /// As [`Self::Usual`], and they may write nothing.
    ReadOnly,
    /// Nothing runs in a sandbox, unless one is required.
    Off,
}

/// The files that a command may write, from the fewest to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxMode {
    ReadOnly,
    WorkspaceWrite,
    Off,
}

impl SandboxMode {
    /// Returns the word for it in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::WorkspaceWrite => "workspace-write",
            Self::Off => "off",
        }
    }
}

/// The network that a command can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum SandboxNetwork {
    Whole(WholeNetwork),
    Named(NamedNetwork),
}

/// A network as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WholeNetwork {
    Deny,
    Loopback,
    Allow,
}

/// The hosts that a command can reach, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NamedNetwork {
    /// Hosts that are reached unasked, such as `crates.io`, `*.npmjs.org`, `db.example:5432` or `*`.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<HostPattern>"))]
    pub allow: Vec<String>,
    /// Hosts that are never reached, on any port unless they name one.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<HostPattern>"))]
    pub deny: Vec<String>,
    /// The ports of the allowed hosts that name none (default 80 and 443).
    pub ports: Option<Vec<u16>>,
    /// Variables of which the command sees a placeholder, with the hosts whose requests get the value.
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, Vec<HostPattern>>"))]
    pub keys: BTreeMap<String, Vec<String>>,
}

/// `windlass.agents`: agents from directories and lists rather than from the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarketSettings {
    /// Directories of Markdown agents; relative paths start from the directory of the configuration file.
    pub paths: Vec<String>,
    /// URLs of lists of agents: a directory with `index.json`, or a `.json` file.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<TrustedUrl>"))]
    pub urls: Vec<String>,
}

#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(extend("format" = "trusted-url"))]
#[expect(dead_code, reason = "only its schema is used")]
struct TrustedUrl(String);

#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(extend("format" = "host"))]
#[expect(dead_code, reason = "only its schema is used")]
struct HostPattern(String);
