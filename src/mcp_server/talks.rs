//! The sessions that the client talks to, as their events show them: their work, questions and ends.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{lock::lock, queue::Queue};
use windlass_engine::{
    Answerable, Client, Engine, EngineError, PromptInput, StopReason, TurnOutcome, Workspace,
};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{MessageId, PermissionId, QuestionId, SessionId},
    part::{PartKind, ToolState},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
    tokens::Tokens,
};

use super::tools::{Choice, Labels};

/// Sessions that are followed before those that rest are given free.
const MAX_TALKS: usize = 256;
/// The permission that only a person gives.
const TRUST: &str = windlass_engine::TRUST;

/// Answers to a permission request.
const REPLIES: [(&str, Reply); 4] = [
    ("once", Reply::Once),
    ("always", Reply::Always),
    ("reject", Reply::Reject),
    ("reject_always", Reply::RejectAlways),
];

/// See the module's comment. Dropped, it releases the sessions.
pub struct Talks {
    client: Client,
    table: Arc<Table>,
    _listening: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Table {
    talks: Mutex<HashMap<SessionId, Talk>>,
    changes: watch::Sender<()>,
}

struct Talk {
    workspace: Arc<Workspace>,
    /// Sessions of its subagents.
    children: Vec<SessionId>,
    /// Prompts that are not answered yet.
    n_running: usize,
    ended: Option<Ended>,
    questions: Vec<Pending>,
    /// The call that began last, and how many there were.
    doing: Option<String>,
    n_doings: usize,
}

/// End of a turn, or the reason that it failed.
struct Ended(Result<Done, String>);

struct Done {
    stop: StopReason,
    message_id: Option<MessageId>,
    tokens: Option<Tokens>,
}

enum Pending {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

/// Reason why an answer was not taken.
pub enum Rejected {
    /// No such question waits; these do.
    Unknown(Vec<String>),
    /// The question has no such answer.
    NotOffered(String),
}

/// Signs of a session's work, in their order.
pub struct Doings {
    table: Arc<Table>,
    id: SessionId,
    n_read: usize,
    changes: watch::Receiver<()>,
}

impl Talks {
    /// Makes a client of the engine that can answer everything. Must be called within the runtime.
    pub fn new(engine: &Engine) -> Self {
        let client = engine.client(Answerable::Everything);
        let table = Arc::new(Table::default());
        let listening = tokio::spawn(listen(client.listen(), table.clone()));
        Self { client, table, _listening: AbortOnDropHandle::new(listening) }
    }

    /// Follows a session from now on.
    pub fn hold(&self, id: &SessionId, workspace: Arc<Workspace>) {
        let talk = Talk {
            workspace,
            children: Vec::new(),
            n_running: 0,
            ended: None,
            questions: Vec::new(),
            doing: None,
            n_doings: 0,
        };
        let idle: Vec<SessionId> = {
            let mut talks = self.table.lock();
            let is_idle = |talk: &Talk| talk.n_running == 0 && talk.questions.is_empty();
            let idle = if talks.len() < MAX_TALKS {
                Vec::new()
            } else {
                talks.iter().filter(|(_, talk)| is_idle(talk)).map(|(id, _)| id.clone()).collect()
            };
            talks.retain(|id, _| !idle.contains(id));
            talks.entry(id.clone()).or_insert(talk);
            idle
        };
        // The next call about one opens it again.
        idle.iter().filter(|other| *other != id).for_each(|other| self.client.release(other));
        self.client.hold(id);
    }

    /// Returns the workspace of a session that is followed.
    pub fn workspace(&self, id: &SessionId) -> Option<Arc<Workspace>> {
        self.table.lock().get(id).map(|talk| talk.workspace.clone())
    }

