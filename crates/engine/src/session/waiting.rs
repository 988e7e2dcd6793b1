//! Keeps the prompts that wait in the store, and lists them again when a session is opened behind the end of its process.

use std::sync::{Arc, atomic::Ordering};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_protocol::opencode::id::{MessageId, SessionId};

use super::{
    kept_prompt::{self, Keeper, KeptPrompt, Restored},
    prompt_key::PromptKey,
    request::{PromptInput, PromptWatch},
    tickets::Identity,
};
use crate::Sessions;

impl Sessions<'_> {
    /// Keeps a prompt of a session until it is forgotten; `None` for one that is worth nothing after a restart.
    pub(crate) fn keep_prompt(
        self,
        session_id: &SessionId,
        id: &MessageId,
        input: &PromptInput,
        on_kept: Option<oneshot::Sender<()>>,
    ) -> Option<KeptPrompt> {
        let Some((kept, keeper)) = KeptPrompt::new(session_id, id, input) else {
            // It waits without a row.
            on_kept.map(|on_kept| on_kept.send(()));
            return None;
        };
        self.own(keeper.telling(on_kept));
        Some(kept)
    }

    fn own(self, keeper: Keeper) {
        self.engine.0.sessions.tasks.spawn(keeper.run(self.engine.storage().clone()));
    }

    /// Lists the prompts again that the end of another process left waiting: they stay until the next prompt.
    pub(crate) async fn restore_waiting(self, session_id: &SessionId) {
        let rows = match self.engine.storage().kept_prompts(session_id.clone()).await {
            Ok(rows) if rows.is_empty() => return,
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(session = %session_id, %error, "the prompts that wait were not read");
                return;
            }
        };
        // Another process that has the session open has them.
        let shared = self.engine.storage().session_locks.share(session_id).await;
        let is_alone = shared.alone().is_some();
        drop(shared);
        let sessions = lock(&self.engine.0.sessions.open);
        let Some(open) = sessions.get(session_id).filter(|_| is_alone) else { return };
        let restored = rows.into_iter().filter_map(|(id, row)| Some((kept_prompt::read(&id, row)?, id)));
        let mut restored: Vec<(Restored, MessageId)> = restored.collect();
        // Stable: those of one time are in the order of their ids.
        restored.sort_by_key(|(restored, _)| restored.rank);
        for (Restored { mut input, key, created, rank }, id) in restored {
            if open.tickets.has(&id) {
                continue;
            }
            let claimed = key.and_then(|mark| self.claim_key(&PromptKey::of_mark(session_id, mark)).ok());
            input.key = claimed.map(Arc::new);
            let (kept, keeper) = KeptPrompt::stored(session_id, &id);
            self.own(keeper);
            let ticket = self.engine.0.sessions.next_ticket.fetch_add(1, Ordering::Relaxed);
            // Nobody waits for its answer.
            let watch = PromptWatch { is_kept: true, ..PromptWatch::until_end(Box::new(drop)) };
            let identity = Identity { id, created, rank, kept: Some(kept) };
            open.tickets.issue(ticket, identity, CancellationToken::new(), watch, input);
        }
    }
}
