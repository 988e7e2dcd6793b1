//! The prompts of a session that are not answered yet, and those among them that wait: listed, changed and withdrawn.

use std::{collections::HashMap, sync::Mutex};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, ids, lock::lock};
use windlass_protocol::opencode::id::MessageId;

use super::{
    kept_prompt::{KeptPrompt, Settling},
    request::{
        Begun, Delivery, Invocation, PromptInput, PromptPart, PromptWatch, TurnOutcome, WaitingPrompt,
    },
};
use crate::{EngineError, EngineErrorKind};

/// See the module's comment.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
}

struct Ticket {
    id: MessageId,
    created: i64,
    cancel: CancellationToken,
    watch: PromptWatch,
    /// The prompt, until it begins.
    waiting: Option<Box<PromptInput>>,
    /// Its row in the store.
    kept: Option<KeptPrompt>,
    /// It waits for the next prompt.
    is_parked: bool,
    /// Dropped with it: others that wait for its end.
    ends: Vec<oneshot::Sender<()>>,
}

/// How a prompt is known while it waits.
pub struct Identity {
    pub id: MessageId,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// Its row in the store.
    pub kept: Option<KeptPrompt>,
}

impl Identity {
    /// Makes the identity of a prompt of which the store keeps nothing.
    pub fn of(input: &PromptInput) -> Self {
        let id = input.message_id.clone().unwrap_or_else(ids::message);
        Self { id, created: clock::now_ms(), kept: None }
    }
}

impl Ticket {
    fn is_running(&self) -> bool {
        self.waiting.is_none()
    }

    /// Answers its prompt, of which the store keeps nothing.
    fn end(self, result: Result<TurnOutcome, EngineError>) {
        if let Some(kept) = &self.kept {
            kept.forget();
        }
        (self.watch.on_end)(result);
    }
}

impl Tickets {
    /// Takes a prompt and its answer into keeping; `cancel` cancels its turn.
    pub fn issue(
        &self,
        ticket: u64,
        identity: Identity,
        cancel: CancellationToken,
        watch: PromptWatch,
        input: PromptInput,
    ) {
        let Identity { id, created, kept } = identity;
        let waiting = Some(Box::new(input));
        let (is_parked, ends) = (false, Vec::new());
        let entry = Ticket { id, created, cancel, watch, waiting, kept, is_parked, ends };
        self.lock().insert(ticket, entry);
    }

    /// Returns true if a prompt of this id waits or runs.
    pub fn has(&self, id: &MessageId) -> bool {
        self.lock().values().any(|ticket| ticket.id == *id)
    }

    /// Returns a receiver that fails when the prompt of this id is answered; `None` if none waits or runs.
    pub fn end_of(&self, id: &MessageId) -> Option<oneshot::Receiver<()>> {
        let mut open = self.lock();
        let ticket = open.values_mut().find(|ticket| ticket.id == *id)?;
        let (end, ended) = oneshot::channel();
        ticket.ends.push(end);
        Some(ended)
    }

    /// Returns the row of a waiting prompt that was read from the store: another process may have read it as well.
    pub fn restored_row(&self, ticket: u64) -> Option<MessageId> {
        let open = self.lock();
        let kept = open.get(&ticket).filter(|entry| !entry.is_running())?.kept.as_ref();
        kept.filter(|kept| kept.is_restored).map(|kept| kept.id.clone())
    }

    /// Lets the prompt of this id go on if it waits for the next one; returns its ticket then.
    pub fn wake_of(&self, id: &MessageId) -> Option<u64> {
        let mut open = self.lock();
        let parked = open.iter_mut().find(|(_, entry)| entry.id == *id && entry.is_parked);
        parked.map(|(ticket, entry)| {
            entry.is_parked = false;
            *ticket
        })
    }

    /// Lets one prompt go on that waits for the next one; false if it does not.
    pub fn unpark_one(&self, ticket: u64) -> bool {
        self.lock().get_mut(&ticket).is_some_and(|entry| std::mem::take(&mut entry.is_parked))
    }

    /// Lets a prompt wait for the next one.
    pub fn park(&self, ticket: u64) {
        if let Some(entry) = self.lock().get_mut(&ticket) {
            entry.is_parked = true;
        }
    }

    pub fn is_parked(&self, ticket: u64) -> bool {
        self.lock().get(&ticket).is_some_and(|entry| entry.is_parked)
    }

    /// Returns the prompts that waited for the next one, in their order: they go before it.
    pub fn unpark(&self) -> Vec<u64> {
        let mut open = self.lock();
        let parked = open
            .iter_mut()
            .filter_map(|(ticket, entry)| std::mem::take(&mut entry.is_parked).then_some(*ticket));
        let mut tickets: Vec<u64> = parked.collect();
        tickets.sort_unstable();
        tickets
    }

