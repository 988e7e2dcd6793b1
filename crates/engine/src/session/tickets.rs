//! The prompts of a session that are not answered yet, and those among them that wait: listed, changed and withdrawn.

use std::{collections::HashMap, sync::Mutex};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, ids, lock::lock};
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{MessageId, SessionId},
    inbox::{InboxEvent, InboxItem},
};

use super::{
    kept_prompt::{KeptPrompt, Settling},
    request::{
        Begun, Delivery, Invocation, Place, PromptInput, PromptPart, PromptWatch, TurnOutcome, WaitingPrompt,
    },
};
use crate::{EngineError, EngineErrorKind};

/// See the module's comment.
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
    session_id: SessionId,
    /// Hears of the prompts that wait.
    bus: Bus,
}

struct Ticket {
    id: MessageId,
    place: Place,
    created: i64,
    /// The order of the rows in the store: the time at which it came, unless it was moved.
    rank: i64,
    /// Its session's task is about to begin it, so it is not moved any more.
    is_taken: bool,
    /// Clients know that it waits.
    is_told: bool,
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
    /// The answer, whatever its turn comes to.
    abandoned: Option<EngineError>,
}

/// How a prompt is known while it waits.
pub struct Identity {
    pub id: MessageId,
    /// Milliseconds since the epoch.
    pub created: i64,
    /// See [`Ticket::rank`].
    pub rank: i64,
    /// Its row in the store.
    pub kept: Option<KeptPrompt>,
}

impl Identity {
    /// Makes the identity of a prompt of which the store keeps nothing.
    pub fn of(input: &PromptInput) -> Self {
        let id = input.message_id.clone().unwrap_or_else(ids::message);
        let created = clock::now_ms();
        Self { id, created, rank: created, kept: None }
    }
}

impl Ticket {
    fn is_running(&self) -> bool {
        self.waiting.is_none()
    }

    /// Returns the end of a prompt that cannot begin. One that was cancelled before has its user's end.
    fn unbegun(&self, error: &EngineError) -> Result<TurnOutcome, EngineError> {
        if self.cancel.is_cancelled() { Ok(TurnOutcome::cancelled()) } else { Err(error.clone()) }
    }

    /// Returns the prompt if it is a user's and waits.
    fn listed(&self) -> Option<&PromptInput> {
        self.waiting.as_deref().filter(|input| input.of_task.is_none())
    }

    fn park(&mut self) {
        (self.is_parked, self.is_taken) = (true, false);
    }
}

impl Tickets {
    pub fn new(session_id: &SessionId, bus: &Bus) -> Self {
        Self { open: Mutex::default(), session_id: session_id.clone(), bus: bus.clone() }
    }

    /// Takes a prompt and its answer into keeping; `cancel` cancels its turn. Clients are told of one that waits.
    pub fn issue(
        &self,
        ticket: u64,
        identity: Identity,
        cancel: CancellationToken,
        watch: PromptWatch,
        input: PromptInput,
    ) {
        let Identity { id, created, rank, kept } = identity;
        let is_restored = kept.as_ref().is_some_and(|kept| kept.is_restored);
        let is_users = input.of_task.is_none();
        let enqueued = {
            let mut open = self.lock();
            let is_behind = open.values().any(|other| !other.is_parked);
            let entry = Ticket {
                id,
                place: Place(ticket),
                created,
                rank,
                is_taken: false,
                is_told: is_users && (is_behind || is_restored),
                cancel,
                watch,
                waiting: Some(Box::new(input)),
                kept,
                is_parked: is_restored,
                ends: Vec::new(),
                abandoned: None,
            };
            let entry = open.entry(ticket).insert_entry(entry);
            let waiting = waiting(ticket, entry.get()).filter(|_| is_users && is_behind && !is_restored);
            waiting.map(|waiting| waiting.item(&self.session_id))
        };
        if let Some(item) = enqueued {
            let (session_id, inbox_id) = (self.session_id.clone(), item.id.clone());
            self.tell(InboxEvent::Enqueued { session_id, inbox_id, item });
        }
    }

    /// Puts a prompt behind all others, in a place of this number, which no other one has had.
    pub fn place_last(&self, ticket: u64, number: u64) -> Option<Place> {
        let mut open = self.lock();
        let entry = open.get_mut(&ticket)?;
        entry.place = Place(number);
        Some(entry.place)
    }

    /// Takes up the prompt in this place; `None` if none waits there.
    pub fn take(&self, place: Place) -> Option<u64> {
        self.take_if(place, |_| true)
    }

