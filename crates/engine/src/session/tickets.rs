//! The prompts of a session that are not answered yet.

use std::{collections::HashMap, sync::Mutex};

use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;

use super::request::{PromptWatch, TurnOutcome};
use crate::EngineError;

/// See the module's comment.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
}

struct Ticket {
    cancel: CancellationToken,
    watch: PromptWatch,
    is_running: bool,
}

impl Tickets {
    /// Takes a prompt's answer into keeping; `cancel` cancels its turn.
    pub fn issue(&self, ticket: u64, cancel: CancellationToken, watch: PromptWatch) {
        self.lock().insert(ticket, Ticket { cancel, watch, is_running: false });
    }

    /// Returns the token that cancels the turn this ticket begins; `None` when it was cancelled while it
    /// waited behind others.
    pub fn begin(&self, ticket: u64) -> Option<CancellationToken> {
        let (cancel, on_begin) = {
            let mut open = self.lock();
            let ticket = open.get_mut(&ticket)?;
            ticket.is_running = true;
            (ticket.cancel.clone(), ticket.watch.on_begin.take())
        };
        if let Some(on_begin) = on_begin {
            on_begin();
        }
        Some(cancel)
    }

    /// Tells that a message of the user was stored in the turns that run.
    pub fn stored(&self) {
        let mut open = self.lock();
        for ticket in open.values_mut().filter(|it| it.is_running) {
            if let Some(on_stored) = ticket.watch.on_stored.take() {
                // The one that asked may have gone.
                let _ = on_stored.send(());
            }
        }
    }

    /// Returns true if every prompt is answered.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Answers a ticket.
    pub fn end(&self, ticket: u64, result: Result<TurnOutcome, EngineError>) {
        let ended = self.lock().remove(&ticket);
        if let Some(ended) = ended {
            (ended.watch.on_end)(result);
        }
    }

    /// Cancels one prompt: a running turn stops, and a prompt behind others is answered at once. The next to begin does so
    /// and ends: its words are on a screen already, so they are kept.
    pub fn cancel(&self, ticket: u64) {
        let waiting = {
            let mut open = self.lock();
            let is_next = open.keys().all(|other| *other >= ticket);
            match open.get(&ticket) {
                Some(entry) if entry.is_running || is_next => {
                    entry.cancel.cancel();
                    None
                }
                Some(_) => open.remove(&ticket),
                None => None,
            }
        };
        if let Some(waiting) = waiting {
            (waiting.watch.on_end)(Ok(TurnOutcome::cancelled()));
        }
    }

    /// Cancels every prompt of the session.
    pub fn cancel_all(&self) {
        let mut tickets: Vec<u64> = self.lock().keys().copied().collect();
        tickets.sort_unstable();
        for ticket in tickets {
            self.cancel(ticket);
        }
    }

    /// Answers all of them, in their order.
    pub fn end_all(&self, error: EngineError) {
        let open = std::mem::take(&mut *self.lock());
        let mut open: Vec<_> = open.into_iter().collect();
        open.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (_, ticket) in open {
            (ticket.watch.on_end)(Err(error.clone()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Ticket>> {
        lock(&self.open)
    }
}

#[cfg(test)]
mod tests;
