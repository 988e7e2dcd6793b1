//! Plugins' offers: hooks and tools, as the host reports them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_base::json_schema::JsonSchema;

/// Everything that the plugins of a directory offer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Offer {
    pub plugins: Vec<Report>,
    /// The names of all hooks that some plugin declares.
    pub hooks: BTreeSet<String>,
    pub tools: Vec<Arc<PluginTool>>,
    /// Logins, one for each provider.
    pub logins: Vec<Login>,
    /// The providers with models that a plugin lists.
    pub models: Vec<String>,
    /// The program that runs them, with its version.
    pub runtime: String,
}

impl Offer {
    /// Adds the offers of others behind these. Of two logins at a provider the first stands, of two tools the last.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.plugins.extend(other.plugins.iter().cloned());
        self.hooks.extend(other.hooks.iter().cloned());
        self.tools.extend(other.tools.iter().cloned());
        let is_known = |login: &Login| self.logins.iter().any(|it| it.provider == login.provider);
        let new: Vec<Login> = other.logins.iter().filter(|it| !is_known(it)).cloned().collect();
        self.logins.extend(new);
        let new: Vec<String> = other.models.iter().filter(|it| !self.models.contains(it)).cloned().collect();
        self.models.extend(new);
        if self.runtime.is_empty() {
            self.runtime.clone_from(&other.runtime);
        }
        self
    }
}

/// Splits off the tools with a schema, written as JSON by the plugin, that is none; providers refuse a request with
/// one of them. Each is named with the reason.
pub fn usable(tools: Vec<Arc<PluginTool>>) -> (Vec<Arc<PluginTool>>, Vec<Report>) {
    let mut reports = Vec::new();
    let is_usable = |tool: &Arc<PluginTool>| {
        if !tool.plain {
            return true;
        }
        let Err(reason) = JsonSchema::compile(&tool.schema) else { return true };
        let error = Some(format!("the tool {} has no usable schema: {reason}", tool.id));
        reports.push(Report { name: tool.plugin.clone(), error, ..Report::default() });
        false
    };
    (tools.into_iter().filter(is_usable).collect(), reports)
}

/// The end of a plugin's loading.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Report {
    pub name: String,
    pub hooks: Vec<String>,
    /// The ids of its tools.
    pub tools: Vec<String>,
    /// Milliseconds that loading took.
    pub ms: u64,
    /// The reason why the plugin is left out.
    pub error: Option<String>,
}

/// A tool that a plugin or a tool file offers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PluginTool {
    pub id: String,
    /// The plugin or file that it comes from.
    pub plugin: String,
    pub description: String,
    pub schema: Arc<Value>,
    /// True for a schema that the plugin wrote as JSON: the daemon checks arguments against it.
    #[serde(default)]
    pub plain: bool,
}

/// The logins at a provider that a plugin brings.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Login {
    pub provider: String,
    pub plugin: String,
    pub methods: Vec<Method>,
    /// True if a plugin sets options of the provider once its login is stored.
    pub has_loader: bool,
}

/// A way to log in.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Method {
    /// `oauth` or `api`.
    #[serde(rename = "type")]
    pub kind: String,
    pub label: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Prompt>,
    /// True if the plugin does it; otherwise a key is asked for.
    #[serde(skip_serializing)]
    pub authorizes: bool,
}

/// A question of a login.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Prompt {
    /// `text` or `select`.
    #[serde(rename = "type")]
    pub kind: String,
    pub key: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Choice>,
}

/// One of the answers to choose from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Choice {
    pub label: String,
    pub value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Options that plugins set for a provider with a stored login.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoadedLogin {
    pub api_key: Option<String>,
    #[serde(rename = "baseURL")]
    pub base_url: Option<String>,
    pub headers: Option<BTreeMap<String, String>>,
    /// True if a plugin sends the requests.
    pub fetches: bool,
    /// The prices of models that they changed, by the models' ids.
    pub costs: BTreeMap<String, Value>,
}