    /// Gives a session a prompt.
    pub fn prompt(&self, engine: &Engine, id: &SessionId, input: PromptInput) {
        self.table.change(id, |talk| {
            talk.n_running += 1;
            // Nothing of a turn before.
            if talk.n_running == 1 {
                talk.doing = None;
            }
        });
        let (table, own) = (self.table.clone(), id.clone());
        let on_end = move |end: Result<TurnOutcome, EngineError>| {
            let ended = end
                .map(|it| Done { stop: it.stop, message_id: it.message_id, tokens: it.tokens })
                .map_err(|error| error.message);
            table.change(&own, |talk| {
                talk.n_running = talk.n_running.saturating_sub(1);
                talk.ended = Some(Ended(ended));
            });
        };
        engine.sessions().prompt(id, input, Box::new(on_end));
    }

    /// Ends when the session rests or asks something, or after the given time.
    pub async fn settled(&self, engine: &Engine, id: &SessionId, wait_seconds: Option<f64>) {
        let mut changes = self.table.changes.subscribe();
        let settled = async {
            while self
                .table
                .with_open(engine, id, |talk| talk.n_running > 0 && talk.questions.is_empty())
                .unwrap_or_default()
            {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        match wait_seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0))) {
            // So long that it is for ever.
            None | Some(Err(_)) => settled.await,
            Some(Ok(limit)) => _ = tokio::time::timeout(limit, settled).await,
        }
    }

    /// Answers a session's question.
    pub fn answer(
        &self,
        engine: &Engine,
        id: &SessionId,
        question_id: &str,
        answer: Option<Choice>,
        feedback: Option<String>,
    ) -> Result<(), Rejected> {
        let decision = {
            let mut talks = self.table.lock();
            let questions = talks.get_mut(id).map(|talk| &mut talk.questions);
            let Some(questions) = questions else { return Err(Rejected::Unknown(Vec::new())) };
            let Some(position) = questions.iter().position(|it| it.id() == question_id) else {
                return Err(Rejected::Unknown(questions.iter().map(|it| it.id().to_owned()).collect()));
            };
            let decision = decide(&questions[position], answer).map_err(Rejected::NotOffered)?;
            questions.remove(position);
            decision
        };
        self.table.changes.send_replace(());
        let is_taken = match decision {
            Decision::Reply(id, reply) => engine.asking().reply_permission(&id, reply, feedback),
            Decision::Labels(id, labels) => engine.asking().reply_question(&id, labels),
            Decision::Dismiss(id) => engine.asking().reject_question(&id),
        };
        // It was cancelled, or somebody else has answered.
        if is_taken { Ok(()) } else { Err(Rejected::Unknown(Vec::new())) }
    }

    /// Returns a session's first question, as the client reads it.
    pub fn question(&self, engine: &Engine, id: &SessionId) -> Option<Value> {
        self.table.with_open(engine, id, |talk| talk.questions.first().map(Pending::told)).flatten()
    }

    /// Returns the signs of work from now on.
    pub fn doings(&self, id: &SessionId) -> Doings {
        let n_read = self.table.lock().get(id).map_or(0, |talk| talk.n_doings);
        let changes = self.table.changes.subscribe();
        Doings { table: self.table.clone(), id: id.clone(), n_read, changes }
    }

    /// Returns the word for how a session is; none for one that is not followed.
    pub fn state(&self, engine: &Engine, id: &SessionId) -> Option<&'static str> {
        self.table.with_open(engine, id, Talk::state)
    }

    /// Returns how a session is, as the client reads it.
    pub async fn told(&self, engine: &Engine, id: &SessionId) -> Result<Map<String, Value>, EngineError> {
        let told = self.table.with_open(engine, id, Talk::told);
        let (mut told, message_id) = told.ok_or_else(|| EngineError::session_not_found(id))?;
        if let Some(message_id) = message_id
            && let Some(message) = engine.sessions().message(id, &message_id).await?
        {
            let texts = message.parts.iter().filter_map(|part| match &part.kind {
                PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
                _ => None,
            });
            told.insert("answer".to_owned(), texts.collect::<Vec<_>>().join("\n\n").into());
        }
        Ok(told)
    }
}

