//! Ends the services of directories that no session uses.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use windlass_base::lock::lock;
use windlass_protocol::opencode::id::SessionId;

use super::directory::Workspace;
use crate::{Client, Workspaces};

impl Workspaces<'_> {
    /// Ends a directory's services with its last session.
    pub(crate) async fn close_if_unused(self, workspace: Arc<Workspace>) {
        let is_used =
            lock(&self.engine.0.sessions.open).values().any(|open| Arc::ptr_eq(&open.workspace, &workspace));
        if is_used {
            return;
        }
        lock(&self.engine.0.workspaces).retain(|_, other| !Arc::ptr_eq(other, &workspace));
        self.engine.plugins().end(workspace.directory()).await;
        workspace.close().await;
    }

    /// Returns the directories with running services.
    pub fn directories(self) -> BTreeSet<PathBuf> {
        let of_terminals = self.engine.0.terminals.directories();
        lock(&self.engine.0.workspaces).keys().cloned().chain(of_terminals).collect()
    }

    /// Ends the servers and terminals of a directory, so that the next request begins with everything read anew.
    pub(crate) async fn close_services(self, directory: &Path) {
        let workspace = lock(&self.engine.0.workspaces).remove(directory);
        if let Some(workspace) = workspace {
            workspace.close().await;
        }
        self.engine.plugins().end(directory).await;
        self.engine.0.terminals.remove_all(Some(directory));
    }

    /// Ends the services of the directories that were used longest ago, while more than `max` directories have some:
    /// of none that `is_watched`, or where a session works, a terminal is open, or another client than this one holds
    /// a session. A session of such a directory is opened again when it is used again.
    pub async fn close_idle(self, client: &Client, max: usize, is_watched: impl Fn(&Path) -> bool) {
        let mut idle: Vec<(Instant, PathBuf)> = {
            let workspaces = lock(&self.engine.0.workspaces);
            if workspaces.len() <= max {
                return;
            }
            workspaces.iter().map(|(directory, workspace)| (workspace.used_at(), directory.clone())).collect()
        };
        let n_too_many = idle.len().saturating_sub(max);
        idle.sort();
        let of_terminals = self.engine.0.terminals.directories();
        let mut closing = Vec::new();
        for (_, directory) in idle {
            if closing.len() == n_too_many {
                break;
            }
            let is_used = of_terminals.contains(&directory)
                || is_watched(&directory)
                || self.is_in_use(client, &directory);
            if !is_used {
                closing.push(directory);
            }
        }
        for directory in closing {
            for id in self.engine.sessions().close_directory(&directory).await {
                client.release(&id);
            }
        }
    }

    /// Returns true if a session of a directory works, or is held by another client.
    fn is_in_use(self, client: &Client, directory: &Path) -> bool {
        let open: Vec<(SessionId, bool)> = {
            let sessions = lock(&self.engine.0.sessions.open);
            let here = sessions.iter().filter(|(_, open)| open.workspace.directory() == directory);
            here.map(|(id, open)| (id.clone(), !open.tickets.is_empty())).collect()
        };
        open.into_iter().any(|(id, is_working)| is_working || client.is_shared(&id))
    }
}

#[cfg(test)]
mod tests;
