//! The state of one client, owned by value by the task that serves it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use jsonrpsee::{Methods, types::ErrorObjectOwned};
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use windlass_engine::{Answerable, Client as Lease, Editor, Engine};
use windlass_protocol::{opencode::id::SessionId, rpc::Id};
use windlass_protocol_acp::{decode::ClientCapabilities, schema::AuthStatusResponse};

use super::{
    client_session::ClientSession,
    editor::ClientEditor,
    encoder::Encoder,
    other_node::OtherNode,
    outbox::{Cancel, Outbox, Responder},
};

/// The command line's part of a connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// Append every line in both directions to this file.
    pub trace: Option<PathBuf>,
    /// Program and arguments that start the login in a terminal.
    pub login_command: Vec<String>,
    /// Bytes of the longest line that is read.
    pub max_line: usize,
    /// The client is another node of the fleet, and speaks for one of its own: nothing is passed on any further.
    pub is_of_fleet: bool,
    /// Ends the connection: turns are cancelled, the last lines are flushed.
    pub stop: CancellationToken,
    /// Cancelled once the client has closed the input, whether or not all of it is read.
    pub hung_up: CancellationToken,
}

/// A client.
pub struct Connection {
    pub engine: Engine,
    /// The sessions that the client holds and the requests that it can answer.
    pub lease: Arc<Lease>,
    pub outbox: Arc<Outbox>,
    pub options: Options,
    pub methods: Methods,
    /// The accounts that the client knows of, once it has asked.
    pub auth_shown: Option<AuthStatusResponse>,
    /// Everything that the client was shown, and its sessions.
    pub encoder: Encoder,
    /// Sessions that are being opened, and the lines that wait for them.
    pub gates: HashMap<String, VecDeque<Vec<u8>>>,
    /// Ends when the handler that was started last has ended.
    pub last_handler: Option<oneshot::Receiver<()>>,
    /// Handlers beside the connection's task, one after another in the order of their lines.
    handlers: JoinSet<()>,
    /// Number of handlers that run, or have ended and were not taken yet.
    n_handlers: usize,
    handled: mpsc::UnboundedSender<Handled>,
    is_initialized: bool,
    /// Requests of the client that are not answered yet, and how to cancel them.
    unanswered: HashMap<Id, Cancel>,
    /// Servers, by their directory and name, with logins that the client was offered.
    pub offered_logins: Arc<Mutex<HashSet<(PathBuf, String)>>>,
    /// The parameters of the client's `initialize`.
    pub greeting: Option<Value>,
    /// The sessions of the client that other nodes have.
    pub other_nodes: Vec<OtherNode>,
    /// Agents that took over in sessions that are being opened.
    switched: HashMap<SessionId, String>,
}

/// Answers a request and does the work that must follow the answer.
pub type Reply = Box<dyn FnOnce(&mut Connection, Responder) + Send>;

/// Brings a session back that was open, here or at its node.
pub type Opened = Box<dyn FnOnce(&mut Connection) + Send>;

/// A handler's work that has ended.
pub enum Handled {
    Request {
        responder: Responder,
        /// The session with lines that wait for the answer.
        session: Option<String>,
        outcome: Result<Reply, ErrorObjectOwned>,
        /// Dropped once the request is answered; the next handler waits for it.
        ended: oneshot::Sender<()>,
    },
    /// A session that had gone elsewhere is open again, for the lines that wait for it.
    Reopened { session: String, outcome: Result<Opened, ErrorObjectOwned> },
}

