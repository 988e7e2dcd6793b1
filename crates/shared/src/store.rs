//! The shared store in Postgres, as this process uses it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, OnceCell, mpsc, watch};
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_core::storage::{Storage, outlet::SharedError};
use windlass_protocol::opencode::{
    id::SessionId,
    settings::{Acknowledge, SharedSettings},
};

mod answers;
mod append;
mod checkpoint;
mod database;
mod failure;
mod form;
mod hold;
mod lease;
mod life;
mod listing;
mod node;
pub mod people;
mod schema;
mod seal;
mod table;

use self::{database::Database, node::Node, seal::Keys, table::Table};
use crate::types::{Notice, Owner, Standing};

/// Time for which a lease holds without being renewed.
const LEASE: Duration = Duration::from_secs(15);
/// The schema where the settings name none.
const SCHEMA: &str = "windlass";
/// Notices, and checkpoints that are due, that wait at most.
const MAX_WAITING: usize = 1024;

/// The shared store as this process uses it. Cloning it shares it.
#[derive(Clone)]
pub struct Shared(Arc<State>);

struct State {
    acknowledged: Acknowledged,
    lease: Duration,
    name: String,
    address: Option<String>,
    own_key: Option<String>,
    /// The directory of the store's files.
    directory: PathBuf,
    storage: Storage,
    database: Database,
    keys: OnceCell<Keys>,
    node: Mutex<Option<Node>>,
    registering: tokio::sync::Mutex<()>,
    /// Ids under which this process was or may have been registered.
    lives: Mutex<Vec<String>>,
    claiming: Mutex<HashMap<SessionId, Weak<tokio::sync::Mutex<()>>>>,
    table: Mutex<Table>,
    wake: Notify,
    renewed: Notify,
    due: (mpsc::Sender<SessionId>, Mutex<Option<mpsc::Receiver<SessionId>>>),
    notices: (mpsc::Sender<Notice>, Mutex<Option<mpsc::Receiver<Notice>>>),
    /// Counts the changes of accounts that other nodes tell of.
    people: watch::Sender<u64>,
    figures: Figures,
    /// Why changes wait, while they do.
    trouble: Mutex<Option<String>>,
    stop: CancellationToken,
}

/// When a change may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acknowledged {
    /// Once the shared log has it.
    Shared,
    /// Once the store of this machine has it; the log follows.
    Local,
}

/// Counts since the process began.
#[derive(Debug, Default)]
struct Figures {
    events: AtomicU64,
    bytes: AtomicU64,
    commits: AtomicU64,
    fenced: AtomicU64,
    taken: AtomicU64,
}

impl Shared {
    /// Makes the shared store that the settings name; nothing is connected yet. `None` if they name none.
    pub fn new(
        settings: &SharedSettings,
        storage: &Storage,
        directory: &Path,
    ) -> Result<Option<Self>, SharedError> {
        let Some(url) = settings.url.as_deref().filter(|url| !url.trim().is_empty()) else { return Ok(None) };
        let database = Database::new(url, settings.schema.as_deref().unwrap_or(SCHEMA))?;
        let name = settings.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(host_name);
        let (due, due_next) = mpsc::channel(MAX_WAITING);
        let (notices, next_notice) = mpsc::channel(MAX_WAITING);
        let shared = Self(Arc::new(State {
            acknowledged: match settings.ack {
                Some(Acknowledge::Local) => Acknowledged::Local,
                Some(Acknowledge::Shared) | None => Acknowledged::Shared,
            },
            lease: settings.lease.map_or(LEASE, Duration::from_millis),
            name,
            address: settings
                .address
                .as_deref()
                .map(|it| it.trim_end_matches('/').to_owned())
                .filter(|it| !it.is_empty()),
            own_key: settings.key.clone().filter(|key| !key.is_empty()),
            directory: directory.to_owned(),
            storage: storage.clone(),
            database,
            keys: OnceCell::new(),
            node: Mutex::default(),
            registering: tokio::sync::Mutex::default(),
            lives: Mutex::default(),
            claiming: Mutex::default(),
            table: Mutex::default(),
            wake: Notify::new(),
            renewed: Notify::new(),
            due: (due, Mutex::new(Some(due_next))),
            notices: (notices, Mutex::new(Some(next_notice))),
            people: watch::channel(0).0,
            figures: Figures::default(),
            trouble: Mutex::default(),
            stop: CancellationToken::new(),
        }));
        let is_slow = shared.0.acknowledged == Acknowledged::Shared;
        storage.outlet.set(shared.outlet(), is_slow);
        Ok(Some(shared))
    }

