//! Ends the services of directories that no session uses.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{base::lock::lock, engine::Engine};

impl Engine {
    /// Returns the directories whose services run.
    pub fn open_directories(&self) -> BTreeSet<PathBuf> {
        let of_terminals = self.0.terminals.directories();
        lock(&self.0.workspaces).keys().cloned().chain(of_terminals).collect()
    }

    /// Ends the servers and terminals of a directory, so that the next request begins with everything read anew.
    pub(crate) async fn close_services(&self, directory: &Path) {
        let workspace = lock(&self.0.workspaces).remove(directory);
        if let Some(workspace) = workspace {
            workspace.close().await;
        }
        self.end_plugins(directory).await;
        self.0.terminals.remove_all(Some(directory));
    }
}