impl Talk {
    fn state(&self) -> &'static str {
        match &self.ended {
            _ if !self.questions.is_empty() => "waiting",
            _ if self.n_running > 0 => "running",
            None => "idle",
            Some(Ended(Err(_))) => "failed",
            Some(Ended(Ok(done))) if done.stop == StopReason::Cancelled => "cancelled",
            Some(Ended(Ok(_))) => "done",
        }
    }

    /// Returns how it is, with the id of its newest answer in place of the text.
    fn told(&self) -> (Map<String, Value>, Option<MessageId>) {
        let mut told = Map::new();
        let mut set = |key: &str, value: Value| _ = told.insert(key.to_owned(), value);
        set("state", self.state().into());
        set("questions", self.questions.iter().map(Pending::told).collect());
        let is_at_work = self.n_running > 0;
        if let Some(doing) = self.doing.as_ref().filter(|_| is_at_work) {
            set("doing", doing.as_str().into());
        }
        let mut message_id = None;
        match &self.ended {
            None => {}
            Some(_) if is_at_work => {}
            Some(Ended(Err(reason))) => set("error", reason.as_str().into()),
            Some(Ended(Ok(done))) => {
                set("stop_reason", word(done.stop).into());
                if let Some(tokens) = &done.tokens {
                    set("tokens", json!(tokens));
                }
                message_id.clone_from(&done.message_id);
            }
        }
        (told, message_id)
    }
}

fn word(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::MaxTurnRequests => "max_turn_requests",
        StopReason::Refusal => "refusal",
        StopReason::Cancelled => "cancelled",
    }
}

impl Pending {
    fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }

    fn told(&self) -> Value {
        match self {
            Self::Permission(request) => json!({
                "id": request.id, "kind": "permission", "permission": request.permission,
                "patterns": request.patterns, "details": request.metadata,
                "options": REPLIES.map(|(word, _)| word),
            }),
            Self::Question(request) => {
                json!({ "id": request.id, "kind": "question", "questions": request.questions })
            }
        }
    }
}

enum Decision {
    Reply(PermissionId, Reply),
    Labels(QuestionId, Vec<Vec<String>>),
    Dismiss(QuestionId),
}

/// Reads an answer; the error lists the possible answers.
fn decide(pending: &Pending, answer: Option<Choice>) -> Result<Decision, String> {
    match (pending, answer) {
        (Pending::Permission(request), answer) => {
            let chosen = match &answer {
                Some(Choice::One(word)) => REPLIES.iter().find(|(own, _)| own == word),
                Some(Choice::Each(_)) | None => None,
            };
            let words = REPLIES.map(|(word, _)| word).join(", ");
            let (_, reply) = chosen.ok_or_else(|| format!("A permission is answered by one of {words}."))?;
            if request.permission == TRUST && *reply != Reply::Reject {
                return Err("Only a person trusts a project: `windlass trust` in a terminal.".to_owned());
            }
            Ok(Decision::Reply(request.id.clone(), *reply))
        }
        (Pending::Question(request), None) => Ok(Decision::Dismiss(request.id.clone())),
        (Pending::Question(request), Some(answer)) => {
            let each = match answer {
                Choice::One(label) => vec![Labels::One(label)],
                Choice::Each(each) => each,
            };
            let (n_given, n_asked) = (each.len(), request.questions.len());
            if n_given != n_asked {
                return Err(format!("There are {n_asked} questions and {n_given} answers."));
            }
            let mut labels = Vec::new();
            for (question, given) in request.questions.iter().zip(each) {
                let given = match given {
                    Labels::One(label) => vec![label],
                    Labels::Many(labels) => labels,
                };
                let is_offered = |label: &String| question.options.iter().any(|it| it.label == *label);
                if let Some(other) = given.iter().find(|it| !question.takes_custom() && !is_offered(it)) {
                    let offered: Vec<&str> = question.options.iter().map(|it| it.label.as_str()).collect();
                    return Err(format!("`{other}` is not offered; there are {}.", offered.join(", ")));
                }
                if given.len() > 1 && !question.is_multiple() {
                    return Err(format!("`{}` takes one answer.", question.header));
                }
                labels.push(given);
            }
            Ok(Decision::Labels(request.id.clone(), labels))
        }
    }
}

