//! The person's side of a turn: its events are shown, its questions are asked or answered for the person.

use std::{
    collections::{HashSet, VecDeque},
    io::{self, IsTerminal},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use windlass_base::{figures, ids, queue::Queue};
use windlass_engine::{self as engine, Answerable, Limits, PromptInput, StopReason};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{MessageId, PartId, SessionId},
    message::MessageWithParts,
    part::{PartKind, ToolState},
    permission::Reply,
    session::{Session, SessionStatus},
    tool_metadata::{Failure, decode},
};

use super::{
    super::{
        ask::{Person, Typed, ahead::Ahead},
        daemon::{Daemon, turn_end::TurnEnd},
        output::{self, Output, Stream},
        runtime::Interrupts,
        view::{
            line,
            look::Look,
            screen::{Screen, Suspended},
            turn,
        },
    },
    args::{Format, TalkArgs},
    outcome::{self, Reason, Tally},
    policy::Policy,
    printer::Printer,
    waiting::{Lines, Turn, Waiting},
};

/// Time limit for the last words after a signal.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// View of the engine for the user. A call that is dropped halfway continues from here.
pub struct Shown {
    daemon: Daemon,
    events: Arc<Queue<Arc<Event>>>,
    batch: VecDeque<Arc<Event>>,
    pub printer: Printer,
    pub output: Output,
    /// The outcome of the turn so far.
    pub tally: Tally,
    /// Time at which the turn is cancelled.
    deadline: Option<Instant>,
    is_timed_out: bool,
    limits: Limits,
    policy: Policy,
    /// Absent if no user can be asked.
    person: Option<Person>,
    /// Keeps keys typed during turns, for the line behind them.
    ahead: Option<Arc<Ahead>>,
    /// Lines that are typed during turns, where they can be seen.
    waiting: Option<Waiting>,
    /// The session that is asked between its turns too, so that a question outlives its turn.
    attended: Option<SessionId>,
    /// The newest message of that session that is shown.
    newest: Option<MessageId>,
    /// Messages up to this one were shown before the turn that is followed.
    known: Option<MessageId>,
    /// Parts with first pieces that were not seen, so that the next ones cannot be added to them.
    midway: HashSet<PartId>,
    /// The screen does not draw while the person is asked.
    suspended: Option<Suspended>,
    /// Text of a dialogue that is not on the terminal yet.
    unshown: String,
    was_refused: bool,
    /// Calls of the turn that rules refused.
    n_refused_by_rules: usize,
    is_interrupted: bool,
}

/// An event between the turns that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// The person is asked something.
    Asked,
    /// Another client began a turn.
    Begun,
    /// It has ended.
    Ended,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// `None` when it failed.
    pub stop: Option<StopReason>,
    /// Something was refused that a person could have allowed, or, where refusals end the run, anything.
    pub was_refused: bool,
    /// The person cancelled it.
    pub is_interrupted: bool,
    /// Its time was over.
    pub is_timed_out: bool,
    /// The answer in the form that was asked for.
    pub structured: Option<Value>,
    /// Prompts that it took in.
    pub n_steered: usize,
}

impl Shown {
    /// Says behind a run in a pipe, since nothing else does: the session, and calls that rules refused.
    pub async fn tell_rest(&mut self, id: &SessionId) -> io::Result<()> {
        if !self.printer.is_plain() {
            return Ok(());
        }
        if self.n_refused_by_rules > 0 && !self.policy.is_strict {
            let calls = figures::counted(self.n_refused_by_rules, "call");
            self.output
                .push(Stream::Err, &format!("Rules refused {calls}; --strict ends a run at the first.\n"));
        }
        self.output.push(Stream::Err, &format!("Session: {id}\n"));
        self.output.flush().await
    }

