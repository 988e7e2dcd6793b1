//! Holds a change of the files that loosens something until the user has seen it.

use std::{sync::Arc, time::Instant};

use tokio_util::task::AbortOnDropHandle;
use windlass_base::{blocking::blocking, lock::lock};
use windlass_core::config::trust::{self, Held};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::SessionId,
    tool_metadata::{AskedConfig, encode},
};

use super::{
    directory::Reading,
    loosening::{Loosening, loosened},
};
use crate::{Answerable, Engine, Workspace, Workspaces, asking::asks::Confirmation, tools::CHANGE};

/// Lines of a question; the rest is counted.
const MAX_LINES: usize = 40;

impl Workspaces<'_> {
    /// Lets freshly read files hold, and says so when they are different. A change that loosens something while a
    /// session is open waits for the user; until then the earlier reading holds.
    pub(crate) fn apply_reading(self, workspace: &Arc<Workspace>, mut reading: Reading) {
        let session = self.session_to_ask(workspace);
        let before = workspace.loaded();
        if let (Some(session), Some(whole)) = (&session, reading.whole.take())
            // A change that one question cannot show whole is asked about in parts, with the next prompts.
            && reading.loaded.config.held.askable() == reading.loaded.config.held
        {
            let held = std::mem::replace(&mut reading.loaded, whole).config.held;
            return self.hold(workspace, reading, session.clone(), held.lines(), Some(held));
        }
        // The user has just said that the held-back entries may act.
        let (held, still_held) = (&before.config.held.entries, &reading.loaded.config.held.entries);
        let is_accepted = std::mem::take(&mut workspace.asked_trust().is_accepted);
        let is_trusted_now = is_accepted && still_held.iter().all(|it| held.contains(it));
        let loosenings = match session {
            Some(_) if !is_trusted_now => loosened(&before, &reading.loaded),
            Some(_) | None => Vec::new(),
        };
        match session {
            Some(session) if !loosenings.is_empty() => {
                self.hold(workspace, reading, session, lines(&loosenings), None);
            }
            Some(_) | None => {
                if workspace.replace(reading) {
                    self.announce_change(workspace);
                }
            }
        }
    }

    fn hold(
        self,
        workspace: &Arc<Workspace>,
        reading: Reading,
        session: SessionId,
        lines: String,
        held: Option<Held>,
    ) {
        let Some(id) = workspace.hold(reading) else { return };
        let directory = workspace.directory().display();
        tracing::info!(
            "the changed configuration of {directory} waits for the user's answer: {}",
            lines.replace('\n', "; ")
        );
        let asking = ask(self.engine.clone(), workspace.clone(), (id, held), session, lines);
        workspace.set_question(id, AbortOnDropHandle::new(tokio::spawn(asking)));
    }

    fn announce_change(self, workspace: &Workspace) {
        let directory = workspace.directory().display().to_string();
        tracing::info!(directory, "the configuration has changed");
        self.engine.bus().publish(EventPayload::ConfigUpdated { directory });
    }

    /// Returns the session with the client to ask: one with a client that can answer, then one that works, else the
    /// newest.
    fn session_to_ask(self, workspace: &Arc<Workspace>) -> Option<SessionId> {
        let sessions = lock(&self.engine.0.sessions.open);
        let own = sessions.iter().filter(|(_, it)| Arc::ptr_eq(&it.workspace, workspace) && !it.is_mcp_lent);
        let is_unanswerable = |id| !self.engine.clients().can_answer(id, Answerable::Permissions);
        own.min_by_key(|(id, open)| (is_unanswerable(id), open.tickets.is_empty(), id.to_string()))
            .map(|(id, _)| id.clone())
    }
}

/// Asks until an answer comes or no session is left.
///
/// A yes to a project's entries is remembered.
async fn ask(
    engine: Engine,
    workspace: Arc<Workspace>,
    (id, held): (Instant, Option<Held>),
    mut session: SessionId,
    lines: String,
) {
    let metadata = encode(&AskedConfig { changes: "apply the changed configuration", prompt: &lines });
    loop {
        match engine.asks().confirm(&session, CHANGE, metadata.clone()).await {
            Confirmation::Yes => {
                if let Some(held) = held {
                    let paths = workspace.loaded().config.paths.clone();
                    if let Err(error) = blocking(move || trust::remember(&paths, &held)).await {
                        tracing::warn!("trust in the changed project cannot be remembered: {error}");
                    }
                }
                if workspace.accept(id) {
                    engine.workspaces().announce_change(&workspace);
                    engine.plugins().load_accepted(workspace);
                }
                return;
            }
            Confirmation::No => {
                let directory = workspace.directory().display();
                tracing::info!(
                    "the changed configuration of {directory} was refused; the previous configuration stays until the \
                     files change again"
                );
                return;
            }
            // Its session was closed.
            Confirmation::Withdrawn => match engine.workspaces().session_to_ask(&workspace) {
                Some(other) => session = other,
                None => return,
            },
        }
    }
}

fn lines(loosenings: &[Loosening]) -> String {
    let mut lines: Vec<String> = loosenings.iter().take(MAX_LINES).map(ToString::to_string).collect();
    let n_more = loosenings.len().saturating_sub(MAX_LINES);
    if n_more > 0 {
        lines.push(format!("and {n_more} more"));
    }
    lines.join("\n")
}