impl Doings {
    /// Returns the next sign of work; of many that came at once the newest. None where the session is not followed.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            {
                let talks = self.table.lock();
                let talk = talks.get(&self.id)?;
                if talk.n_doings > self.n_read {
                    self.n_read = talk.n_doings;
                    return talk.doing.clone();
                }
            }
            self.changes.changed().await.ok()?;
        }
    }
}

/// Takes in events until the client is dropped.
async fn listen(events: Arc<Queue<Arc<Event>>>, table: Arc<Table>) {
    let mut batch = VecDeque::new();
    while events.next_batch(&mut batch).await {
        for event in batch.drain(..) {
            table.take_in(&event.payload);
        }
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Talk>> {
        lock(&self.talks)
    }

    /// Reads a session, without the questions that nobody waits for any more: their events may be on their way.
    fn with_open<T>(&self, engine: &Engine, id: &SessionId, read: impl FnOnce(&Talk) -> T) -> Option<T> {
        let mut talks = self.lock();
        let talk = talks.get_mut(id)?;
        talk.questions.retain(|question| match question {
            Pending::Permission(request) => engine.asking().is_permission_waiting(&request.id),
            Pending::Question(request) => engine.asking().is_question_waiting(&request.id),
        });
        Some(read(talk))
    }

    /// Changes the session, or the one that it works for as a subagent's.
    fn change(&self, id: &SessionId, change: impl FnOnce(&mut Talk)) {
        {
            let mut talks = self.lock();
            let talk = match talks.get_mut(id) {
                Some(talk) => Some(talk),
                None => talks.values_mut().find(|talk| talk.children.contains(id)),
            };
            let Some(talk) = talk else { return };
            change(talk);
        }
        self.changes.send_replace(());
    }

    fn take_in(&self, payload: &EventPayload) {
        match payload {
            // A subagent that goes on is not made anew.
            EventPayload::SessionCreated(child) | EventPayload::SessionUpdated(child) => {
                if let Some(parent_id) = &child.info.parent_id {
                    self.change(parent_id, |talk| {
                        if !talk.children.contains(&child.session_id) {
                            talk.children.push(child.session_id.clone());
                        }
                    });
                }
            }
            EventPayload::PermissionAsked(request) => {
                let pending = Pending::Permission(request.clone());
                self.change(&request.session_id, |talk| talk.questions.push(pending));
            }
            EventPayload::QuestionAsked(request) => {
                let pending = Pending::Question(request.clone());
                self.change(&request.session_id, |talk| talk.questions.push(pending));
            }
            EventPayload::PermissionReplied { session_id, request_id, .. } => {
                self.change(session_id, |talk| talk.questions.retain(|it| it.id() != request_id.as_str()));
            }
            EventPayload::QuestionReplied { session_id, request_id, .. }
            | EventPayload::QuestionRejected { session_id, request_id } => {
                self.change(session_id, |talk| talk.questions.retain(|it| it.id() != request_id.as_str()));
            }
            EventPayload::PartUpdated { session_id, part, .. } => {
                let PartKind::Tool(call) = &part.kind else { return };
                let ToolState::Running { title, .. } = &call.state else { return };
                let title = title.as_deref().filter(|title| !title.is_empty());
                let doing =
                    title.map_or_else(|| call.tool.clone(), |title| format!("{}: {title}", call.tool));
                self.change(session_id, |talk| {
                    if talk.doing.as_ref() != Some(&doing) {
                        talk.doing = Some(doing);
                        talk.n_doings += 1;
                    }
                });
            }
            _ => {}
        }
    }
}
