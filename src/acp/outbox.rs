//! The one ordered queue of everything that goes to the client, and the answer that every request gets exactly once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
};

use futures_util::future::BoxFuture;
use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
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

use super::{error::error, front::FrontSessions};
use crate::{
    base::{lock::lock, queue::Queue},
    bus::Subscriber,
    engine::Workspace,
};

/// Bytes the client may be behind before sessions that stream wait for it.
const HIGH_WATER: usize = 64 * 1024;
/// Bytes of an envelope and ids, roughly.
const ENVELOPE: usize = 200;
/// Bytes of a running call, at most roughly: the tail of its output.
const RUNNING: usize = 30_000;

/// Something for the writer.
pub enum Outgoing {
    /// What the engine published.
    Event(Arc<Event>),
    /// A whole encoded message, without its line feed.
    Line(Vec<u8>),
    /// The session is known to the client from here on, with this title and what it has cost in US dollars.
    Attach { session_id: SessionId, workspace: Arc<Workspace>, title: String, cost: f64 },
    /// Everything said so far follows; events of the session that come before it wait behind it.
    Hold(SessionId),
    /// Nothing follows after all: what was held back is shown.
    Release(SessionId),
    /// What was said so far, to be shown before what was held back.
    Replay(Box<Replay>),
    /// The session is no longer shown.
    Detach(SessionId),
    /// A tool's questions go on with the next one.
    AskOn(QuestionId),
}

impl Outgoing {
    /// Bytes on the wire, roughly.
    fn weight(&self) -> usize {
        match self {
            Outgoing::Line(line) => line.len(),
            Outgoing::Event(event) => ENVELOPE + event_weight(&event.payload),
            Outgoing::Attach { .. }
            | Outgoing::Hold(_)
            | Outgoing::Release(_)
            | Outgoing::Detach(_)
            | Outgoing::AskOn(_) => 0,
            // It is one answer to one request, however long.
            Outgoing::Replay(_) => ENVELOPE,
        }
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
            // What a running command printed last is of bounded size.
            ToolState::Running { .. } => RUNNING,
            ToolState::Pending { .. } | ToolState::Error { .. } => 0,
        }
    } else {
        0
    }
}

/// A session's past.
pub struct Replay {
    pub session_id: SessionId,
    pub messages: Vec<MessageWithParts>,
    pub todos: Vec<Todo>,
    /// What its subagents did.
    pub children: HashMap<SessionId, Vec<MessageWithParts>>,
}

/// See the module's comment.
pub struct Outbox {
    pub queue: Queue<Outgoing>,
    /// Requests of the client that are not answered yet, and how to cancel them.
    unanswered: Mutex<HashMap<Id, Cancel>>,
    fronts: FrontSessions,
    /// Agents that took over in sessions that are being opened.
    switched: Mutex<HashMap<SessionId, String>>,
}

/// How a request in flight is cancelled.
#[derive(Clone)]
pub enum Cancel {
    /// Cannot be: it is answered at once.
    No,
    /// A handler's task.
    Task(CancellationToken),
    /// A prompt, by the engine's ticket.
    Prompt { session_id: SessionId, ticket: u64 },
}

impl Outbox {
    pub fn new(fronts: FrontSessions) -> Self {
        let queue = Queue::new(HIGH_WATER);
        Self { queue, unanswered: Mutex::default(), fronts, switched: Mutex::default() }
    }

    /// The agent that took over in a session since this was asked last, while the client did not know the session.
    pub fn take_switch(&self, id: &SessionId) -> Option<String> {
        lock(&self.switched).remove(id)
    }

    /// Lets prompts that are read from here on go to the agent that took over, long before the client is told.
    fn note_switch(&self, id: &SessionId, agent: &str) {
        match lock(&self.fronts).get_mut(id) {
            Some(front) => front.agent = Some(agent.to_owned()),
            None => _ = lock(&self.switched).insert(id.clone(), agent.to_owned()),
        }
    }

    /// Encodes a message into the queue.
    pub fn send(&self, message: &impl Serialize) {
        match serde_json::to_vec(message) {
            Ok(line) => self.push(Outgoing::Line(line)),
            Err(error) => tracing::error!(%error, "a message could not be encoded"),
        }
    }

    /// Appends an item.
    pub fn push(&self, item: Outgoing) {
        let weight = item.weight();
        self.queue.push(item, weight);
    }

    /// The duty to answer a request.
    pub fn responder(self: &Arc<Self>, id: Id) -> Responder {
        self.unanswered().insert(id.clone(), Cancel::No);
        Responder { id, outbox: self.clone(), is_answered: false }
    }

    /// Says how a request in flight can be cancelled. A request that is answered already stays so.
    pub fn set_cancel(&self, id: &Id, cancel: Cancel) {
        if let Some(entry) = self.unanswered().get_mut(id) {
            *entry = cancel;
        }
    }

    /// How the request with this id is cancelled, while it is in flight.
    pub fn cancel_of(&self, id: &Id) -> Option<Cancel> {
        self.unanswered().get(id).cloned()
    }

    fn unanswered(&self) -> MutexGuard<'_, HashMap<Id, Cancel>> {
        lock(&self.unanswered)
    }
}

impl Subscriber for Outbox {
    fn deliver(&self, event: &Arc<Event>) {
        if let EventPayload::AgentSwitched { session_id, agent, .. } = &event.payload {
            self.note_switch(session_id, agent);
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
    pub fn id(&self) -> &Id {
        &self.id
    }

    pub fn succeed(mut self, result: &impl Serialize) {
        self.outbox.send(&rpc::success(&self.id, result));
        self.settle();
    }

    pub fn fail(mut self, error: &ErrorObjectOwned) {
        match serde_json::value::to_raw_value(error) {
            Ok(error) => self.outbox.send(&failure(&self.id, &error)),
            Err(error) => tracing::error!(%error, "an error could not be encoded"),
        }
        self.settle();
    }

    /// Answers with an error object that is encoded already.
    pub fn fail_raw(mut self, error: &RawValue) {
        self.outbox.send(&failure(&self.id, error));
        self.settle();
    }

    fn settle(&mut self) {
        self.is_answered = true;
        self.outbox.unanswered().remove(&self.id);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.is_answered {
            let error = error(rpc::code::INTERNAL_ERROR, "The request was not completed: windlass ended it.");
            if let Ok(error) = serde_json::value::to_raw_value(&error) {
                self.outbox.send(&failure(&self.id, &error));
            }
            self.settle();
        }
    }
}

#[derive(Serialize)]
struct RawFailure<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    error: &'a RawValue,
}

fn failure<'a>(id: &'a Id, error: &'a RawValue) -> RawFailure<'a> {
    RawFailure { jsonrpc: "2.0", id, error }
}