    /// Shows the engine's work from now on.
    pub fn new(daemon: &Daemon, format: Format, args: &TalkArgs, look: Look) -> Self {
        let person = if args.auto || args.no_ask { None } else { Person::find(daemon, look.clone()) };
        if person.is_some() {
            daemon.set_answerable(Answerable::Person);
        }
        let directory = args.dir.clone().unwrap_or_else(|| PathBuf::from("."));
        let directory = directory.canonicalize().unwrap_or(directory);
        let look = Look { directory, shows_thoughts: args.thinking, ..look };
        // Text and JSON for programs are not drawn. Without a thread to draw, the text alone is shown.
        let is_drawn = format == Format::Default && io::stdout().is_terminal();
        let screen = is_drawn.then(|| Screen::open(look.clone()).ok()).flatten();
        Self {
            events: daemon.listen(),
            batch: VecDeque::new(),
            printer: Printer::new(format, look, screen),
            output: Output::new(),
            tally: Tally::default(),
            deadline: None,
            is_timed_out: false,
            limits: Limits::default(),
            daemon: daemon.clone(),
            policy: Policy { is_auto: args.auto, leaves_sandbox: args.leave_sandbox, is_strict: args.strict },
            person,
            ahead: None,
            waiting: None,
            attended: None,
            newest: None,
            known: None,
            midway: HashSet::new(),
            suspended: None,
            unshown: String::new(),
            was_refused: false,
            n_refused_by_rules: 0,
            is_interrupted: false,
        }
    }

    /// Counts a turn of this session, and cancels it after a time.
    pub fn bound(&mut self, session: &Session, timeout: Option<Duration>) {
        self.tally = Tally::of(session);
        // A time beyond every clock is none.
        self.deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    }

    pub fn format(&self) -> Format {
        self.printer.format()
    }

    /// Prints what is only known at the end of a run, as its form wants it.
    pub async fn print_outcome(&mut self, reason: Reason, structured: Option<&Value>) -> io::Result<()> {
        match self.format() {
            Format::Final => self.print(&self.tally.answer()).await,
            Format::Json | Format::Result => {
                let object = self.tally.object(reason, structured, None);
                self.print(&object.to_string()).await
            }
            Format::Default | Format::Object => Ok(()),
        }
    }

    /// Leaves the terminal to its owner until the next turn.
    pub async fn rest(&mut self) -> io::Result<()> {
        self.suspended = self.printer.suspend(&mut self.output).await?;
        self.output.flush().await
    }

    /// Has keys typed during turns that answer no question kept here.
    pub fn keep_typed(&mut self, ahead: Option<Arc<Ahead>>) {
        let Some(ahead) = ahead else { return };
        if let Some(person) = &mut self.person {
            person.keep_typed(ahead.clone());
        }
        self.printer.keep_typed(ahead.clone());
        self.waiting = self.printer.is_live().then(|| Waiting::new(ahead.clone()));
        self.ahead = Some(ahead);
    }

    /// Says sentences between turns, broken between words.
    pub async fn print_wrapped(&mut self, text: &str) -> io::Result<()> {
        self.print(&line::wrapped_text(text.trim_end(), output::columns())).await
    }

    /// Shows between turns the rows that are drawn already.
    pub async fn print(&mut self, text: &str) -> io::Result<()> {
        self.output.push(Stream::Out, &format!("{}\n", text.trim_end()));
        self.output.flush().await
    }

    /// Says behind a turn why something is missing.
    pub async fn print_error(&mut self, text: &str) -> io::Result<()> {
        self.output.push(Stream::Err, &format!("Error: {text}\n"));
        self.output.flush().await
    }

    /// Puts this session's questions to the person, also between its turns, and no other one.
    pub fn attend(&mut self, id: &SessionId) {
        self.events.take(&mut self.batch);
        self.batch.clear();
        self.daemon.hold(id);
        self.attended = Some(id.clone());
        self.newest = None;
    }

    /// Returns the newest message of the attended session that is shown.
    pub fn newest(&self) -> Option<&MessageId> {
        self.newest.as_ref()
    }

    /// Notes that the messages of the attended session up to this one are shown.
    pub fn note_shown(&mut self, id: &MessageId) {
        if self.newest.as_ref().is_none_or(|newest| newest < id) {
            self.newest = Some(id.clone());
        }
    }

    /// Shows thoughts from now on, or shows them no more.
    pub fn show_thoughts(&mut self, is_shown: bool) {
        self.printer.show_thoughts(is_shown);
    }

