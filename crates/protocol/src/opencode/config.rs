//! The shapes of `opencode.json` entries that are decoded into types (facts: OpenCode §2.3).
//!
//! Attributes say what a type cannot: `range`, a `format` of `config::formats`, and `x-without-effect` where
//! nothing acts on a key yet; `x-elsewhere` has its names in other agents, for warnings. The check and the published schema both follow them.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value};

use super::settings::Settings;

/// A whole `opencode.json`, from which the schema is made. Layers are merged as JSON and decoded key by key.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfigFile {
    /// The address of the schema, for editors.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// The model that answers, `provider/model`.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "model")))]
    pub model: Option<String>,
    /// The model for titles and other small tasks.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "model")))]
    pub small_model: Option<String>,
    /// The agent a session starts with.
    pub default_agent: Option<String>,
    /// The program that runs commands.
    pub shell: Option<String>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "by-name")))]
    pub agent: BTreeMap<String, AgentConfig>,
    /// Deprecated: a primary `agent`.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "by-name")))]
    pub mode: BTreeMap<String, AgentConfig>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "by-name")))]
    pub command: BTreeMap<String, CommandConfig>,
    #[cfg_attr(feature = "schema", schemars(with = "Option<PermissionConfig>"))]
    pub permission: Option<Value>,
    /// Deprecated: `permission` by tool.
    pub tools: BTreeMap<String, bool>,
    pub provider: BTreeMap<String, ProviderConfig>,
    /// Providers that are not used.
    pub disabled_providers: Vec<String>,
    /// The only providers that are used.
    pub enabled_providers: Option<Vec<String>>,
    #[cfg_attr(feature = "schema", schemars(with = "BTreeMap<String, McpConfig>"))]
    pub mcp: BTreeMap<String, Value>,
    /// Paths, globs and URLs of files for the system prompt.
    #[cfg_attr(feature = "schema", schemars(extend("x-elsewhere" = ["rules", "customInstructions", "contextFileName"])))]
    pub instructions: Vec<String>,
    pub skills: SkillsConfig,
    #[serde(flatten)]
    pub settings: Settings,
}

/// An action for everything, or `{permission: action | {pattern: action}}`; the last match decides.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum PermissionConfig {
    All(ActionOrFalse),
    ByName(BTreeMap<String, Actions>),
}

#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Actions {
    One(ActionOrFalse),
    ByPattern(BTreeMap<String, ActionOrFalse>),
}

#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
enum ActionConfig {
    Allow,
    Ask,
    Deny,
}

/// An action, or `false` for `"deny"` as in the deprecated `tools`.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum ActionOrFalse {
    Action(ActionConfig),
    #[schemars(extend("const" = false))]
    False(bool),
}

/// `agent.<name>`. Unknown keys become model options.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct AgentConfig {
    /// The name that people are shown instead of the key.
    pub name: Option<String>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "model")))]
    pub model: Option<String>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "text")))]
    pub variant: Option<String>,
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 2)))]
    pub temperature: Option<f64>,
    #[cfg_attr(feature = "schema", schemars(range(min = 0, max = 1)))]
    pub top_p: Option<f64>,
    // Shared with values derived from the configuration, like `template` below.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "text")))]
    #[cfg_attr(feature = "schema", schemars(extend("x-elsewhere" = ["system", "systemPrompt", "instructions"])))]
    pub prompt: Option<Arc<str>>,
    pub description: Option<String>,
    pub mode: Option<AgentMode>,
    pub hidden: Option<bool>,
    pub disable: Option<bool>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "color")))]
    pub color: Option<String>,
    #[serde(alias = "maxSteps")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    #[cfg_attr(feature = "schema", schemars(extend("x-elsewhere" = ["maxTurns", "maxIterations"])))]
    pub steps: Option<u32>,
    /// As a subagent, it works in a git worktree of its own.
    pub worktree: Option<bool>,
    /// A string or an object; key order matters, so it stays raw until it becomes rules.
    #[cfg_attr(feature = "schema", schemars(with = "Option<PermissionConfig>"))]
    pub permission: Option<Value>,
    pub options: Map<String, Value>,
    /// Deprecated `{tool: bool}`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<BTreeMap<String, bool>>"))]
    pub tools: Option<ToolSwitches>,
}

/// Tools switched on and off, in the order of the file: the last of several for one permission decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolSwitches(pub Vec<(String, bool)>);