    /// Takes up the prompt in this place, if it belongs into the conversation as it is and not into a turn of
    /// its own.
    pub fn take_for_running_turn(&self, place: Place) -> Option<u64> {
        self.take_if(place, is_for_running_turn)
    }

    fn take_if(&self, place: Place, is_wanted: impl Fn(&PromptInput) -> bool) -> Option<u64> {
        let mut open = self.lock();
        let (ticket, entry) = at(&mut open, place)?;
        let is_taken = entry.waiting.as_deref().is_some_and(is_wanted);
        entry.is_taken |= is_taken;
        is_taken.then_some(ticket)
    }

    /// Works on the prompt in a place; `None` if none waits there.
    pub fn of_place<T>(&self, place: Place, work: impl FnOnce(&mut PromptInput) -> T) -> Option<T> {
        at(&mut self.lock(), place)?.1.waiting.as_deref_mut().map(work)
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
        let ticket = self.lock().iter().find(|(_, entry)| entry.id == *id).map(|(ticket, _)| *ticket)?;
        self.unpark_one(ticket).then_some(ticket)
    }

    fn tell(&self, event: InboxEvent) {
        self.bus.publish(EventPayload::Inbox(event));
    }

    /// Tells clients all prompts that wait, some of which have changed.
    fn tell_updated(&self) {
        let session_id = self.session_id.clone();
        let mut open = self.lock();
        for entry in open.values_mut().filter(|entry| entry.listed().is_some()) {
            entry.is_told = true;
        }
        let inbox = all_waiting(&open).iter().map(|waiting| waiting.item(&session_id)).collect();
        // Under the lock: of two lists that are told at once, the newer is the last.
        self.tell(InboxEvent::Updated { session_id, inbox });
    }

    /// Answers the prompt of a ticket that was taken out, of which the store keeps nothing.
    fn finish(&self, ticket: Ticket, result: Result<TurnOutcome, EngineError>) {
        if ticket.is_told && !ticket.is_running() {
            let (session_id, inbox_id) = (self.session_id.clone(), ticket.id.clone());
            self.tell(InboxEvent::Cancelled { session_id, inbox_id });
        }
        if let Some(kept) = &ticket.kept {
            kept.forget();
        }
        (ticket.watch.on_end)(ticket.abandoned.map_or(result, Err));
    }

    /// Lets one prompt go on that waits for the next one; false if it does not.
    pub fn unpark_one(&self, ticket: u64) -> bool {
        let is_unparked =
            self.lock().get_mut(&ticket).is_some_and(|entry| std::mem::take(&mut entry.is_parked));
        if is_unparked {
            self.tell_updated();
        }
        is_unparked
    }

    /// Lets a prompt wait for the next one.
    pub fn park(&self, ticket: u64) {
        if let Some(entry) = self.lock().get_mut(&ticket) {
            entry.park();
        }
        self.tell_updated();
    }