    /// Returns the prompt of a ticket that begins, and the token that cancels its turn; `None` when it was cancelled
    /// while it waited behind others.
    pub fn begin(&self, ticket: u64, begun: Begun) -> Option<(CancellationToken, PromptInput)> {
        let (cancel, input, on_begin) = {
            let mut open = self.lock();
            let ticket = open.get_mut(&ticket)?;
            let mut input = ticket.waiting.take()?;
            input.waiting_id = ticket.kept.as_ref().map(|kept| kept.id.clone());
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
        let is_steer = self.of_waiting(ticket, |input| input.delivery != Delivery::Turn);
        !self.is_parked(ticket) && is_steer == Some(true)
    }

    /// Returns true if a prompt that waits belongs into the conversation as it is, and not into a turn of its own.
    pub fn is_for_running_turn(&self, ticket: u64) -> bool {
        let is_for_it = |input: &mut PromptInput| {
            input.no_reply || input.of_task.is_some() || input.delivery != Delivery::Turn
        };
        !self.is_parked(ticket) && self.of_waiting(ticket, is_for_it) == Some(true)
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
        let listed = open.iter().filter_map(|(ticket, entry)| {
            let input = entry.waiting.as_deref().filter(|input| input.of_task.is_none())?;
            Some(WaitingPrompt {
                line: line(input),
                ticket: *ticket,
                id: entry.id.clone(),
                created: entry.created,
                is_parked: entry.is_parked,
                delivery: input.delivery,
                words: words(&input.parts),
            })
        });
        let mut listed: Vec<WaitingPrompt> = listed.collect();
        listed.sort_unstable_by_key(|waiting| waiting.ticket);
        listed
    }

    /// Works on a user's prompt that waits, as [`Tickets::waiting`] lists it; `None` if it does not any more.
    pub fn change<T>(&self, ticket: u64, work: impl FnOnce(&mut PromptInput) -> T) -> Option<T> {
        let mut open = self.lock();
        let Ticket { waiting, kept, created, .. } = open.get_mut(&ticket)?;
        let input = waiting.as_deref_mut().filter(|input| input.of_task.is_none())?;
        let done = work(input);
        if let Some(kept) = kept {
            kept.rewrite(input, *created);
        }
        Some(done)
    }

    /// Returns the way to learn when the store agrees with what is done to a prompt that waits.
    pub fn settling(&self, ticket: u64) -> Settling {
        Settling::of(self.lock().get(&ticket).and_then(|ticket| ticket.kept.as_ref()))
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
        withdrawn.end(Ok(TurnOutcome::cancelled()));
        true
    }

    /// Answers a prompt that waits, and forgets it; one that has begun goes on.
    pub fn end_waiting(&self, ticket: u64, result: Result<TurnOutcome, EngineError>) {
        let is_waiting = self.of_waiting(ticket, |_| ()).is_some();
        if is_waiting {
            self.end(ticket, result);
        }
    }

    /// Tells that a message of the user was stored in the turns that run: none of them has to wait again.
    pub fn stored(&self) {
        let mut open = self.lock();
        for ticket in open.values_mut().filter(|it| it.is_running()) {
            if let Some(kept) = &ticket.kept {
                kept.forget();
            }
            if let Some(on_stored) = ticket.watch.on_stored.take() {
                // The one that asked may have gone.
                let _ = on_stored.send(());
            }
        }
    }

    /// Returns true if no prompt runs or is about to.
    pub fn is_empty(&self) -> bool {
        self.lock().values().all(|ticket| ticket.is_parked)
    }

    /// Answers a ticket.
    pub fn end(&self, ticket: u64, result: Result<TurnOutcome, EngineError>) {
        let ended = self.lock().remove(&ticket);
        if let Some(ended) = ended {
            ended.end(result);
        }
    }

    /// Leaves the prompts that wait to the store, where the next start finds them, and says so to those that wait for the
    /// answers.
    pub fn leave_to_store(&self) {
        let is_left = |_: &u64, ticket: &mut Ticket| {
            !ticket.is_running() && ticket.kept.is_some() && !ticket.cancel.is_cancelled()
        };
        let left: Vec<_> = self.lock().extract_if(is_left).collect();
        for (_, ticket) in left {
            let message = "windlass ends; the prompt is kept, and goes on with the next one of its session";
            (ticket.watch.on_end)(Err(EngineError::new(EngineErrorKind::SessionBusy, message)));
        }
    }

    /// Cancels one prompt: a running turn stops, and a prompt behind others is answered at once, or waits for the next one
    /// where nobody waits for its answer. The next to begin does so and ends: its words are on a screen already, so they
    /// are kept.
    pub fn cancel(&self, ticket: u64) {
        let waiting = {
            let mut open = self.lock();
            let is_next = open.iter().all(|(other, entry)| *other >= ticket || entry.is_parked);
            match open.get_mut(&ticket) {
                Some(entry) if entry.is_parked => None,
                Some(entry) if entry.is_running() || is_next => {
                    entry.cancel.cancel();
                    None
                }
                Some(entry) if entry.watch.is_kept => {
                    entry.is_parked = true;
                    None
                }
                Some(_) => open.remove(&ticket),
                None => None,
            }
        };
        if let Some(waiting) = waiting {
            waiting.end(Ok(TurnOutcome::cancelled()));
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

    /// Answers all of them, in their order. Those whose answer nobody waits for stay until the next prompt.
    pub fn end_all(&self, error: EngineError) {
        let mut open: Vec<_> = {
            let mut open = self.lock();
            for ticket in open.values_mut().filter(|ticket| ticket.watch.is_kept && !ticket.is_running()) {
                ticket.is_parked = true;
            }
            open.extract_if(|_, ticket| !ticket.is_parked).collect()
        };
        open.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (_, ticket) in open {
            ticket.end(Err(error.clone()));
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

/// Returns a prompt as it would be typed; `None` for one with more than words.
fn line(input: &PromptInput) -> Option<String> {
    let is_typed = |part: &PromptPart| {
        matches!(part, PromptPart::Text { is_synthetic: false, .. } | PromptPart::Agent { .. })
    };
    let words = words(&input.parts);
    if words.trim().is_empty() || !input.parts.iter().all(is_typed) {
        return None;
    }
    Some(match &input.invocation {
        Invocation::Shell => format!("!{words}"),
        Invocation::Named(name) => format!("/{name} {words}"),
        Invocation::None | Invocation::Slash => words,
    })
}

#[cfg(test)]
mod tests;
