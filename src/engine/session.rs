//! The task that owns a session: it takes prompts from its inbox and runs their turns one after another.

use std::{
    collections::{HashMap, VecDeque},
    panic::AssertUnwindSafe,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{ModelRef, Tokens},
    part::FilePart,
    session::{SessionModel, SessionStatus},
};

use super::{
    Engine, EngineError, EngineErrorKind,
    limits::Limits,
    state::{Journal, SessionState},
    told::Told,
    turn,
    workspace::Workspace,
};
use crate::{config::Warning, mcp};

/// How long a session without work keeps its history in memory.
const IDLE: Duration = Duration::from_secs(120);
/// How long a finished daemon waits for a title that is being made.
const TITLE_GRACE: Duration = Duration::from_secs(2);
/// Prompts that may wait behind a running turn.
pub const MAX_QUEUED: usize = 256;

/// What reaches a session's task.
pub enum Command {
    /// The ticket's entry holds who is to be answered.
    Prompt { ticket: u64, input: PromptInput },
    /// The agent or model for later prompts.
    Select { agent: Option<String>, model: Option<ModelRef> },
    /// A title was made for the conversation.
    Title(String),
}

/// What a user says.
#[derive(Debug, Clone, Default)]
pub struct PromptInput {
    pub parts: Vec<PromptPart>,
    /// Agent that is to answer; the session's last, or the default.
    pub agent: Option<String>,
    /// Model that is to answer; the agent's own, or the default.
    pub model: Option<ModelRef>,
    pub missing: Missing,
    pub invocation: Invocation,
}

/// What happens when the agent or the model of a prompt is not there when its turn begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// The prompt fails; where none was named, the session's last one answers.
    #[default]
    Fails,
    /// What the configuration says then answers, also where none was named.
    IsReplaced,
}

/// Whether a prompt calls a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Invocation {
    /// Its words are words, whatever they begin with.
    #[default]
    None,
    /// It does when its words begin with `/` and a command's name.
    Slash,
    /// It calls this one, and its words are the arguments.
    Named(String),
}

