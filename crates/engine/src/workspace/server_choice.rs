//! Clients' choices about the MCP servers of a directory, and the servers that run by them.

use std::collections::BTreeMap;

use windlass_protocol::opencode::config::McpConfig;
use windlass_services::mcp;

use super::loaded::Loaded;

/// A client's choice about a server; it lasts as long as the workspace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ServerChoice {
    On,
    Off,
    /// A server that the configuration does not have, or has otherwise.
    Added(Box<McpConfig>),
}

pub(crate) type ServerChoices = BTreeMap<String, ServerChoice>;

/// Returns the servers to run.
pub(crate) fn specs(loaded: &Loaded, choices: &ServerChoices) -> Vec<mcp::ServerSpec> {
    if choices.is_empty() {
        return loaded.servers();
    }
    let mut configs = loaded.config.mcp.clone();
    for (name, choice) in choices {
        match choice {
            ServerChoice::Added(config) => _ = configs.insert(name.clone(), (**config).clone()),
            ServerChoice::Off => _ = configs.remove(name),
            ServerChoice::On => {
                if let Some(config) = configs.remove(name) {
                    configs.insert(name.clone(), switched_on(config));
                }
            }
        }
    }
    let is_added = |name: &str| matches!(choices.get(name), Some(ServerChoice::Added(_)));
    mcp::specs(&loaded.config, &configs, is_added)
}

/// Returns a server's settings, switched on.
pub(crate) fn switched_on(config: McpConfig) -> McpConfig {
    switched(config, true)
}

/// Returns a server's settings, switched off.
pub(crate) fn switched_off(config: McpConfig) -> McpConfig {
    switched(config, false)
}

fn switched(mut config: McpConfig, is_on: bool) -> McpConfig {
    let (McpConfig::Local { enabled, .. } | McpConfig::Remote { enabled, .. }) = &mut config;
    *enabled = Some(is_on);
    config
}
