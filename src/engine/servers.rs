//! The MCP servers of a directory's configuration, started to see what becomes of them.

use std::{path::Path, time::Duration};

use super::{Engine, EngineError, ServerReport, ServerStatus, Workspace};
use crate::{config::secrets, mcp};

impl Engine {
    /// Starts the MCP servers of a directory's configuration, waits for them, and ends them again.
    pub async fn mcp_servers(
        &self,
        directory: &Path,
        limit: Duration,
    ) -> Result<Vec<ServerReport>, EngineError> {
        let workspace = self.workspace(directory).await?;
        workspace.mcp().settled(limit).await;
        let found = reports(&workspace);
        workspace.close().await;
        Ok(found)
    }
}

/// Every server of the configuration, also those that are switched off.
pub fn reports(workspace: &Workspace) -> Vec<ServerReport> {
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
