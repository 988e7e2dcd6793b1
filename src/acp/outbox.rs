//! The one ordered queue of everything that goes to the client, and the answer that every request gets exactly once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::BoxFuture;
use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use windlass_base::queue::Queue;
use windlass_core::bus::Subscriber;
use windlass_engine::{TurnOutcome, Workspace};
use windlass_protocol::{
    opencode::{
        event::{Event, EventPayload},
        id::{QuestionId, SessionId},
        message::MessageWithParts,
        part::{PartKind, ToolState},
        session::Todo,
    },
    rpc::{self, Id},
};
use windlass_protocol_acp::schema::SessionUpdate;

use super::{
    client_call::{CallFailure, ClientCall, Notified},
    error::error,
};

/// Numbers the requests of all connections, so that each can be taken back.
static NEXT_CALL: AtomicU64 = AtomicU64::new(0);

/// Bytes the client may be behind before sessions that stream wait for it.
const HIGH_WATER: usize = 64 * 1024;
/// Bytes of an envelope and ids, roughly.
const ENVELOPE: usize = 200;
/// Bytes of a running call, at most roughly: the tail of its output.
const RUNNING: usize = 30_000;

/// Something for the client.
pub enum Outgoing {
    /// An event of the engine.
    Event(Arc<Event>),
    /// The answer to a request, encoded, without its line feed.
    Answer { id: Id, line: Vec<u8> },
    /// A whole encoded message, without its line feed.
    Line(Vec<u8>),
    /// The session is known to the client from here on, with this title and its cost so far in US dollars.
    Attach { session_id: SessionId, workspace: Arc<Workspace>, title: String, cost: f64 },
    /// Everything said so far follows; events of the session that come before it wait behind it.
    Hold(SessionId),
    /// Nothing follows after all: the items that were held back are shown.
    Release(SessionId),
    /// A page of the session's past, to be shown before the items that were held back.
    Past(Box<Past>),
    /// The session's past was shown; its list, its subagents' sessions and the items held back follow.
    PastEnd { session_id: SessionId, todos: Vec<Todo>, children: Vec<SessionId> },
    /// The session is no longer shown.
    Detach(SessionId),
    /// The client does not know the subagents that it was told of: their sessions above show them from here on.
    ShowSubagentsAbove,
    /// A tool's questions go on with the next one.
    NextQuestion(QuestionId),
    /// A request that a tool or a server has for the client.
    ClientCall(Box<ClientCall>),
    /// Nothing waits for the answer to such a request any more.
    ClientCallDropped(u64),
    /// An update of a session, of the connection's own.
    Update(SessionId, Box<SessionUpdate>),
    /// The turn of a prompt begins, which is answered once its message is there, as version 2 has it.
    PromptBegan { session_id: SessionId, responder: Responder },
    /// The turn of such a prompt has ended.
    PromptEnded { session_id: SessionId, end: Box<PromptEnd> },
    /// The client of version 2 is to know whether the session works.
    State { session_id: SessionId, is_working: bool },
}

/// End of a prompt of version 2.
pub struct PromptEnd {
    /// The duty to answer, where the turn never began.
    pub responder: Option<Responder>,
    pub outcome: Result<TurnOutcome, ErrorObjectOwned>,
}

impl Outgoing {
    /// Bytes on the wire, roughly.
    fn weight(&self) -> usize {
        match self {
            Outgoing::Line(line) | Outgoing::Answer { line, .. } => line.len(),
            Outgoing::Event(event) => ENVELOPE + event_weight(&event.payload),
            Outgoing::Attach { .. }
            | Outgoing::Hold(_)
            | Outgoing::Release(_)
            | Outgoing::Detach(_)
            | Outgoing::NextQuestion(_)
            | Outgoing::ShowSubagentsAbove
            | Outgoing::PromptBegan { .. }
            | Outgoing::ClientCallDropped(_) => 0,
            Outgoing::Update(..) | Outgoing::PromptEnded { .. } | Outgoing::State { .. } => ENVELOPE,
            Outgoing::ClientCall(call) => ENVELOPE + value_weight(&call.params),
            Outgoing::Past(past) => past.messages.iter().map(message_weight).sum(),
            Outgoing::PastEnd { .. } => ENVELOPE,
        }
    }
}

/// Bytes of the texts of a value.
fn value_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value_weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, value)| key.len() + value_weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Bytes of the texts that can be large; a finished call shows its output as content and as raw output.
fn event_weight(payload: &EventPayload) -> usize {
    if let EventPayload::PartDelta { delta, .. } = payload {
        delta.len()
    } else if let EventPayload::PartUpdated { part, .. } = payload
        && let PartKind::Tool(tool) = &part.kind
    {
        match &tool.state {
            ToolState::Completed { output, .. } => 2 * output.len(),
            // The last output of a running command is of bounded size.
            ToolState::Running { .. } => RUNNING,
            ToolState::Pending { .. } | ToolState::Error { .. } => 0,
        }
    } else {
        0
    }
}

fn message_weight(message: &MessageWithParts) -> usize {
    let texts = message.parts.iter().map(|part| match &part.kind {
        PartKind::Text(text) => text.text.len(),
        PartKind::Reasoning(reasoning) => reasoning.text.len(),
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Completed { output, .. } => 2 * output.len(),
            ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Error { .. } => 0,
        },
        _other => 0,
    });
    texts.map(|n_bytes| ENVELOPE + n_bytes).sum()
}