impl Connection {
    /// Makes a connection to a client that is not known yet.
    pub fn new(
        engine: Engine,
        options: Options,
        methods: Methods,
        outbox: Arc<Outbox>,
        handled: mpsc::UnboundedSender<Handled>,
    ) -> Self {
        // Every client can be asked: each must know how to ask for a permission (facts: ACP §1.2).
        let lease = Arc::new(engine.client(Answerable::Person));
        Self {
            engine,
            lease,
            outbox,
            options,
            methods,
            auth_shown: None,
            encoder: Encoder::default(),
            gates: HashMap::new(),
            last_handler: None,
            handlers: JoinSet::new(),
            n_handlers: 0,
            handled,
            is_initialized: false,
            unanswered: HashMap::new(),
            offered_logins: Arc::default(),
            greeting: None,
            other_nodes: Vec::new(),
            switched: HashMap::new(),
        }
    }

    /// Returns true while a handler runs beside this task, or its end is not dealt with.
    pub fn is_handling(&self) -> bool {
        self.n_handlers > 0
    }

    /// Notes that the client can answer nothing any more. Requests that wait for it are refused.
    pub fn give_up(&mut self) {
        self.encoder.permissions.give_up();
        self.encoder.client_calls.give_up();
        self.end_input_of_nodes();
        self.lease.set_editor(None);
        self.lease.set_answerable(Answerable::Nothing);
    }

    /// Tells the nodes that have sessions of the client that it says nothing more.
    pub fn end_input_of_nodes(&self) {
        self.other_nodes.iter().for_each(OtherNode::end_input);
    }

    /// Runs a handler beside this task.
    pub fn run_handler(&mut self, work: impl Future<Output = Handled> + Send + 'static) {
        while self.handlers.try_join_next().is_some() {}
        self.n_handlers += 1;
        let handled = self.handled.clone();
        self.handlers.spawn(async move {
            // A connection that has ended has no use for it.
            let _ = handled.send(work.await);
        });
    }

    /// Notes that the end of a handler is dealt with.
    pub fn note_handled(&mut self) {
        self.n_handlers -= 1;
    }

    /// Returns the client's abilities; `None` before `initialize`.
    pub fn client(&self) -> Option<&ClientCapabilities> {
        self.is_initialized.then_some(&self.encoder.client)
    }

    pub fn set_client(&mut self, client: ClientCapabilities) {
        self.is_initialized = true;
        let (reads, writes) = (client.reads_files, client.writes_files);
        let editor = ClientEditor { outbox: self.outbox.clone(), reads, writes };
        self.lease.set_editor((reads || writes).then(|| Arc::new(editor) as Arc<dyn Editor>));
        self.encoder.set_client(client);
    }

    /// Returns true if the client shows notices.
    pub fn wants_notices(&self) -> bool {
        self.client().is_some_and(|client| client.notices)
    }

    pub fn sessions(&mut self) -> &mut HashMap<SessionId, ClientSession> {
        &mut self.encoder.client_sessions
    }

    /// Takes the agent that took over in a session before the client knew the session.
    pub fn take_switch(&mut self, id: &SessionId) -> Option<String> {
        self.switched.remove(id)
    }

    /// Makes the duty to answer a request.
    pub fn responder(&mut self, id: Id) -> Responder {
        self.unanswered.insert(id.clone(), Cancel::No);
        Responder::new(id, self.outbox.clone())
    }

    /// Notes how a request in flight can be cancelled.
    pub fn set_cancel(&mut self, id: &Id, cancel: Cancel) {
        if let Some(entry) = self.unanswered.get_mut(id) {
            *entry = cancel;
        }
    }

    /// Returns the way to cancel the request with this id, while it is in flight.
    pub fn cancel_of(&self, id: &Id) -> Option<Cancel> {
        self.unanswered.get(id).cloned()
    }

    /// Notes an agent that took over.
    pub fn switch(&mut self, session_id: SessionId, agent: String) {
        match self.encoder.client_sessions.get_mut(&session_id) {
            Some(client_session) => client_session.chosen.agent = Some(agent),
            None => _ = self.switched.insert(session_id, agent),
        }
    }

    /// Returns true while a request of the client has no answer.
    pub fn is_answering(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Notes that a request is answered.
    pub fn note_answer(&mut self, id: &Id) {
        self.unanswered.remove(id);
    }
}
