//! Gives prompts to open sessions.

use std::sync::{Arc, atomic::Ordering};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    model_ref::ModelRef,
};

use super::{
    inbox::MAX_QUEUED,
    kept_prompt::Settling,
    prompt_key::KeyClaim,
    request::{
        Command, Delivery, Invocation, PromptInput, PromptPart, PromptWatch, TurnBegin, TurnEnd, TurnOutcome,
        WaitingPrompt,
    },
    state::has_unanswered,
    tickets::{Identity, Tickets},
};
use crate::{EngineError, EngineErrorKind, OpenSession, Sessions};

impl Sessions<'_> {
    /// Gives a prompt to an open session; never waits. `on_end` is called behind the turn's last event.
    ///
    /// Returns a ticket for [`Sessions::cancel_prompt`].
    pub fn prompt(self, id: &SessionId, input: PromptInput, on_end: TurnEnd) -> u64 {
        self.prompt_until(id, input, CancellationToken::new(), PromptWatch::until_end(on_end))
    }

    /// Asks again about the calls of an open session that waited for a user's yes when its machine died, if there are
    /// some and a client can answer: the turn that they belong to goes on. `newest` is the newest message, which has them.
    pub(crate) fn ask_again(self, id: &SessionId, newest: Option<MessageId>) {
        let is_known = self.engine.fleet().has_unanswered(id);
        let open = lock(&self.engine.0.sessions.open).contains_key(id);
        if !open || !self.engine.fleet().holds(id) || newest.is_none() && !is_known {
            return;
        }
        let (engine, id) = (self.engine.clone(), id.clone());
        self.engine.spawn(async move {
            if let Some(newest) = newest.filter(|_| !is_known) {
                let message = engine.storage().message(newest).await.ok().flatten();
                if message.as_ref().is_some_and(has_unanswered) {
                    engine.fleet().note_unanswered(&id);
                }
            }
            if !engine.fleet().has_unanswered(&id) {
                return;
            }
            let stored = engine.storage().session(id.clone()).await.ok().flatten();
            let model = stored.and_then(|info| info.model).map(|model| ModelRef {
                provider_id: model.provider_id,
                model_id: model.id,
                variant: model.variant,
            });
            let input = PromptInput { invocation: Invocation::AskAgain, model, ..Default::default() };
            let session = id.clone();
            // Nobody else is told: there is no request behind it.
            let on_end = move |outcome: Result<TurnOutcome, EngineError>| {
                if let Err(error) = outcome {
                    tracing::warn!(%session, %error, "the turn of a machine that died did not go on");
                }
            };
            engine.sessions().prompt(&id, input, Box::new(on_end));
        });
    }

    /// Like [`Sessions::prompt`]; `on_begin` is called when the prompt begins.
    pub fn prompt_watched(
        self,
        id: &SessionId,
        input: PromptInput,
        on_begin: TurnBegin,
        on_end: TurnEnd,
    ) -> u64 {
        let watch = PromptWatch { on_begin: Some(on_begin), ..PromptWatch::until_end(on_end) };
        self.prompt_until(id, input, CancellationToken::new(), watch)
    }

    /// Gives a prompt to an open session, and waits until its message is stored where nothing runs before it. The turn
    /// goes on behind that.
    ///
    /// # Errors
    ///
    /// The prompt is refused, or fails before its message is stored.
    pub async fn prompt_until_stored(self, id: &SessionId, input: PromptInput) -> Result<(), EngineError> {
        let ((on_stored, stored), (sender, mut ended)) = (oneshot::channel(), oneshot::channel());
        // The turn's events carry the end of one that was stored.
        let on_end: TurnEnd = Box::new(move |result| _ = sender.send(result));
        let (on_kept, kept) = oneshot::channel();
        let watch = PromptWatch {
            on_stored: Some(on_stored),
            on_kept: Some(on_kept),
            is_kept: true,
            ..PromptWatch::until_end(on_end)
        };
        self.prompt_until(id, input, CancellationToken::new(), watch);
        let ended = if kept.await.is_ok() {
            // It waits behind others. A session that takes no more says so at once.
            ended.try_recv().ok()
        } else if stored.await.is_ok() {
            None
        } else {
            ended.await.ok()
        };
        ended.map_or(Ok(()), |result| result.map(drop))
    }

    /// Lists the prompts that wait behind an open session's work, in their order.
    pub fn waiting_prompts(self, id: &SessionId) -> Vec<WaitingPrompt> {
        self.tickets(id).map(|tickets| tickets.waiting()).unwrap_or_default()
    }

    /// Puts other words in the place of a waiting prompt's; its files stay. False if it does not wait any more.
    pub fn change_words(self, id: &SessionId, ticket: u64, text: String) -> bool {
        let change = |input: &mut PromptInput| {
            input.parts.retain(|part| !matches!(part, PromptPart::Text { is_synthetic: false, .. }));
            let words = PromptPart::Text { text, is_synthetic: false, is_ignored: false };
            input.parts.insert(0, words);
            input.part_ids = Vec::new();
        };
        self.tickets(id).is_some_and(|tickets| tickets.change(ticket, change))
    }

    /// Puts a prompt that waits where the list has this index; false if it does not wait any more.
    pub fn move_prompt(self, id: &SessionId, ticket: u64, index: usize) -> bool {
        self.tickets(id).is_some_and(|tickets| tickets.move_to(ticket, index))
    }

    /// Changes the parts, or the time, of a prompt that waits; false if it does not wait any more.
    pub fn change_prompt(
        self,
        id: &SessionId,
        ticket: u64,
        parts: Option<Vec<PromptPart>>,
        delivery: Option<Delivery>,
    ) -> bool {
        let change = |input: &mut PromptInput| {
            if let Some(parts) = parts {
                (input.parts, input.part_ids) = (parts, Vec::new());
            }
            let is_steer = |delivery: Delivery| delivery != Delivery::Turn;
            // One that is for a running turn alone stays so.
            if let Some(delivery) = delivery.filter(|it| is_steer(*it) != is_steer(input.delivery)) {
                input.delivery = delivery;
            }
        };
        self.tickets(id).is_some_and(|tickets| tickets.change(ticket, change))
    }

    /// Takes a prompt back that waits, as if it had never come; false if it does not wait any more.
    pub fn withdraw_prompt(self, id: &SessionId, ticket: u64) -> bool {
        self.tickets(id).is_some_and(|tickets| tickets.withdraw(ticket))
    }

    /// Returns the way to learn when the store agrees with what is done to a prompt that waits, for a front end that says
    /// that it is done.
    pub fn settling(self, id: &SessionId, ticket: u64) -> Settling {
        self.tickets(id).map_or(Settling::of(None), |tickets| tickets.settling(ticket))
    }

    /// Waits until the store agrees with the order of all prompts that wait.
    pub async fn settle_all(self, id: &SessionId) {
        for waiting in self.waiting_prompts(id) {
            self.settling(id, waiting.ticket).settled().await;
        }
    }

    fn tickets(self, id: &SessionId) -> Option<Arc<Tickets>> {
        lock(&self.engine.0.sessions.open).get(id).map(|open| open.tickets.clone())
    }

    /// Answers a prompt that waits behind others at once where the message of its key is in the conversation.
    fn answer_repeat(self, tickets: Arc<Tickets>, ticket: u64, key: Arc<KeyClaim>) {
        let engine = self.engine.clone();
        self.engine.0.sessions.tasks.spawn(async move {
            // A store that fails says so with the prompt's turn.
            if let Ok(Some(message_id)) = engine.sessions().message_of_key(&key).await {
                tickets.end_waiting(ticket, Ok(TurnOutcome::repeat(message_id)));
            }
        });
    }

    /// Returns true if a prompt waits or runs to which its client gave this id. One that waits for the next prompt goes on.
    pub fn is_under_way(self, id: &SessionId, given: &MessageId) -> bool {
        let mut sessions = lock(&self.engine.0.sessions.open);
        let Some(open) = sessions.get_mut(id).filter(|open| open.tickets.has(given)) else { return false };
        open.tickets.wake_of(given).into_iter().for_each(|ticket| self.send(id, open, ticket));
        true
    }

    /// Returns a receiver that fails when the prompt is answered to which its client gave this id; `None` if none waits or
    /// runs.
    pub fn end_of_prompt(self, id: &SessionId, given: &MessageId) -> Option<oneshot::Receiver<()>> {
        self.tickets(id)?.end_of(given)
    }

    /// Lets the prompts go on that wait for the next one.
    pub fn wake(self, id: &SessionId) {
        let mut sessions = lock(&self.engine.0.sessions.open);
        if let Some(open) = sessions.get_mut(id) {
            self.send_parked(id, open);
        }
    }

    /// Lets one prompt go on that waits for the next one.
    pub fn wake_prompt(self, id: &SessionId, ticket: u64) {
        let mut sessions = lock(&self.engine.0.sessions.open);
        if let Some(open) = sessions.get_mut(id)
            && open.tickets.unpark_one(ticket)
        {
            self.send(id, open, ticket);
        }
    }

    fn send_parked(self, id: &SessionId, open: &mut OpenSession) {
        open.tickets.unpark().into_iter().for_each(|ticket| self.send(id, open, ticket));
    }

    fn send(self, id: &SessionId, open: &mut OpenSession, ticket: u64) {
        if !self.try_send(id, open, ticket) {
            open.tickets.park(ticket);
        }
    }

    /// Tells the session's task of a prompt; false if there is no room.
    fn try_send(self, id: &SessionId, open: &mut OpenSession, ticket: u64) -> bool {
        let number = self.engine.0.sessions.next_ticket.fetch_add(1, Ordering::Relaxed);
        let place = open.tickets.place_last(ticket, number);
        place.is_none_or(|place| self.engine.inbox(id, open).try_send(Command::Prompt { place }).is_ok())
    }

    /// Like [`Sessions::prompt`], with a token that cancels the turn.
    pub(crate) fn prompt_until(
        self,
        id: &SessionId,
        input: PromptInput,
        cancel: CancellationToken,
        mut watch: PromptWatch,
    ) -> u64 {
        let ticket = self.engine.0.sessions.next_ticket.fetch_add(1, Ordering::Relaxed);
        let key = input.key.clone();
        let tickets = {
            let mut sessions = lock(&self.engine.0.sessions.open);
            let Some(open) = sessions.get_mut(id) else {
                drop(sessions);
                (watch.on_end)(Err(EngineError::session_not_found(id)));
                return ticket;
            };
            if let Some(given) = input.message_id.clone().filter(|given| open.tickets.has(given)) {
                open.tickets.wake_of(&given).into_iter().for_each(|ticket| self.send(id, open, ticket));
                drop(sessions);
                (watch.on_end)(Ok(TurnOutcome::repeat(given)));
                return ticket;
            }
            let has_room = open.tickets.n_waiting() < MAX_QUEUED;
            // Words of the daemon itself are no sign that somebody wants the work to go on.
            if has_room && input.of_task.is_none() && !input.no_reply {
                self.send_parked(id, open);
            }
            let mut identity = Identity::of(&input);
            let on_kept = watch.on_kept.take();
            if has_room && !open.tickets.is_empty() {
                identity.kept = self.keep_prompt(id, &identity.id, &input, on_kept);
            }
            open.tickets.issue(ticket, identity, cancel, watch, input);
            if has_room && self.try_send(id, open, ticket) {
                if let Some(key) = key {
                    self.answer_repeat(open.tickets.clone(), ticket, key);
                }
                return ticket;
            }
            open.tickets.clone()
        };
        let message = format!("{} prompts are waiting for this session already", MAX_QUEUED);
        tickets.end(ticket, Err(EngineError::new(EngineErrorKind::InvalidInput, message)));
        ticket
    }
}
