//! Language servers for people: which there are, and the installation of those that npm has.

use std::path::Path;

use windlass_base::blocking::blocking;
use windlass_services::{lsp, plugin::packages};

use super::{EngineError, EngineErrorKind, Workspaces};

/// The language servers of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageServers {
    /// All known and configured servers.
    pub servers: Vec<lsp::Program>,
    /// True if the configuration switches none on.
    pub is_off: bool,
}

impl Workspaces<'_> {
    /// Returns the language servers of a directory.
    pub async fn language_servers(self, directory: &Path) -> Result<LanguageServers, EngineError> {
        let loaded = self.inspect_files(directory).await?;
        let is_off = lsp::is_off(&loaded.config);
        let servers = blocking(move || lsp::every_program(&loaded.config)).await;
        Ok(LanguageServers { servers, is_off })
    }

    /// Installs a known language server from npm, again where it is installed. The error names the way out.
    pub async fn install_language_server(self, directory: &Path, id: &str) -> Result<(), EngineError> {
        let refuse = |reason| Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
        let loaded = self.inspect_files(directory).await?;
        let config = loaded.config.clone();
        let servers = blocking(move || lsp::every_program(&config)).await;
        let Some(server) = servers.iter().find(|it| it.id == id) else {
            return refuse(format!("there is no language server {id}; `windlass lsp list` shows all"));
        };
        if server.packages.is_empty() {
            let command = &server.command;
            return refuse(format!(
                "npm does not have {id}: install the program {command} and put it on PATH"
            ));
        }
        let wanted: Vec<String> = server.packages.iter().map(|it| format!("{it}@latest")).collect();
        let place = loaded.config.paths.language_server(id);
        match packages::install_into(&loaded.config, &place, &wanted).await {
            Ok(()) => Ok(()),
            Err(reason) => refuse(format!("{id} was not installed: {reason}")),
        }
    }
}