impl Serialize for ToolSwitches {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(tool, is_enabled)| (tool, is_enabled)))
    }
}

impl<'de> Deserialize<'de> for ToolSwitches {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = ToolSwitches;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<ToolSwitches, A::Error> {
                let mut switches = Vec::new();
                while let Some(switch) = entries.next_entry()? {
                    switches.push(switch);
                }
                Ok(ToolSwitches(switches))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

/// The places where an agent may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    Primary,
    Subagent,
    All,
}

/// `command.<name>`: a named prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CommandConfig {
    /// The prompt, with `$1`, `$ARGUMENTS`, `` !`cmd` `` and `@file` in it.
    pub template: Option<Arc<str>>,
    pub description: Option<String>,
    pub agent: Option<String>,
    #[cfg_attr(feature = "schema", schemars(extend("format" = "model")))]
    pub model: Option<String>,
    pub variant: Option<String>,
    /// True if a subagent carries it out.
    pub subtask: Option<bool>,
}

/// `skills`: additional places of skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SkillsConfig {
    pub paths: Vec<String>,
    #[cfg_attr(feature = "schema", schemars(with = "Vec<Url>"))]
    pub urls: Vec<String>,
}

#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(extend("format" = "url"))]
#[expect(dead_code, reason = "only its schema is used")]
struct Url(String);

/// `provider.<id>`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProviderConfig {
    /// A provider is called by its key, not by this.
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub id: Option<String>,
    pub name: Option<String>,
    /// The AI SDK package, which determines the provider's protocol.
    pub npm: Option<String>,
    /// The base URL.
    pub api: Option<String>,
    /// Environment variables that may hold the key.
    pub env: Vec<String>,
    pub options: ProviderOptions,
    pub models: BTreeMap<String, ModelConfig>,
    pub whitelist: Option<Vec<String>>,
    pub blacklist: Option<Vec<String>>,
}

/// `provider.<id>.options`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default, rename_all = "camelCase")]
pub struct ProviderOptions {
    pub api_key: Option<String>,
    #[serde(rename = "baseURL")]
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub base_url: Option<String>,
    pub headers: BTreeMap<String, String>,
    /// Whole-request limit in milliseconds, or `false` for none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Limit>"))]
    pub timeout: Option<Value>,
    /// Maximum milliseconds until the response headers, or `false` for none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Limit>"))]
    pub header_timeout: Option<Value>,
    /// Maximum milliseconds between two pieces of the stream, or `false` for none.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Limit>"))]
    pub chunk_timeout: Option<Value>,
    /// True if requests carry a cache key of the session.
    pub set_cache_key: Option<bool>,
    /// True for a LiteLLM server, which wants a tool in each conversation with calls.
    #[serde(rename = "litellmProxy")]
    pub litellm_proxy: Option<bool>,
    /// True for chat completions instead of responses at Azure.
    pub use_completion_urls: Option<bool>,
    /// The region of Amazon's models.
    pub region: Option<String>,
    /// The profile of Amazon's configuration that has the credentials.
    pub profile: Option<String>,
    /// Another name of `baseURL`, for Amazon's models.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "late-url")))]
    pub endpoint: Option<String>,
    /// The address of a self-hosted installation of the provider.
    #[cfg_attr(feature = "schema", schemars(extend("x-without-effect" = true)))]
    pub enterprise_url: Option<String>,
}

/// A number, or `false` for none.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Limit {
    #[schemars(extend("const" = false))]
    Off(bool),
    Milliseconds(u64),
}

/// `provider.<id>.models.<id>`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct ModelConfig {
    /// The id to send, if it differs from the key.
    pub id: Option<String>,
    pub name: Option<String>,
    pub family: Option<String>,
    pub attachment: Option<bool>,
    pub reasoning: Option<bool>,
    pub temperature: Option<bool>,
    pub tool_call: Option<bool>,
    pub experimental: Option<Value>,
    pub limit: Option<ModelLimit>,
    pub cost: Option<ModelCost>,
    pub modalities: Option<Modalities>,
    /// Extra fields of the request body.
    pub options: Map<String, Value>,
    pub headers: BTreeMap<String, String>,
    pub status: Option<String>,
    pub release_date: Option<String>,
    /// True if thoughts may come between calls; or `{field}`, the field that carries them.
    pub interleaved: Option<Value>,
    /// Named sets of options, each with `disabled` to leave it out.
    pub variants: BTreeMap<String, Map<String, Value>>,
    /// Overrides of the provider for this model.
    pub provider: Option<ModelProvider>,
}

