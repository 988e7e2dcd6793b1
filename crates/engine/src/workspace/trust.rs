//! Asks the user whether a project's entries may act, with the first prompt that could use it.

use std::{collections::BTreeSet, sync::Arc};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::blocking::blocking;
use windlass_core::config::trust::{self, Held};
use windlass_protocol::opencode::{
    id::SessionId,
    tool_metadata::{AskedConfig, encode},
};

use crate::{Answerable, Workspace, Workspaces, asking::asks::Confirmation, tools::TRUST};

/// The user's answers about a project in this process.
#[derive(Default)]
pub struct Asked {
    /// Entries that are not to act now, by their hashes.
    refused: BTreeSet<String>,
    /// The next reading is the one that the user has just said yes to.
    pub(super) is_accepted: bool,
    /// Asks a client that may have no person, while a turn goes on.
    question: Option<AbortOnDropHandle<()>>,
}

impl Asked {
    fn has_refused(&self, held: &Held) -> bool {
        held.entries.iter().all(|entry| self.refused.contains(&entry.hash))
    }
}

impl Workspaces<'_> {
    /// Asks whether a project's entries may act, and waits for the answer where a person is there. Without one, and
    /// once the user said no, they go on being held back.
    pub(crate) async fn ask_trust(
        self,
        workspace: &Arc<Workspace>,
        session: &SessionId,
        cancel: &CancellationToken,
    ) {
        let held = workspace.loaded().config.held.askable();
        if held.entries.is_empty() || held.is_never || workspace.asked_trust().has_refused(&held) {
            return;
        }
        let can_answer = |wanted| self.engine.clients().can_answer(session, wanted);
        if can_answer(Answerable::Person) {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = self.ask_trust_of(workspace, session, held) => {}
            }
        } else if can_answer(Answerable::Everything) && workspace.asked_trust().question.is_none() {
            let (engine, asked, session) = (self.engine.clone(), workspace.clone(), session.clone());
            let asking = async move {
                engine.workspaces().ask_trust_of(&asked, &session, held).await;
                asked.asked_trust().question = None;
            };
            let asking = AbortOnDropHandle::new(tokio::spawn(asking));
            workspace.asked_trust().question = Some(asking);
        }
    }

    async fn ask_trust_of(self, workspace: &Arc<Workspace>, session: &SessionId, held: Held) {
        let prompt = held.lines();
        let changes = format!("trust the project {}, which brings", held.root.display());
        let metadata = encode(&AskedConfig { changes: &changes, prompt: &prompt });
        match self.engine.asks().confirm(session, TRUST, metadata).await {
            Confirmation::Yes => {
                let paths = workspace.loaded().config.paths.clone();
                let root = held.root.display().to_string();
                if let Err(error) = blocking(move || trust::remember(&paths, &held)).await {
                    tracing::warn!("trust in {root} cannot be remembered, so nothing of it acts: {error}");
                    return;
                }
                workspace.asked_trust().is_accepted = true;
                if let Err(error) = self.read_again(workspace).await {
                    tracing::warn!(%error, "the configuration was not read again");
                }
            }
            Confirmation::No => {
                let hashes = held.entries.into_iter().map(|entry| entry.hash);
                workspace.asked_trust().refused.extend(hashes);
            }
            Confirmation::Withdrawn => {}
        }
    }
}