    /// Sends the terminal a code that draws nothing.
    pub async fn send_code(&mut self, code: &str) -> io::Result<()> {
        self.output.push(Stream::Out, code);
        self.output.flush().await
    }

    /// Leaves a session that is closed.
    pub fn leave(&mut self, id: &SessionId) {
        self.daemon.release(id);
    }

    /// Ends when something happens in the attended session between the turns that are shown.
    pub async fn happened(&mut self) -> Happened {
        loop {
            while let Some(event) = self.batch.pop_front() {
                let is_here = self.attended.as_ref() == event.payload.session_id();
                match &event.payload {
                    EventPayload::PermissionAsked(request)
                        if self.person.is_some() && self.daemon.is_permission_waiting(&request.id) =>
                    {
                        return Happened::Asked;
                    }
                    EventPayload::SessionStatus { status: SessionStatus::Busy, .. } if is_here => {
                        return Happened::Begun;
                    }
                    EventPayload::SessionIdle { .. } if is_here => return Happened::Ended,
                    _other => {}
                }
            }
            if !self.events.next_batch(&mut self.batch).await {
                return std::future::pending().await;
            }
        }
    }

    /// Has the person answer the attended session's questions between its turns: whether changed files may hold.
    pub async fn settle(&mut self) -> io::Result<()> {
        self.events.take(&mut self.batch);
        self.batch.clear();
        let Some(id) = &self.attended else { return Ok(()) };
        let pending = self.daemon.pending_permissions(id);
        if pending.is_empty() {
            return Ok(());
        }
        for request in pending {
            self.ask(&EventPayload::PermissionAsked(request));
        }
        self.answered().await?;
        self.rest().await
    }

    /// Ends when no dialogue is open. Ctrl-C is a no: there is no turn that it could cancel.
    async fn answered(&mut self) -> io::Result<()> {
        self.show_dialogue().await?;
        while let Some(person) = self.person.as_mut().filter(|person| person.is_asked()) {
            let typed = tokio::select! {
                biased;
                typed = person.typed() => Some(typed),
                is_open = self.events.next_batch(&mut self.batch) => if is_open { None } else { Some(person.typed().await) },
            };
            match typed {
                Some(Typed::Text(text)) => self.unshown.push_str(&text),
                Some(Typed::Answered { text, .. }) => self.give_answer(&text),
                Some(Typed::Interrupted(text)) => {
                    self.unshown.push_str(&text);
                    for request in self.attended.iter().flat_map(|id| self.daemon.pending_permissions(id)) {
                        self.daemon.reply_permission(&request.id, Reply::Reject, None);
                    }
                }
                Some(Typed::Gone) => self.lose_person(),
                None => {
                    while let Some(event) = self.batch.pop_front() {
                        self.ask(&event.payload);
                    }
                }
            }
            self.show_dialogue().await?;
        }
        Ok(())
    }

    /// Goes on without the person after the terminal has gone.
    fn lose_person(&mut self) {
        self.person = None;
        self.daemon.set_answerable(Answerable::Permissions);
    }

    /// Gives a prompt to a session and shows its turn to the end. An interrupt cancels the turn. Lines that are typed
    /// meanwhile go beside it.
    pub async fn turn(
        &mut self,
        id: &SessionId,
        input: PromptInput,
        lines: Option<&dyn Lines>,
        interrupts: &mut Interrupts,
    ) -> io::Result<Ended> {
        self.daemon.hold(id);
        // Events between turns are not part of this one.
        self.events.take(&mut self.batch);
        self.batch.clear();
        self.begin(id).await?;
        self.limits = input.limits;
        let (ended, end) = oneshot::channel();
        // The receiver is dropped only when the process ends.
        self.daemon.prompt(id, input, Box::new(|outcome| _ = ended.send(outcome)));
        self.answered_turn(id, end, lines, interrupts).await
    }

    /// Shows the turn of a prompt that was typed during the last one; `None` if there is none.
    pub async fn next_turn(
        &mut self,
        id: &SessionId,
        lines: &dyn Lines,
        interrupts: &mut Interrupts,
    ) -> io::Result<Option<Ended>> {
        let next = self.waiting.as_mut().and_then(Waiting::next_turn);
        let Some((words, end)) = next else { return Ok(None) };
        self.begin(id).await?;
        self.printer.said(&words);
        self.note_batch();
        Ok(Some(self.answered_turn(id, end, Some(lines), interrupts).await?))
    }