/// `provider.<id>.models.<id>.provider`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct ModelProvider {
    pub npm: Option<String>,
    pub api: Option<String>,
}

/// Token limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct ModelLimit {
    pub context: u64,
    pub input: Option<u64>,
    pub output: u64,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct ModelCost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    /// The prices of requests with more than 200 000 tokens of input.
    pub context_over_200k: Option<LongContextCost>,
    /// The prices of requests with more input than a tier begins at.
    pub tiers: Vec<CostTier>,
}

/// An entry of `cost.tiers`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct CostTier {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    pub tier: TierStart,
}

/// `cost.tiers[].tier`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct TierStart {
    /// `context`: the tier is for requests with a long input.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tokens of input beyond which the prices hold.
    pub size: u64,
}

/// `cost.context_over_200k`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct LongContextCost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

/// Inputs and outputs of a model: `text`, `image`, `pdf`, `audio`, `video`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("additionalProperties" = true)))]
#[serde(default)]
pub struct Modalities {
    pub input: Vec<String>,
    pub output: Vec<String>,
}

/// `mcp.<name>`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum McpConfig {
    /// A child process with MCP on its pipes.
    Local {
        /// Program and arguments.
        #[cfg_attr(feature = "schema", schemars(extend("format" = "program", "x-elsewhere" = ["args", "cmd"])))]
        command: Vec<String>,
        #[serde(default)]
        cwd: Option<String>,
        #[serde(default)]
        environment: BTreeMap<String, String>,
        #[serde(default)]
        enabled: Option<bool>,
        /// Time limit in milliseconds.
        #[serde(default)]
        timeout: Option<u64>,
    },
    /// A server over streamable HTTP.
    Remote {
        #[cfg_attr(feature = "schema", schemars(extend("format" = "url", "x-elsewhere" = ["httpUrl", "serverUrl"])))]
        url: String,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        /// Who we are at its login, or `false` for none.
        #[serde(default)]
        oauth: Option<McpOauth>,
        #[serde(default)]
        enabled: Option<bool>,
        /// Time limit in milliseconds.
        #[serde(default)]
        timeout: Option<u64>,
    },
}

/// `mcp.<name>.oauth`: the settings of a login, or `false` for none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum McpOauth {
    Allowed(bool),
    Client(McpOauthClient),
}

/// Our identity at a server's login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, rename_all = "camelCase")]
pub struct McpOauthClient {
    pub client_id: Option<String>,
    pub client_secret: Option<String>,
    pub scope: Option<String>,
    pub redirect_uri: Option<String>,
    pub callback_port: Option<u16>,
    /// Ours: the address of a document that describes the client, for authorities that take such an address as an id.
    pub client_metadata_url: Option<String>,
    /// Ours: the way in which tokens are got; by a person in a browser unless this says otherwise.
    pub grant: Option<McpGrant>,
    /// Ours: the key in PEM's form by which a program shows that it is the client.
    pub private_key: Option<String>,
}

/// The way in which a client gets tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum McpGrant {
    AuthorizationCode,
    ClientCredentials,
}

/// One entry of `auth.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum AuthEntry {
    Api {
        key: String,
        /// Parts of the address that OpenCode asked for together with the key.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metadata: BTreeMap<String, String>,
    },
    Oauth {
        refresh: String,
        access: String,
        /// Milliseconds since the epoch.
        expires: i64,
        #[serde(default, rename = "accountId", skip_serializing_if = "Option::is_none")]
        account_id: Option<String>,
        /// The host of an instance of one's own, such as GitHub Enterprise.
        #[serde(default, rename = "enterpriseUrl", skip_serializing_if = "Option::is_none")]
        enterprise_url: Option<String>,
        /// Fields of a plugin's own, which its loader finds again.
        #[serde(flatten)]
        extra: Map<String, Value>,
    },
    Wellknown {
        key: String,
        token: String,
    },
}

impl AuthEntry {
    /// Makes the entry of a key that needs nothing beside it.
    pub fn key(key: &str) -> AuthEntry {
        AuthEntry::Api { key: key.to_owned(), metadata: BTreeMap::new() }
    }
}