/// A page of a session's past.
pub struct Past {
    pub session_id: SessionId,
    pub messages: Vec<MessageWithParts>,
    /// The histories of the subagents that these messages started.
    pub children: HashMap<SessionId, Vec<MessageWithParts>>,
}

/// News for the connection, long before the client is told.
pub enum News {
    /// An agent took over in a session. Prompts that are read from here on go to it.
    Switched { session_id: SessionId, agent: String },
    /// A prompt that has not begun is for a session that another node has: its line is to be read again behind that.
    Moved { responder: Responder, session_id: SessionId, line: Vec<u8>, failure: ErrorObjectOwned },
}

/// See the module's comment.
pub struct Outbox {
    pub queue: Queue<Outgoing>,
    news: mpsc::UnboundedSender<News>,
}

/// The way to cancel a request in flight.
#[derive(Clone)]
pub enum Cancel {
    /// There is none: it is answered at once.
    No,
    /// A handler's task.
    Task(CancellationToken),
    /// A prompt, by the engine's ticket.
    Prompt { session_id: SessionId, ticket: u64 },
    /// A request that was passed on, by its id there.
    AtOtherNode { session_id: SessionId, id: i64 },
}

impl Outbox {
    /// Makes an outbox, and the channel by which its connection hears of news.
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<News>) {
        let (news, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self { queue: Queue::new(HIGH_WATER), news }), receiver)
    }

    /// Tells the connection something. One that has ended has no use for it.
    pub fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }

    /// Encodes a message into the queue.
    pub fn send(&self, message: &impl Serialize) {
        if let Some(line) = encode(message) {
            self.push(Outgoing::Line(line));
        }
    }

    /// Makes a request of the client, behind all that was said before, and returns its answer. Dropping that takes the
    /// request back.
    pub fn call(
        self: &Arc<Self>,
        session_id: Option<&SessionId>,
        method: &'static str,
        params: Value,
        notified: Option<Notified>,
    ) -> impl Future<Output = Result<Value, CallFailure>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        let number = NEXT_CALL.fetch_add(1, Ordering::Relaxed);
        let call = ClientCall { number, session_id: session_id.cloned(), method, params, notified, reply };
        self.push(Outgoing::ClientCall(Box::new(call)));
        let guard = CancelOnDrop { outbox: self.clone(), number };
        async move {
            let _guard = guard;
            answer.await.unwrap_or(Err(CallFailure::Gone))
        }
    }

    /// Appends an item.
    pub fn push(&self, item: Outgoing) {
        let weight = item.weight();
        self.queue.push(item, weight);
    }
}

/// Cancels a request when nothing waits for it any more.
struct CancelOnDrop {
    outbox: Arc<Outbox>,
    number: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.outbox.push(Outgoing::ClientCallDropped(self.number));
    }
}

fn encode(message: &impl Serialize) -> Option<Vec<u8>> {
    let line = serde_json::to_vec(message);
    line.inspect_err(|error| tracing::error!(%error, "a message could not be encoded")).ok()
}

impl Subscriber for Outbox {
    fn deliver(&self, event: &Arc<Event>) {
        if let EventPayload::AgentSwitched { session_id, agent, .. } = &event.payload {
            self.tell(News::Switched { session_id: session_id.clone(), agent: agent.clone() });
        }
        self.push(Outgoing::Event(event.clone()));
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.queue.room())
    }

    fn n_behind(&self) -> usize {
        self.queue.n_behind()
    }

    fn cut_off(&self) {
        self.queue.close();
    }
}

/// The duty to answer one request exactly once. Dropped without an answer it says so to the client.
pub struct Responder {
    id: Id,
    outbox: Arc<Outbox>,
    is_answered: bool,
}

impl Responder {
    pub fn new(id: Id, outbox: Arc<Outbox>) -> Self {
        Self { id, outbox, is_answered: false }
    }

    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Leaves the request without an answer, since it is read again. Returns its id.
    pub fn withdraw(mut self) -> Id {
        self.is_answered = true;
        self.id.clone()
    }

    pub fn succeed(mut self, result: &impl Serialize) {
        let id = self.id.clone();
        self.answer(&rpc::success(&id, result));
    }

    pub fn fail(mut self, error: &ErrorObjectOwned) {
        let id = self.id.clone();
        self.answer(&Failure { jsonrpc: "2.0", id: &id, error });
    }

    /// Returns the message that answers with a result, for its place among the updates that are being encoded.
    pub fn success_line(mut self, result: &impl Serialize) -> (Id, Vec<u8>) {
        self.is_answered = true;
        (self.id.clone(), encode(&rpc::success(&self.id, result)).unwrap_or_default())
    }

    /// Returns the message that answers with an error, as [`Responder::success_line`] does.
    pub fn failure_line(mut self, error: &ErrorObjectOwned) -> (Id, Vec<u8>) {
        self.is_answered = true;
        let failure = Failure { jsonrpc: "2.0", id: &self.id, error };
        (self.id.clone(), encode(&failure).unwrap_or_default())
    }

    fn answer(&mut self, message: &impl Serialize) {
        self.is_answered = true;
        if let Some(line) = encode(message) {
            self.outbox.push(Outgoing::Answer { id: self.id.clone(), line });
        }
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_answered {
            let error = error(rpc::code::INTERNAL_ERROR, "windlass dropped the request without an answer.");
            let id = self.id.clone();
            self.answer(&Failure { jsonrpc: "2.0", id: &id, error: &error });
        }
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    error: &'a ErrorObjectOwned,
}