    /// Takes the next line that was typed during a turn and waited for its end.
    pub fn next_line(&mut self) -> Option<String> {
        self.waiting.as_mut()?.next_line()
    }

    async fn answered_turn(
        &mut self,
        id: &SessionId,
        end: oneshot::Receiver<TurnEnd>,
        lines: Option<&dyn Lines>,
        interrupts: &mut Interrupts,
    ) -> io::Result<Ended> {
        if let (Some(waiting), Some(lines)) = (&mut self.waiting, lines) {
            waiting.begin(lines.label(), &self.printer);
        }
        let outcome = self.watch(id, end, lines, interrupts).await?;
        self.settle_turn(id).await?;
        let outcome = outcome.unwrap_or_else(|| Err("The turn was lost.".to_owned()));
        if let Err(reason) = &outcome {
            self.printer.fail(reason, &mut self.output);
        }
        let (stop, structured) =
            outcome.map_or((None, None), |outcome| (Some(outcome.stop), outcome.structured));
        let remark = match stop {
            Some(StopReason::MaxTokens) => Some("The answer was cut: it reached the model's output limit."),
            Some(StopReason::MaxTurnRequests) => Some(outcome::cut_by(self.limits, self.tally.cost())),
            Some(_) if self.is_timed_out => Some("The time of --timeout is over."),
            Some(StopReason::Cancelled) if self.is_interrupted => Some("Cancelled."),
            Some(StopReason::Cancelled) if self.policy.is_strict && self.was_refused => {
                Some("Something was refused, which ends the run (--strict).")
            }
            Some(StopReason::EndTurn | StopReason::Refusal | StopReason::Cancelled) | None => None,
        };
        if let Some(waiting) = self.waiting.as_mut().filter(|_| lines.is_some()) {
            if self.is_interrupted || stop.is_none() {
                waiting.give_back(&self.daemon, id, &self.printer);
            }
            waiting.end(&self.printer);
        }
        if let Some(lines) = lines {
            self.printer.name_model(|model| lines.model(model));
        }
        self.printer.end(remark, &mut self.output).await?;
        self.output.flush().await?;
        let (was_refused, is_interrupted) = (self.was_refused, self.is_interrupted);
        let n_steered = self.waiting.as_ref().map_or(0, |waiting| waiting.n_within);
        Ok(Ended {
            stop,
            was_refused,
            is_interrupted,
            is_timed_out: self.is_timed_out,
            structured,
            n_steered,
        })
    }

    /// Shows the rest of a turn that another client began: its unfinished message as it was read, and all that follows.
    /// An interrupt cancels the turn.
    pub async fn follow(
        &mut self,
        id: &SessionId,
        end: oneshot::Receiver<TurnEnd>,
        unfinished: Option<MessageWithParts>,
        interrupts: &mut Interrupts,
    ) -> io::Result<()> {
        self.known = self.newest.clone();
        self.begin(id).await?;
        if let Some(MessageWithParts { info, parts }) = unfinished {
            self.midway =
                parts.iter().filter(|part| turn::is_growing(part)).map(|part| part.id.clone()).collect();
            self.replay(EventPayload::MessageUpdated { session_id: id.clone(), info: info.into() });
            for part in parts {
                self.replay(EventPayload::PartUpdated { session_id: id.clone(), part: part.into(), time: 0 });
            }
        }
        for request in self.daemon.pending_questions(id) {
            self.ask(&EventPayload::QuestionAsked(request));
        }
        self.show_dialogue().await?;
        self.watch(id, end, None, interrupts).await?;
        self.settle_turn(id).await?;
        (self.known, self.midway) = (None, HashSet::new());
        let remark = self.is_interrupted.then_some("Cancelled.");
        self.printer.end(remark, &mut self.output).await?;
        self.output.flush().await
    }

    fn replay(&mut self, payload: EventPayload) {
        let event = Arc::new(Event { id: ids::event(), payload });
        self.note_event(&event.payload);
        self.printer.event(&event, &mut self.output);
    }

