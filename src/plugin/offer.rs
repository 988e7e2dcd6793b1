//! Plugins' offers: hooks and tools, as the host reports them.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

/// Everything that the plugins of a directory offer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Offer {
    pub plugins: Vec<Report>,
    /// The names of all hooks that some plugin declares.
    pub hooks: BTreeSet<String>,
    pub tools: Vec<Arc<PluginTool>>,
    /// The program that runs them, with its version.
    pub runtime: String,
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
}