/// A piece of what a user says.
#[derive(Debug, Clone)]
pub enum PromptPart {
    Text {
        text: String,
        /// For the model only.
        is_synthetic: bool,
        /// For the user only.
        is_ignored: bool,
    },
    File(FilePart),
    /// A subagent that the user named by `@`; a file of that name goes before it.
    Agent {
        name: String,
    },
    /// Text of something that was attached, rather than what the user typed.
    Document {
        /// What it is, for the model.
        place: String,
        /// The file it is the whole of, as far as the client says so.
        path: Option<PathBuf>,
        text: String,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnOutcome {
    pub stop: StopReason,
    /// What the turn cost, over all its steps; `None` when unknown.
    pub tokens: Option<Tokens>,
    /// The last answer.
    pub message_id: Option<MessageId>,
}

impl TurnOutcome {
    /// A turn that was stopped before it did anything.
    pub fn cancelled() -> Self {
        Self { stop: StopReason::Cancelled, tokens: None, message_id: None }
    }
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

/// Called exactly once with a prompt's outcome, behind the last event of its turn.
pub type TurnEnd = Box<dyn FnOnce(Result<TurnOutcome, EngineError>) + Send>;

/// The prompts of a session that are not answered yet.
#[derive(Default)]
pub struct Tickets {
    open: Mutex<HashMap<u64, Ticket>>,
}

struct Ticket {
    cancel: CancellationToken,
    on_end: TurnEnd,
    is_running: bool,
}

impl Tickets {
    /// Takes a prompt's answer into keeping; `cancel` cancels its turn.
    pub fn issue(&self, ticket: u64, cancel: CancellationToken, on_end: TurnEnd) {
        self.lock().insert(ticket, Ticket { cancel, on_end, is_running: false });
    }

    /// The token that cancels the turn this ticket begins; `None` when it was cancelled while it waited.
    pub fn begin(&self, ticket: u64) -> Option<CancellationToken> {
        let mut open = self.lock();
        let ticket = open.get_mut(&ticket)?;
        ticket.is_running = true;
        Some(ticket.cancel.clone())
    }

    /// Whether every prompt is answered.
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

    /// Cancels one prompt: a running turn is told to stop, a waiting prompt is answered at once.
    pub fn cancel(&self, ticket: u64) {
        let waiting = {
            let mut open = self.lock();
            match open.get(&ticket) {
                Some(entry) if entry.is_running => {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Ticket>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session's task is given.
pub struct SessionCx {
    pub engine: Engine,
    pub id: SessionId,
    pub workspace: Arc<Workspace>,
    /// Servers the client gave for this session.
    pub mcp: Option<Arc<mcp::Servers>>,
    /// What the sessions above may do, when it is a subagent's.
    pub limits: Limits,
    pub tickets: Arc<Tickets>,
    /// Warnings that the user has seen.
    pub told: Told,
    /// For what the session itself starts, such as its title.
    pub own_inbox: mpsc::WeakSender<Command>,
}

impl SessionCx {
    /// Tells the user what of the instructions does not reach a model.
    pub fn tell(&self, warnings: &[Warning]) {
        self.told.tell(self.engine.bus(), warnings);
    }
}

/// What reaches the session, in order.
pub struct Inbox {
    receiver: mpsc::Receiver<Command>,
    /// Prompts that were met while only settings were wanted.
    waiting: VecDeque<(u64, PromptInput)>,
}

impl Inbox {
    pub fn new(receiver: mpsc::Receiver<Command>) -> Self {
        Self { receiver, waiting: VecDeque::new() }
    }

    /// The next command; `None` when no more can come.
    async fn next(&mut self) -> Option<Command> {
        match self.waiting.pop_front() {
            Some((ticket, input)) => Some(Command::Prompt { ticket, input }),
            None => self.receiver.recv().await,
        }
    }

    /// Applies the settings that have come, without waiting; prompts stay.
    ///
    /// Those that came before the user chose an agent again are answered by the agent that took over, if one did.
    pub async fn apply_settings(
        &mut self,
        cx: &SessionCx,
        state: &mut SessionState,
        mut switched_to: Option<&str>,
    ) {
        while let Ok(command) = self.receiver.try_recv() {
            match command {
                Command::Prompt { ticket, mut input } => {
                    input.agent = switched_to.map(str::to_owned).or(input.agent);
                    self.waiting.push_back((ticket, input));
                }
                Command::Select { agent, model } => {
                    switched_to = switched_to.filter(|_| agent.is_none());
                    // The user has changed their mind about what is still to come as well.
                    for (_, input) in &mut self.waiting {
                        input.agent = agent.clone().or(input.agent.take());
                        input.model = model.clone().or(input.model.take());
                    }
                    select(cx, state, agent, model).await;
                }
                Command::Title(text) => retitle(cx, state, text).await,
            }
        }
    }

    /// Lets this agent answer the prompts that wait.
    pub fn follow(&mut self, agent: &str) {
        for (_, input) in &mut self.waiting {
            input.agent = Some(agent.to_owned());
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.receiver.is_empty()
    }
}

/// Runs until the inbox is closed, the session is idle for long, or a turn panics.
pub async fn run(cx: SessionCx, mut inbox: Inbox) {
    let mut state = match load(&cx).await {
        Ok(state) => state,
        Err(error) => {
            inbox.receiver.close();
            while let Some(command) = inbox.next().await {
                if let Command::Prompt { ticket, .. } = command {
                    cx.tickets.end(ticket, Err(error.clone()));
                }
            }
            return;
        }
    };
    let mut title = turn::TitleTask::default();
    loop {
        // What the user chose since the last turn holds for the prompts that came before it and have not begun.
        if !inbox.waiting.is_empty() {
            inbox.apply_settings(&cx, &mut state, None).await;
        }
        let command = tokio::select! {
            command = inbox.next() => command,
            () = tokio::time::sleep(IDLE) => {
                if cx.engine.retire(&cx.id, &inbox) { return } else { continue }
            }
        };
        match command {
            None => break,
            Some(Command::Prompt { ticket, input }) => {
                let turn = turn::run(&cx, &mut state, &mut inbox, &mut title, ticket, input);
                let result = match AssertUnwindSafe(turn).catch_unwind().await {
                    Ok(None) => continue,
                    Ok(Some(result)) => result,
                    Err(_) => {
                        tracing::error!(session = %cx.id, "a turn panicked");
                        show_status(&cx, &state, SessionStatus::Idle).await;
                        let message = "The turn failed by a fault in windlass; the log has the details. \
                                       The session can go on.";
                        return fail(&cx, EngineError::new(EngineErrorKind::Internal, message));
                    }
                };
                if matches!(&result, Err(error) if error.kind == EngineErrorKind::Store) {
                    // What could not be stored did not happen.
                    match load(&cx).await {
                        Ok(stored) => state = stored,
                        Err(error) => return fail(&cx, error),
                    }
                }
                show_status(&cx, &state, SessionStatus::Idle).await;
                cx.tickets.end(ticket, result);
            }
            Some(Command::Select { agent, model }) => select(&cx, &mut state, agent, model).await,
            Some(Command::Title(text)) => retitle(&cx, &mut state, text).await,
        }
    }
    if cx.engine.is_finishing()
        && let Ok(Some(text)) = tokio::time::timeout(TITLE_GRACE, title.finish()).await
    {
        retitle(&cx, &mut state, text).await;
    }
}

/// Ends the task: every prompt is answered, and the next one begins with what is stored.
fn fail(cx: &SessionCx, error: EngineError) {
    cx.engine.forget_task(&cx.id);
    cx.tickets.end_all(error);
}

impl Tickets {
    fn end_all(&self, error: EngineError) {
        let open = std::mem::take(&mut *self.lock());
        let mut open: Vec<_> = open.into_iter().collect();
        open.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (_, ticket) in open {
            (ticket.on_end)(Err(error.clone()));
        }
    }
}

async fn load(cx: &SessionCx) -> Result<SessionState, EngineError> {
    let stored = cx.engine.storage().load(cx.id.clone()).await?;
    let stored = stored.ok_or_else(|| EngineError::session_not_found(&cx.id))?;
    let (state, mut journal) = SessionState::from_stored(stored);
    journal.commit(cx.engine.storage(), cx.engine.bus()).await?;
    Ok(state)
}

async fn select(cx: &SessionCx, state: &mut SessionState, agent: Option<String>, model: Option<ModelRef>) {
    if let Some(agent) = agent {
        state.info.agent = Some(agent);
    }
    if let Some(model) = model {
        state.info.model =
            Some(SessionModel { id: model.model_id, provider_id: model.provider_id, variant: model.variant });
    }
    store_info(cx, state).await;
}

async fn retitle(cx: &SessionCx, state: &mut SessionState, title: String) {
    state.info.title = title;
    store_info(cx, state).await;
}

async fn store_info(cx: &SessionCx, state: &SessionState) {
    let mut journal = Journal::default();
    journal.session(&state.info);
    if let Err(error) = journal.commit(cx.engine.storage(), cx.engine.bus()).await {
        tracing::error!(session = %cx.id, %error, "the session's settings were not stored");
    }
}

/// Tells everyone whether the session works.
pub async fn show_status(cx: &SessionCx, state: &SessionState, status: SessionStatus) {
    let mut journal = Journal::default();
    journal.status(&state.info, status);
    // Nothing is stored, so nothing can fail.
    let _ = journal.commit(cx.engine.storage(), cx.engine.bus()).await;
}

#[cfg(test)]
mod tests;