    /// Draws a turn from now on, with its open questions.
    async fn begin(&mut self, id: &SessionId) -> io::Result<()> {
        self.suspended = None;
        self.printer.begin(id);
        (self.was_refused, self.n_refused_by_rules, self.is_interrupted) = (false, 0, false);
        // Asked between turns, or not answered in the last one.
        for request in self.daemon.pending_permissions(id) {
            self.ask(&EventPayload::PermissionAsked(request));
        }
        self.show_dialogue().await
    }

    /// Notes the last of a turn, and takes away its questions. The end is told behind the last event, so the queue
    /// holds all of it.
    async fn settle_turn(&mut self, id: &SessionId) -> io::Result<()> {
        self.events.take(&mut self.batch);
        let mut rest = VecDeque::new();
        if self.waiting.as_ref().is_some_and(Waiting::has_turn) {
            // The next one may have begun.
            let is_end = |event: &Arc<Event>| matches!(&event.payload, EventPayload::SessionIdle { session_id } if session_id == id);
            let n_of_turn = self.batch.iter().position(is_end).map_or(self.batch.len(), |at| at + 1);
            rest = self.batch.split_off(n_of_turn);
        }
        self.note_batch();
        self.batch = rest;
        if self.attended.is_some() {
            self.answered().await?;
        }
        let left = self.person.as_mut().and_then(Person::put_away);
        self.unshown.extend(left);
        self.show_dialogue().await
    }

    /// Shows a turn, and has its questions answered, until its end.
    async fn watch(
        &mut self,
        id: &SessionId,
        mut end: oneshot::Receiver<TurnEnd>,
        lines: Option<&dyn Lines>,
        interrupts: &mut Interrupts,
    ) -> io::Result<Option<TurnEnd>> {
        loop {
            if self.is_stop_typed(id, lines) {
                self.is_interrupted = true;
                self.daemon.cancel(id);
            }
            // While a dialogue is on the screen, keys are for it.
            let ahead = self.ahead.as_ref().filter(|_| !self.person.as_ref().is_some_and(Person::is_asked));
            let typed_ahead = async {
                match ahead {
                    Some(ahead) => ahead.typed().await,
                    None => std::future::pending().await,
                }
            };
            let typed = async {
                match &mut self.person {
                    Some(person) => person.typed().await,
                    None => std::future::pending().await,
                }
            };
            let happened = async {
                self.printer.room().await?;
                self.events.next_batch(&mut self.batch).await;
                Ok::<(), io::Error>(())
            };
            let (deadline, is_bounded) = (self.deadline, self.deadline.is_some() && !self.is_timed_out);
            let typed = tokio::select! {
                biased;
                outcome = &mut end => return Ok(outcome.ok()),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if is_bounded => {
                    self.is_timed_out = true;
                    self.daemon.cancel(id);
                    None
                }
                typed = typed => Some(typed),
                () = typed_ahead => None,
                () = interrupts.next() => {
                    self.is_interrupted = true;
                    self.daemon.cancel(id);
                    None
                }
                result = happened => {
                    result?;
                    None
                }
            };
            match typed {
                None => self.note_batch(),
                Some(Typed::Text(text)) => self.unshown.push_str(&text),
                Some(Typed::Answered { text, ended }) => {
                    let is_end = ended.as_ref() == Some(id) && lines.is_some();
                    if let Some(waiting) = self.waiting.as_mut().filter(|_| is_end) {
                        waiting.give_back(&self.daemon, id, &self.printer);
                    }
                    self.give_answer(&text);
                }
                Some(Typed::Interrupted(text)) => {
                    self.unshown.push_str(&text);
                    self.is_interrupted = true;
                    self.daemon.cancel(id);
                }
                Some(Typed::Gone) => self.lose_person(),
            }
            if self.policy.is_strict && self.was_refused {
                self.daemon.cancel(id);
            }
            self.show_dialogue().await?;
            self.output.flush().await?;
        }
    }

    fn give_answer(&mut self, text: &str) {
        self.unshown.push_str(text);
        self.person.as_mut().map(Person::answer);
    }