    /// Returns the notices for the engine, once.
    pub fn notices(&self) -> Option<mpsc::Receiver<Notice>> {
        lock(&self.0.notices.1).take()
    }

    fn tell(&self, notice: Notice) {
        if self.0.notices.0.try_send(notice).is_err() {
            tracing::error!("a notice of the shared store was not heard");
        }
    }

    /// Returns the keys of the fleet.
    async fn keys(&self) -> Result<&Keys, SharedError> {
        let make = async || {
            let fleet = self.0.database.key().await?;
            Ok(Keys::new(fleet, self.0.own_key.as_deref()))
        };
        self.0.keys.get_or_try_init(make).await
    }

    fn node_id(&self) -> Option<String> {
        lock(&self.0.node).as_ref().map(|node| node.id.clone())
    }

    /// Returns true while this node's leases hold.
    fn is_valid(&self) -> bool {
        lock(&self.0.node).as_ref().is_some_and(Node::is_valid)
    }

    /// Refuses work in a session that may be another node's by now.
    pub fn check(&self, id: &SessionId) -> Result<(), SharedError> {
        let table = lock(&self.0.table);
        let Some(root) = table.root(id) else { return Ok(()) };
        if let Some(by) = table.lost_to(&root) {
            return Err(SharedError::Fenced { session: id.to_string(), by });
        }
        if table.holds(&root) && !self.is_valid() {
            let reason = "this node's lease has run out meanwhile".to_owned();
            return Err(SharedError::Unreachable { reason });
        }
        Ok(())
    }

    /// Returns the sessions that this node has.
    pub fn held(&self) -> Vec<SessionId> {
        lock(&self.0.table).held()
    }

    /// Returns true if a session is this node's now.
    pub fn holds(&self, id: &SessionId) -> bool {
        let table = lock(&self.0.table);
        table.root(id).is_some_and(|root| table.holds(&root))
    }

    /// Returns the session at the top of one of this node's.
    pub fn root(&self, id: &SessionId) -> Option<SessionId> {
        lock(&self.0.table).root(id)
    }

    /// Returns a token for a request to a node.
    pub async fn token(&self, to: &Owner) -> Result<String, SharedError> {
        Ok(self.keys().await?.token(&to.id, self.database_now()))
    }

    /// Returns true if a request shows a token of the fleet for this node.
    pub async fn is_of_fleet(&self, token: &str) -> bool {
        let Some(own) = self.node_id() else { return false };
        let Ok(keys) = self.keys().await else { return false };
        keys.is_token(token, &own, self.database_now())
    }

    /// Returns the proof that this fleet wrote a text, for one that is kept elsewhere.
    pub async fn seal(&self, text: &str) -> Result<String, SharedError> {
        Ok(self.keys().await?.of_text(text))
    }

    /// Returns true if a node of this fleet wrote a text.
    pub async fn is_sealed(&self, text: &str, seal: &str) -> Result<bool, SharedError> {
        Ok(self.keys().await?.is_of_text(text, seal))
    }

    /// Returns the time for which a lease holds without being renewed.
    pub fn lease(&self) -> Duration {
        self.0.lease
    }

    /// Returns the name of this node.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn database_now(&self) -> i64 {
        let ahead = lock(&self.0.node).as_ref().map_or(0, |node| node.clock_ahead_ms);
        windlass_base::clock::now_ms() + ahead
    }

    /// Returns the state of the shared store as this process sees it.
    pub fn standing(&self) -> Standing {
        let count = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let figures = &self.0.figures;
        let (held, lag) = {
            let table = lock(&self.0.table);
            (table.held().len(), table.lag())
        };
        Standing {
            node: self.node_id(),
            name: self.0.name.clone(),
            database: self.0.database.shown(),
            held,
            events: count(&figures.events),
            bytes: count(&figures.bytes),
            commits: count(&figures.commits),
            fenced: count(&figures.fenced),
            taken: count(&figures.taken),
            lag,
            trouble: lock(&self.0.trouble).clone(),
        }
    }
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok()).unwrap_or_else(|| "a node".to_owned())
}
