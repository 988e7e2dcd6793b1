//! The programs of a directory as clients see and switch them: MCP servers, language servers and formatters.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde_json::Value;
use windlass_base::{blocking::blocking, lock::lock};
use windlass_core::{config::secrets, library::commands::Command};
use windlass_protocol::opencode::config::McpConfig;
use windlass_services::{
    mcp::{self, Status},
    tool::{
        format::{self, FormatterState},
        task,
    },
};

use super::{
    directory::Workspace,
    server_choice::{ServerChoice, specs, switched_off, switched_on},
};
use crate::{ServerReport, ServerStatus, mcp_commands};

/// Time that a client waits for a server to connect before it is shown as it is.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// Time that a list of commands waits for the prompts of servers that start.
const PROMPTS_LIMIT: Duration = Duration::from_secs(1);

impl Workspace {
    /// Returns every server by name with its state; `None` for one that is switched off. Waits a moment for those
    /// that connect.
    pub async fn server_states(&self) -> Vec<(String, Option<Status>)> {
        self.mcp().settled(SETTLE_LIMIT).await;
        let running = self.mcp().statuses();
        let names = self.server_configs().into_keys();
        names
            .map(|name| {
                let status = running.iter().find(|(known, _)| *known == name);
                let status = status.map(|(_, status)| status.clone());
                (name, status)
            })
            .collect()
    }

    /// Adds a server, or puts another in the place of one.
    pub fn add_server(&self, name: &str, config: McpConfig) {
        self.choose_server(name, ServerChoice::Added(Box::new(config)));
    }

    /// Connects a server, again if it failed. False if there is no such server.
    pub fn connect_server(&self, name: &str) -> bool {
        let Some(config) = self.server_configs().remove(name) else { return false };
        let is_added = matches!(lock(&self.server_choices).get(name), Some(ServerChoice::Added(_)));
        let choice =
            if is_added { ServerChoice::Added(Box::new(switched_on(config))) } else { ServerChoice::On };
        // A server that failed is forgotten first: the same specification would go on as it is.
        self.restart_servers(Some(name));
        self.choose_server(name, choice);
        true
    }

    /// Disconnects a server. False if there is no such server.
    pub fn disconnect_server(&self, name: &str) -> bool {
        let Some(config) = self.server_configs().remove(name) else { return false };
        let is_added = matches!(lock(&self.server_choices).get(name), Some(ServerChoice::Added(_)));
        let choice =
            if is_added { ServerChoice::Added(Box::new(switched_off(config))) } else { ServerChoice::Off };
        self.choose_server(name, choice);
        true
    }

    /// Takes away a server that a client has added; one of the configuration in its place comes back. False if there is no
    /// such server.
    pub fn remove_server(&self, name: &str) -> bool {
        let removed = {
            let mut choices = lock(&self.server_choices);
            let is_added = matches!(choices.get(name), Some(ServerChoice::Added(_)));
            is_added && choices.remove(name).is_some()
        };
        if removed {
            self.restart_servers(None);
        }
        removed
    }

    /// Returns the prompts of the directory's servers as commands. Waits a moment for servers that start.
    pub async fn server_commands(&self) -> Vec<Command> {
        let lease = self.mcp().lease();
        let _ = tokio::time::timeout(PROMPTS_LIMIT, lease.prompts_told()).await;
        mcp_commands::commands(&[lease], &self.loaded().commands)
    }

    /// Returns the resources of the directory's servers by name. Waits a moment for servers that start.
    pub async fn server_resources(&self) -> BTreeMap<String, Value> {
        self.mcp().settled(SETTLE_LIMIT).await;
        self.mcp().lease().all_resources().await
    }

    /// Returns true if there is a server of this name.
    pub fn has_server(&self, name: &str) -> bool {
        self.server_configs().contains_key(name)
    }

    /// Returns true if subagents may work in the background.
    pub fn has_background_subagents(&self) -> bool {
        task::is_in_background(&self.loaded().config)
    }

    /// Returns the id and root of each language server that was started, and if it runs.
    pub fn language_servers(&self) -> Vec<(String, PathBuf, bool)> {
        self.lsp().states()
    }

    /// Returns the configured formatters of files.
    pub async fn formatters(&self) -> Vec<FormatterState> {
        let loaded = self.loaded();
        blocking(move || format::states(&loaded.config)).await
    }

    fn choose_server(&self, name: &str, choice: ServerChoice) {
        lock(&self.server_choices).insert(name.to_owned(), choice);
        self.restart_servers(None);
    }

    fn restart_servers(&self, without: Option<&str>) {
        let mut specs = specs(&self.loaded(), &lock(&self.server_choices));
        specs.retain(|spec| Some(spec.name.as_str()) != without);
        self.mcp().replace(specs);
    }

    /// Returns a server's settings.
    pub(super) fn server_config(&self, name: &str) -> Option<McpConfig> {
        self.server_configs().remove(name)
    }

    /// Returns the configured servers and those that clients added.
    fn server_configs(&self) -> BTreeMap<String, McpConfig> {
        let mut configs = self.loaded().config.mcp.clone();
        for (name, choice) in lock(&self.server_choices).iter() {
            if let ServerChoice::Added(config) = choice {
                configs.insert(name.clone(), (**config).clone());
            }
        }
        configs
    }
}

/// Returns every server of the configuration, also those that are switched off.
pub(crate) fn reports(workspace: &Workspace) -> Vec<ServerReport> {
    let loaded = workspace.loaded();
    let mut started = workspace.mcp().reports();
    let mut found = Vec::new();
    for (name, config) in &loaded.config.mcp {
        match started.iter().position(|report| report.name == *name) {
            Some(position) => found.push(started.remove(position)),
            None => found.push(ServerReport {
                name: name.clone(),
                place: mcp::Server::of(config).to_string(),
                status: ServerStatus::Disabled,
                tools: Vec::new(),
            }),
        }
    }
    let mask = |report: ServerReport| ServerReport { place: secrets::command_line(&report.place), ..report };
    found.into_iter().map(mask).collect()
}
