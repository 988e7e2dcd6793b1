//! The MCP servers of a directory's configuration, started to see whether they work.

use std::{path::Path, time::Duration};

use windlass_core::config::{Warning, layers};

use crate::{
    Diagnostics, EngineError, EngineErrorKind, EngineState, ServerReport, workspace::servers::reports,
};

impl Diagnostics<'_> {
    /// Starts the MCP servers of a directory's configuration, waits for them, and ends them again; with the parts of
    /// the configuration that may hide others.
    pub async fn mcp_servers(
        self,
        directory: &Path,
        limit: Duration,
    ) -> Result<(Vec<ServerReport>, Vec<Warning>), EngineError> {
        let workspace = self.engine.workspaces().workspace(directory).await?;
        workspace.mcp().settled(limit).await;
        let found = reports(&workspace);
        workspace.close().await;
        let (engine, directory) = (self.engine.clone(), directory.to_owned());
        let hidden = tokio::task::spawn_blocking(move || {
            let EngineState { environment, paths, hooks, .. } = engine.0.as_ref();
            layers::hidden_servers(environment, paths, &directory, hooks)
        });
        let hidden = hidden.await;
        Ok((found, hidden.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?))
    }
}
