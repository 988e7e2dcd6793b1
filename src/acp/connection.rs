//! One client, as everything that serves it knows it.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
};

use jsonrpsee::Methods;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use windlass_protocol::{acp::decode::ClientCapabilities, opencode::id::SessionId};

use super::{
    front::{FrontSession, FrontSessions},
    outbox::Outbox,
    permissions::Permissions,
};
use crate::{
    base::lock::lock,
    engine::{Client as Lease, Engine},
};

/// Bytes of one line; a longer one is refused, not kept.
pub const MAX_LINE: usize = 64 * 1024 * 1024;

/// What the command line says of a connection.
#[derive(Debug, Clone)]
pub struct Options {
    /// Append every line in both directions to this file.
    pub trace: Option<PathBuf>,
    /// How to start the login in a terminal: program and arguments.
    pub login_command: Vec<String>,
    /// Bytes of the longest line that is read.
    pub max_line: usize,
    /// Ends the connection: turns are cancelled, what is said is flushed.
    pub stop: CancellationToken,
}

/// A client.
pub struct Connection {
    pub engine: Engine,
    /// The sessions that the client holds and the requests that it can answer.
    pub lease: Lease,
    pub outbox: Arc<Outbox>,
    pub permissions: Arc<Permissions>,
    pub options: Options,
    pub methods: Methods,
    /// Dispatches a line, also one that waited for its session to open.
    pub dispatch: fn(&Arc<Connection>, &[u8]),
    /// Handlers that run beside the reader, one after another in the order of their lines.
    pub tasks: TaskTracker,
    /// Ends when the handler that was started last has ended.
    pub last_handler: Mutex<Option<oneshot::Receiver<()>>>,
    client: Mutex<Option<ClientCapabilities>>,
    pub fronts: FrontSessions,
    /// Sessions whose opening is under way, and the lines that wait for it.
    pub gates: Mutex<HashMap<String, VecDeque<Vec<u8>>>>,
}

impl Connection {
    /// A client of which nothing is known yet.
    pub fn new(
        engine: Engine,
        lease: Lease,
        options: Options,
        methods: Methods,
        dispatch: fn(&Arc<Connection>, &[u8]),
    ) -> Self {
        let fronts = FrontSessions::default();
        Self {
            engine,
            lease,
            outbox: Arc::new(Outbox::new(fronts.clone())),
            permissions: Arc::default(),
            options,
            methods,
            dispatch,
            tasks: TaskTracker::new(),
            last_handler: Mutex::default(),
            client: Mutex::default(),
            fronts,
            gates: Mutex::default(),
        }
    }

    /// What the client can do; `None` before `initialize`.
    pub fn client(&self) -> Option<ClientCapabilities> {
        lock(&self.client).clone()
    }

    pub fn set_client(&self, client: ClientCapabilities) {
        *lock(&self.client) = Some(client);
    }

    pub fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, FrontSession>> {
        lock(&self.fronts)
    }
}