    /// Takes the keys that were typed beside the turn; returns true if they ask for its end.
    fn is_stop_typed(&mut self, id: &SessionId, lines: Option<&dyn Lines>) -> bool {
        let is_asked = self.person.as_ref().is_some_and(Person::is_asked);
        let (Some(waiting), Some(lines)) = (&mut self.waiting, lines) else { return false };
        if is_asked {
            waiting.pause();
            return false;
        }
        let (printer, output) = (&mut self.printer, &mut self.output);
        waiting.take_typed(&mut Turn { daemon: &self.daemon, id, lines, printer, output })
    }

    /// Shows the events until a signal ended everything.
    pub async fn abandon(&mut self) {
        self.person = None;
        self.suspended = None;
        self.note_rest();
        // A reader that is too slow by now loses the rest.
        let _ = tokio::time::timeout(FLUSH_LIMIT, async {
            self.output.flush().await?;
            self.printer.abandon().await
        })
        .await;
    }

    /// Puts the dialogue's new text on the terminal, behind everything that was said before it.
    async fn show_dialogue(&mut self) -> io::Result<()> {
        let is_asked = self.person.as_ref().is_some_and(Person::is_asked);
        if !self.unshown.is_empty() {
            if self.suspended.is_none() {
                self.suspended = self.printer.suspend(&mut self.output).await?;
            }
            self.output.flush().await?;
            let text = std::mem::take(&mut self.unshown);
            if let Some(person) = &mut self.person {
                person.show(&text);
            }
        }
        if !is_asked {
            self.suspended = None;
        }
        Ok(())
    }

    /// Notes the events that were taken from the queue, and asks or answers their questions.
    fn note_batch(&mut self) {
        while let Some(event) = self.batch.pop_front() {
            if !self.note_event(&event.payload) {
                continue;
            }
            self.ask(&event.payload);
            if let Some(is_by_rules) = refusal(&event.payload) {
                self.was_refused |= self.policy.is_strict;
                self.n_refused_by_rules += usize::from(is_by_rules);
            }
            self.tally.note(&event.payload);
            if let Some(waiting) = self.waiting.as_mut() {
                waiting.note_begun(&self.printer);
            }
            self.printer.event(&event, &mut self.output);
        }
    }

    /// Notes which messages are shown; returns false for an event that is shown already.
    fn note_event(&mut self, payload: &EventPayload) -> bool {
        if let EventPayload::MessageUpdated { session_id, info } = payload
            && self.attended.as_ref() == Some(session_id)
        {
            if self.known.as_ref().is_some_and(|known| info.id() <= known) {
                return false;
            }
            self.note_shown(info.id());
        }
        if let EventPayload::PartDelta { session_id, part_id, .. } = payload
            && self.midway.contains(part_id)
        {
            self.daemon.refresh(session_id, part_id);
            return false;
        }
        true
    }

    /// Notes everything that has happened.
    fn note_rest(&mut self) {
        self.events.take(&mut self.batch);
        self.note_batch();
    }

    /// Puts an event's question before the person, or answers it for them.
    fn ask(&mut self, payload: &EventPayload) {
        match &mut self.person {
            Some(person) => self.unshown.extend(person.event(payload)),
            // The engine works for this turn alone, so a question of any session is one of its subagents.
            None => {
                if let EventPayload::PermissionAsked(request) = payload {
                    let answer = self.policy.answer(request);
                    self.was_refused |= answer.is_refusal;
                    if let Some(line) = &answer.remark {
                        self.printer.remark(line, &mut self.output);
                    }
                    self.daemon.reply_permission(&request.id, answer.reply, answer.by);
                }
            }
        }
    }
}

/// Returns true for a call that ended because a rule refused it, and false for one that a person refused.
fn refusal(payload: &EventPayload) -> Option<bool> {
    let EventPayload::PartUpdated { part, .. } = payload else { return None };
    let PartKind::Tool(tool) = &part.kind else { return None };
    let ToolState::Error { error, metadata: Some(metadata), .. } = &tool.state else { return None };
    let is_denied = decode(metadata).is_some_and(|failure: Failure| failure.denied);
    is_denied.then(|| engine::denying_rules(error).is_some())
}