    /// Returns the prompts that waited for the next one, in their order: they go before it.
    pub fn unpark(&self) -> Vec<u64> {
        let mut places = {
            let mut open = self.lock();
            let parked = open.iter_mut().filter_map(|(ticket, entry)| {
                std::mem::take(&mut entry.is_parked).then_some((entry.place, *ticket))
            });
            let parked: Vec<(Place, u64)> = parked.collect();
            parked
        };
        if !places.is_empty() {
            self.tell_updated();
        }
        places.sort_unstable();
        places.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Puts a user's prompt that waits where the list has this index; false if it does not wait any more. Prompts that wait
    /// for the next one stay before the others.
    pub fn move_to(&self, ticket: u64, index: usize) -> bool {
        let is_moved = {
            let mut open = self.lock();
            let movable = |entry: &Ticket| entry.listed().is_some() && !entry.is_taken;
            let Some(is_parked) = open.get(&ticket).filter(|it| movable(it)).map(|it| it.is_parked) else {
                return false;
            };
            let mut order: Vec<(Place, u64)> = open
                .iter()
                .filter(|(_, entry)| entry.listed().is_some())
                .map(|(ticket, entry)| (entry.place, *ticket))
                .collect();
            order.sort_unstable();
            order.retain(|(_, other)| *other != ticket);
            let own = open.get(&ticket).map_or(Place(ticket), |entry| entry.place);
            order.insert(index.min(order.len()), (own, ticket));
            order.retain(|(_, other)| open[other].is_parked == is_parked && !open[other].is_taken);
            let tickets: Vec<u64> = order.iter().map(|(_, ticket)| *ticket).collect();
            reorder(&mut open, &tickets)
        };
        if is_moved {
            self.tell_updated();
        }
        true
    }

    /// Returns the prompt of a ticket that begins, and the token that cancels its turn; `None` when it was cancelled
    /// while it waited behind others.
    pub fn begin(&self, ticket: u64, begun: Begun) -> Option<(CancellationToken, PromptInput)> {
        let (cancel, input, on_begin, told) = {
            let mut open = self.lock();
            let ticket = open.get_mut(&ticket)?;
            let mut input = ticket.waiting.take()?;
            input.waiting_id = ticket.kept.as_ref().map(|kept| kept.id.clone());
            let told = ticket.is_told.then(|| ticket.id.clone());
            (ticket.cancel.clone(), *input, ticket.watch.on_begin.take(), told)
        };
        if let Some(inbox_id) = told {
            self.tell(InboxEvent::Delivered { session_id: self.session_id.clone(), inbox_id });
        }
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
    pub fn is_steer(&self, place: Place) -> bool {
        self.of_place(place, |input| input.delivery != Delivery::Turn) == Some(true)
    }

    /// Returns true if a prompt that waits belongs into the conversation as it is, and not into a turn of its own.
    pub fn is_for_running_turn(&self, place: Place) -> bool {
        self.of_place(place, |input| is_for_running_turn(input)) == Some(true)
    }

    /// Works on a prompt that waits; `None` if it does not any more.
    pub fn of_waiting<T>(&self, ticket: u64, work: impl FnOnce(&mut PromptInput) -> T) -> Option<T> {
        self.lock().get_mut(&ticket)?.waiting.as_deref_mut().map(work)
    }

    /// Returns the number of prompts that wait.
    pub fn n_waiting(&self) -> usize {
        self.lock().values().filter(|entry| !entry.is_running()).count()
    }

    /// Lists the user's prompts that wait, in their order.
    pub fn waiting(&self) -> Vec<WaitingPrompt> {
        all_waiting(&self.lock())
    }

    /// Changes a user's prompt that waits, as [`Tickets::waiting`] lists it; false if it does not any more.
    pub fn change(&self, ticket: u64, work: impl FnOnce(&mut PromptInput)) -> bool {
        let (before, after) = {
            let mut open = self.lock();
            let Some(entry) = open.get_mut(&ticket) else { return false };
            let Some(before) = waiting(ticket, entry) else { return false };
            if let Some(input) = entry.waiting.as_deref_mut() {
                work(input);
            }
            rewrite(entry);
            (before.item(&self.session_id), waiting(ticket, entry).map(|after| after.item(&self.session_id)))
        };
        let Some(after) = after else { return false };
        if before.delivery != after.delivery {
            let (session_id, inbox_id) = (self.session_id.clone(), after.id.clone());
            let delivery = after.delivery;
            self.tell(InboxEvent::DeliveryChanged { session_id, inbox_id, delivery });
        }
        if (InboxItem { delivery: after.delivery, ..before }) != after {
            self.tell_updated();
        }
        true
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
        self.finish(withdrawn, Ok(TurnOutcome::cancelled()));
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
            self.finish(ended, result);
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
        if self.cancel_or_park(ticket) {
            self.tell_updated();
        }
    }

    /// Does so; returns true if the prompt waits for the next one from now on.
    fn cancel_or_park(&self, ticket: u64) -> bool {
        let mut is_parked = false;
        let waiting = {
            let mut open = self.lock();
            let own = open.get(&ticket).map(|entry| entry.place);
            let is_next = open.values().all(|entry| Some(entry.place) >= own || entry.is_parked);
            match open.get_mut(&ticket) {
                Some(entry) if entry.is_parked => None,
                Some(entry) if entry.is_running() || is_next => {
                    entry.cancel.cancel();
                    None
                }
                Some(entry) if entry.watch.is_kept => {
                    entry.park();
                    is_parked = true;
                    None
                }
                Some(_) => open.remove(&ticket),
                None => None,
            }
        };
        if let Some(waiting) = waiting {
            self.finish(waiting, Ok(TurnOutcome::cancelled()));
        }
        is_parked
    }

    /// Cancels every prompt of the session.
    pub fn cancel_all(&self) {
        let mut places: Vec<(Place, u64)> =
            self.lock().iter().map(|(ticket, entry)| (entry.place, *ticket)).collect();
        places.sort_unstable();
        let mut n_parked = 0;
        for (_, ticket) in places {
            n_parked += usize::from(self.cancel_or_park(ticket));
        }
        if n_parked > 0 {
            self.tell_updated();
        }
    }

    /// Stops the turn that runs, which is answered with an error at its end, and answers the others with it: nothing more
    /// may be done in the session.
    pub fn abandon(&self, error: &EngineError) {
        let mut running = Vec::new();
        let mut waiting = Vec::new();
        for (ticket, entry) in self.lock().iter_mut() {
            if entry.is_running() {
                entry.abandoned = Some(error.clone());
                running.push(entry.cancel.clone());
            } else if entry.watch.is_kept {
                // Its row goes with the session.
                entry.park();
            } else {
                waiting.push((entry.place, *ticket, entry.unbegun(error)));
            }
        }
        waiting.sort_unstable_by_key(|(place, ..)| *place);
        for (_, ticket, outcome) in waiting {
            self.end(ticket, outcome);
        }
        running.iter().for_each(CancellationToken::cancel);
    }

    /// Answers all of them, in their order. Those whose answer nobody waits for stay until the next prompt.
    pub fn end_all(&self, error: EngineError) {
        let mut n_parked = 0;
        let mut open: Vec<_> = {
            let mut open = self.lock();
            let kept = open.values_mut().filter(|ticket| ticket.watch.is_kept && !ticket.is_running());
            for ticket in kept.filter(|ticket| !ticket.is_parked) {
                ticket.park();
                n_parked += 1;
            }
            open.extract_if(|_, ticket| !ticket.is_parked).collect()
        };
        open.sort_unstable_by_key(|(_, ticket)| ticket.place);
        for (_, ticket) in open {
            let outcome = ticket.unbegun(&error);
            self.finish(ticket, outcome);
        }
        if n_parked > 0 {
            self.tell_updated();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Ticket>> {
        lock(&self.open)
    }
}

fn is_for_running_turn(input: &PromptInput) -> bool {
    input.no_reply || input.of_task.is_some() || input.delivery != Delivery::Turn
}

/// Returns the ticket in a place, unless it waits for the next prompt.
fn at(open: &mut HashMap<u64, Ticket>, place: Place) -> Option<(u64, &mut Ticket)> {
    let found = open.iter_mut().find(|(_, entry)| entry.place == place && !entry.is_parked)?;
    Some((*found.0, found.1))
}

/// Gives these prompts each other's places, so that they stand in this order; false if they do already.
fn reorder(open: &mut HashMap<u64, Ticket>, tickets: &[u64]) -> bool {
    let listed = || tickets.iter().filter_map(|ticket| open.get(ticket));
    let (mut places, mut ranks): (Vec<Place>, Vec<i64>) =
        listed().map(|entry| (entry.place, entry.rank)).unzip();
    if places.is_sorted() {
        return false;
    }
    places.sort_unstable();
    ranks.sort_unstable();
    let mut last = i64::MIN;
    for (ticket, (place, rank)) in tickets.iter().zip(places.into_iter().zip(ranks)) {
        // Those that came within a millisecond keep an order as well.
        last = rank.max(last.saturating_add(1));
        if let Some(entry) = open.get_mut(ticket) {
            (entry.place, entry.rank) = (place, last);
            rewrite(entry);
        }
    }
    true
}

/// Has the store keep a prompt as it is now.
fn rewrite(entry: &Ticket) {
    if let (Some(kept), Some(input)) = (&entry.kept, entry.waiting.as_deref()) {
        kept.rewrite(input, entry.created, entry.rank);
    }
}

fn all_waiting(open: &HashMap<u64, Ticket>) -> Vec<WaitingPrompt> {
    let listed = open.iter().filter_map(|(ticket, entry)| Some((entry.place, waiting(*ticket, entry)?)));
    let mut listed: Vec<(Place, WaitingPrompt)> = listed.collect();
    listed.sort_unstable_by_key(|(place, _)| *place);
    listed.into_iter().map(|(_, waiting)| waiting).collect()
}

/// Returns a user's prompt that waits as it is listed.
fn waiting(ticket: u64, entry: &Ticket) -> Option<WaitingPrompt> {
    let input = entry.listed()?;
    Some(WaitingPrompt {
        line: line(input),
        ticket,
        id: entry.id.clone(),
        created: entry.created,
        is_parked: entry.is_parked,
        delivery: input.delivery,
        words: words(&input.parts),
    })
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
        Invocation::None | Invocation::Slash | Invocation::AskAgain => words,
    })
}

#[cfg(test)]
mod tests;
