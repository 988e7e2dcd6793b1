//! Directories beside the project that a session's client lets it reach.

use std::{path::PathBuf, sync::Arc};

use windlass_protocol::opencode::{
    id::SessionId,
    permission::{Action, Rule},
};

use crate::{
    base::{blocking::blocking, lock::lock, path::real},
    engine::Engine,
};

impl Engine {
    /// Lets an open session reach these directories as it reaches its own, and no others that it was given before.
    pub async fn grant_directories(&self, id: &SessionId, directories: Vec<PathBuf>) {
        let granted = blocking(move || {
            // A link and what it leads to are the same directory.
            let both = directories.iter().flat_map(|directory| [directory.clone(), real(directory)]);
            let mut rules: Vec<Rule> = Vec::new();
            for directory in both {
                let pattern = format!("{}/*", directory.display());
                if !rules.iter().any(|rule| rule.pattern == pattern) {
                    let permission = "external_directory".to_owned();
                    rules.push(Rule { permission, pattern, action: Action::Allow });
                }
            }
            rules
        });
        let granted: Arc<[Rule]> = granted.await.into();
        if let Some(open) = lock(&self.0.sessions).get_mut(id) {
            open.granted = granted;
        }
    }

    /// Returns what the client of a session allows in it, or in the session that it works for.
    pub(crate) fn granted(&self, id: &SessionId) -> Arc<[Rule]> {
        lock(&self.0.sessions).get(id).map(|open| open.granted.clone()).unwrap_or_default()
    }
}
