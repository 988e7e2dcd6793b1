//! Providers and their models as the HTTP API shows them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A provider: OpenCode's `Provider` object. Its key is never shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provider {
    pub id: String,
    pub name: String,
    pub source: ProviderSource,
    /// Variables that may hold its key.
    pub env: Vec<String>,
    pub options: Map<String, Value>,
    pub models: BTreeMap<String, ProviderModel>,
}

/// The place that a provider, or its key, comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    Env,
    Config,
    Custom,
    Api,
}

/// A model: OpenCode's `Model` object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProviderModel {
    pub id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    pub api: ModelApi,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    pub capabilities: ModelCapabilities,
    pub cost: ShownCost,
    pub limit: ShownLimit,
    pub status: String,
    pub options: Map<String, Value>,
    pub headers: BTreeMap<String, String>,
    pub release_date: String,
    #[serde(default)]
    pub variants: Map<String, Value>,
}

/// The way to reach a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelApi {
    pub id: String,
    pub url: String,
    pub npm: String,
}

/// The abilities of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelCapabilities {
    pub temperature: bool,
    pub reasoning: bool,
    pub attachment: bool,
    pub toolcall: bool,
    pub input: Media,
    pub output: Media,
    /// True if thoughts may come between calls; or `{field}`, the field that carries them.
    pub interleaved: Value,
}

/// Kinds of content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Media {
    pub text: bool,
    pub audio: bool,
    pub image: bool,
    pub video: bool,
    pub pdf: bool,
}

/// Prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownCost {
    pub input: f64,
    pub output: f64,
    pub cache: CacheCost,
}

/// Prices of cached tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CacheCost {
    pub read: f64,
    pub write: f64,
}

/// Token limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ShownLimit {
    pub context: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    pub output: u64,
}

/// The usable providers, and the best model of each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsableProviders {
    pub providers: Vec<Provider>,
    pub default: BTreeMap<String, String>,
}

/// Every known provider, and those that can be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllProviders {
    pub all: Vec<Provider>,
    pub default: BTreeMap<String, String>,
    pub connected: Vec<String>,
}
