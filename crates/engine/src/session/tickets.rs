//! The prompts of a session that are not answered yet.

use std::{collections::HashMap, sync::Mutex};

use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;

use super::request::{TurnBegin, TurnEnd, TurnOutcome};
use crate::EngineError;

/// See the module's comment.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
}

struct Ticket {
    cancel: CancellationToken,
    on_begin: Option<TurnBegin>,
    on_end: TurnEnd,
    is_running: bool,
}

impl Tickets {
    /// Takes a prompt's answer into keeping; `cancel` cancels its turn.
    pub fn issue(
        &self,
        ticket: u64,
        cancel: CancellationToken,
        on_begin: Option<TurnBegin>,
        on_end: TurnEnd,
    ) {
        self.lock().insert(ticket, Ticket { cancel, on_begin, on_end, is_running: false });
    }

    /// Returns the token that cancels the turn this ticket begins; `None` when it was cancelled while it
    /// waited behind others.
    pub fn begin(&self, ticket: u64) -> Option<CancellationToken> {
        let (cancel, on_begin) = {
            let mut open = self.lock();
            let ticket = open.get_mut(&ticket)?;
            ticket.is_running = true;
            (ticket.cancel.clone(), ticket.on_begin.take())
        };
        if let Some(on_begin) = on_begin {
            on_begin();
        }
        Some(cancel)
    }

    /// Returns true if every prompt is answered.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Answers a ticket.
    pub fn end(&self, ticket: u64, result: Result<TurnOutcome, EngineError>) {
        let ended = self.lock().remove(&ticket);
        if let Some(ended) = ended {
            (ended.on_end)(result);
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
            (waiting.on_end)(Ok(TurnOutcome::cancelled()));
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
            (ticket.on_end)(Err(error.clone()));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Ticket>> {
        lock(&self.open)
    }
}

#[cfg(test)]
mod tests;
