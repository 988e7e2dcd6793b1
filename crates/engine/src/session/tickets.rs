//! The prompts of a session that are not answered yet, and those among them that wait: listed, changed and withdrawn.

use std::{collections::HashMap, sync::Mutex};

use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;

use super::request::{Begun, Delivery, PromptInput, PromptPart, PromptWatch, TurnOutcome, WaitingPrompt};
use crate::{EngineError, EngineErrorKind};

/// See the module's comment.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
}

struct Ticket {
    cancel: CancellationToken,
    watch: PromptWatch,
    /// The prompt, until it begins.
    waiting: Option<Box<PromptInput>>,
}

impl Ticket {
    fn is_running(&self) -> bool {
        self.waiting.is_none()
    }
}

impl Tickets {
    /// Takes a prompt and its answer into keeping; `cancel` cancels its turn.
    pub fn issue(&self, ticket: u64, cancel: CancellationToken, watch: PromptWatch, input: PromptInput) {
        self.lock().insert(ticket, Ticket { cancel, watch, waiting: Some(Box::new(input)) });
    }

    /// Returns the prompt of a ticket that begins, and the token that cancels its turn; `None` when it was cancelled
    /// while it waited behind others.
    pub fn begin(&self, ticket: u64, begun: Begun) -> Option<(CancellationToken, PromptInput)> {
        let (cancel, input, on_begin) = {
            let mut open = self.lock();
            let ticket = open.get_mut(&ticket)?;
            let input = ticket.waiting.take()?;
            (ticket.cancel.clone(), *input, ticket.watch.on_begin.take())
        };
        if let Some(on_begin) = on_begin {
            on_begin(begun);
        }
        Some((cancel, input))
    }

    /// Ends a ticket whose prompt is for a running turn alone; true if it was.
    pub fn end_without_turn(&self, ticket: u64) -> bool {
        let is_meant = self.of_waiting(ticket, |input| input.delivery == Delivery::SteerOnly) == Some(true);
        if is_meant {
            let message = "No turn runs that could take the prompt in.";
            self.end(ticket, Err(EngineError::new(EngineErrorKind::NoTurn, message)));
        }
        is_meant
    }

    /// Returns true for words of the user that wait for the running turn.
    pub fn is_steer(&self, ticket: u64) -> bool {
        self.of_waiting(ticket, |input| input.delivery != Delivery::Turn) == Some(true)
    }

    /// Returns true if a prompt that waits belongs into the conversation as it is, and not into a turn of its own.
    pub fn is_for_running_turn(&self, ticket: u64) -> bool {
        let is_for_it = |input: &mut PromptInput| {
            input.no_reply || input.of_task.is_some() || input.delivery != Delivery::Turn
        };
        self.of_waiting(ticket, is_for_it) == Some(true)
    }

    /// Works on a prompt that waits; `None` if it does not any more.
    pub fn of_waiting<T>(&self, ticket: u64, work: impl FnOnce(&mut PromptInput) -> T) -> Option<T> {
        self.lock().get_mut(&ticket)?.waiting.as_deref_mut().map(work)
    }

    /// Returns the number of prompts that wait.
    pub fn n_waiting(&self) -> usize {
        self.lock().values().filter(|entry| !entry.is_running()).count()
    }

    /// Lists the user's prompts that wait, in the order in which they came.
    pub fn waiting(&self) -> Vec<WaitingPrompt> {
        let open = self.lock();
        let waiting = open.iter().filter_map(|(ticket, entry)| Some((*ticket, entry.waiting.as_deref()?)));
        let of_users = waiting.filter(|(_, input)| input.of_task.is_none());
        let mut listed: Vec<WaitingPrompt> = of_users
            .map(|(ticket, input)| WaitingPrompt {
                ticket,
                delivery: input.delivery,
                words: words(&input.parts),
            })
            .collect();
        listed.sort_unstable_by_key(|waiting| waiting.ticket);
        listed
    }

    /// Works on a user's prompt that waits, as [`Tickets::waiting`] lists it; `None` if it does not any more.
    pub fn change<T>(&self, ticket: u64, work: impl FnOnce(&mut PromptInput) -> T) -> Option<T> {
        self.of_waiting(ticket, |input| input.of_task.is_none().then(|| work(input))).flatten()
    }

    /// Answers a user's prompt that waits as a cancelled one, and forgets it; false if it has begun.
    pub fn withdraw(&self, ticket: u64) -> bool {
        let withdrawn = {
            let mut open = self.lock();
            match open.get(&ticket) {
                Some(entry) if entry.waiting.as_ref().is_some_and(|input| input.of_task.is_none()) => {
                    open.remove(&ticket)
                }
                Some(_) | None => None,
            }
        };
        let Some(withdrawn) = withdrawn else { return false };
        (withdrawn.watch.on_end)(Ok(TurnOutcome::cancelled()));
        true
    }

    /// Answers a prompt that waits, and forgets it; one that has begun goes on.
    pub fn end_waiting(&self, ticket: u64, result: Result<TurnOutcome, EngineError>) {
        let is_waiting = self.of_waiting(ticket, |_| ()).is_some();
        if is_waiting {
            self.end(ticket, result);
        }
    }

    /// Tells that a message of the user was stored in the turns that run.
    pub fn stored(&self) {
        let mut open = self.lock();
        for ticket in open.values_mut().filter(|it| it.is_running()) {
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
                Some(entry) if entry.is_running() || is_next => {
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

fn words(parts: &[PromptPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        PromptPart::Text { text, is_synthetic: false, .. } => Some(text.as_str()),
        PromptPart::Text { .. }
        | PromptPart::File(_)
        | PromptPart::Document { .. }
        | PromptPart::Agent { .. }
        | PromptPart::Subtask { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
