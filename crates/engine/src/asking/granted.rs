//! Permissions that a session's client gives in it, as long as it is open: directories beside the project, and edits.

use std::{path::PathBuf, sync::Arc};

use windlass_base::{blocking::blocking, lock::lock, path::real};
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::{
    id::SessionId,
    permission::{Action, Rule},
};

use crate::Asking;

/// Permissions that a session's client gives in it.
#[derive(Clone, Default)]
pub(crate) struct Granted {
    /// Directories beside the project, as rules.
    rules: Arc<[Rule]>,
    /// Edits are made without a question.
    accepts_edits: bool,
    /// The session that this one works for.
    above: Option<SessionId>,
}

impl Asking<'_> {
    /// Lets an open session reach these directories as it reaches its own, and no others that it was given before.
    pub async fn grant_directories(self, id: &SessionId, directories: Vec<PathBuf>) {
        let named: Arc<[PathBuf]> = directories.clone().into();
        let granted = blocking(move || {
            // A link and its target are the same directory.
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
        if let Some(open) = lock(&self.engine.0.sessions.open).get_mut(id) {
            open.granted.rules = granted;
            if let Some(servers) = open.mcp.as_ref().filter(|_| !open.is_mcp_lent) {
                servers.set_more_roots(&named);
            }
            open.directories = named;
        }
    }

    /// Returns the directories that an open session was let reach, as its client named them.
    pub fn granted_directories(self, id: &SessionId) -> Arc<[PathBuf]> {
        lock(&self.engine.0.sessions.open).get(id).map(|open| open.directories.clone()).unwrap_or_default()
    }

    /// Returns the rules that the client of a session sets in it, or in one that it works for.
    pub(crate) fn granted(self, id: &SessionId) -> Arc<[Rule]> {
        let rules = lock(&self.engine.0.sessions.open)
            .get(id)
            .map(|open| open.granted.rules.clone())
            .unwrap_or_default();
        if self.accepts_edits(id) {
            rules.iter().cloned().chain([rule("edit", "*", Action::Allow)]).collect()
        } else {
            rules
        }
    }

    /// Returns the permissions of a subagent's session, which follows the one that it works for.
    pub(crate) fn granted_below(self, id: &SessionId) -> Granted {
        let rules = lock(&self.engine.0.sessions.open)
            .get(id)
            .map(|open| open.granted.rules.clone())
            .unwrap_or_default();
        Granted { rules, accepts_edits: false, above: Some(id.clone()) }
    }

    /// Has an open session and its subagents make their edits without a question where the rules would ask, or no
    /// longer; from the next tool call on.
    pub fn accept_edits(self, id: &SessionId, accepts_edits: bool) {
        if let Some(open) = lock(&self.engine.0.sessions.open).get_mut(id) {
            open.granted.accepts_edits = accepts_edits;
        }
    }

    /// Returns true if an open session makes its edits without a question, or one that it works for does.
    pub fn accepts_edits(self, id: &SessionId) -> bool {
        let sessions = lock(&self.engine.0.sessions.open);
        let above =
            |granted: &&Granted| granted.above.as_ref().and_then(|id| Some(&sessions.get(id)?.granted));
        let own = sessions.get(id).map(|open| &open.granted);
        std::iter::successors(own, above).any(|granted| granted.accepts_edits)
    }
}
