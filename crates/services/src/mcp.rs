//! MCP servers of the configuration and of the client: started in the background, their tools and resources
//! offered by name.

use std::{
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use windlass_base::lock::lock;
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{event::EventPayload, part::FilePart};

mod asking;
mod body;
mod cause;
mod client;
mod connection;
mod events;
mod http;
mod large;
mod linked;
pub mod login;
mod loss;
mod output;
mod pipes;
pub mod prompts;
mod remote;
mod resources;
mod said;
mod session;
mod spec;
mod sse;
mod streamable;
mod subscription;
mod table;
mod tools;
mod watched;
mod wishes;

use table::{Table, missing, table};

pub use linked::{AskServer, Link, LinkAnswer, LinkNotification, LinkRequest, Notifications};
pub use spec::{Server, ServerSpec, specs, usual_timeout};
pub use wishes::{Caller, Completion, Elicitation, Elicited, Sampled, Sampling, Speaker, Wanted};

/// The state of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Connecting,
    Connected,
    /// The server's [`Servers`] were closed.
    Disabled,
    Failed {
        /// The reason, as a sentence for the user.
        error: String,
    },
    /// The server wants a login.
    NeedsAuth,
    /// The server wants a login, and knows only clients that its owner has registered.
    NeedsClientRegistration {
        /// The way out, as a sentence for the user.
        error: String,
    },
}

/// A server as shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub name: String,
    /// The command line or the URL.
    pub place: String,
    pub status: Status,
    /// Names and descriptions of the tools, as the server gives them.
    pub tools: Vec<(String, String)>,
}

/// A tool of a connected server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// The name that the model uses: server and tool name with unusual characters replaced.
    pub key: String,
    pub server: String,
    /// The name that the server uses.
    pub name: String,
    pub description: String,
    /// JSON schema of an object without further properties, as text: servers bring hundreds, and a tree is several times
    /// as large. It is read where a model is sent it.
    pub schema: Arc<str>,
    /// Bytes of the definition that a model is sent.
    pub n_bytes: usize,
    slot_id: usize,
}

/// A prompt of a connected server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// The name of its slash command: server and prompt with unusual characters replaced.
    pub command: String,
    pub server: String,
    /// The name that the server uses.
    pub name: String,
    pub description: String,
    pub arguments: Vec<PromptArgument>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub is_required: bool,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutput {
    pub text: String,
    /// Files as `data:` URLs.
    pub attachments: Vec<FilePart>,
}

/// A kind of list of a server's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceList {
    Resources,
    /// Addresses with placeholders.
    Templates,
}

/// The content of a resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceContent {
    pub text: String,
    /// Files as `data:` URLs.
    pub attachments: Vec<FilePart>,
    /// The number of pieces of the resource.
    pub n_items: usize,
}

/// A sign of a call's progress.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Progress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// The reason for a call without a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// A failure, as text for the model.
    #[error("{0}")]
    Failed(String),
    #[error("the MCP server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("there is no such MCP tool")]
    Unknown,
}

/// The directories of a set of servers.
#[derive(Debug, Clone)]
pub struct Directories {
    /// The working directory of local servers, and the first root that servers are told.
    pub directory: PathBuf,
    /// The directory of results that are too long to keep in memory.
    pub results: PathBuf,
    /// The files of logins at remote servers.
    pub logins: login::LoginFiles,
}

/// A set of servers and their connections.
///
/// Dropping it ends them in the background; [`Servers::close`] waits for that.
pub struct Servers {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl Servers {
    /// Begins to connect to every server and returns at once.
    ///
    /// Must be called within the runtime.
    pub fn start(specs: Vec<ServerSpec>, directories: Directories, bus: Bus) -> Servers {
        let shared = Arc::new(Shared {
            slots: Mutex::default(),
            bus,
            starts: Semaphore::new(1),
            table: Mutex::default(),
            collisions: Mutex::default(),
            changes: watch::Sender::new(()),
            roots: watch::Sender::new(vec![directories.directory.clone()]),
            directories,
            http: OnceCell::new(),
            foreign_http: OnceCell::new(),
        });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        tasks.close();
        let servers = Servers { shared, tasks, _stop_on_drop: stop.clone().drop_guard(), stop };
        servers.replace(specs);
        servers
    }

    /// Begins to connect to the new servers among `specs`, and drops those that are not among them. One with a changed
    /// specification serves until the new one has started or failed. Dropped servers end with the last
    /// lease, all others go on undisturbed. Returns at once.
    ///
    /// Must be called within the runtime.
    pub fn replace(&self, mut specs: Vec<ServerSpec>) {
        if self.stop.is_cancelled() {
            return;
        }
        let mut slots = (*self.shared.slots()).clone();
        let first = slots.last_key_value().map_or(0, |(slot_id, _)| slot_id + 1);
        let names: HashSet<String> = specs.iter().map(|spec| spec.name.clone()).collect();
        slots.retain(|_, leased| {
            let slot = &leased.slot;
            let mut state = slot.lock();
            if let Some(position) = specs.iter().position(|spec| *spec == slot.spec) {
                specs.remove(position);
                state.is_replaced = false;
                return true;
            }
            state.is_replaced = state.connection.is_some() && names.contains(&slot.spec.name);
            state.is_replaced
        });
        for (slot_id, spec) in (first..).zip(specs) {
            let slot =
                Arc::new(Slot { spec, state: Mutex::new(State::new()), stop: self.stop.child_token() });
            let lease = Leased { slot: slot.clone(), _stop: slot.stop.clone().drop_guard() };
            slots.insert(slot_id, Arc::new(lease));
            self.tasks.spawn(connection::run(self.shared.clone(), slot, slot_id));
        }
        // Ends the removed servers that no lease keeps.
        let before = std::mem::replace(&mut *self.shared.lock_slots(), Arc::new(slots));
        drop(before);
        self.shared.rebuild_table();
        self.shared.changes.send_replace(());
    }

    /// Returns the state of each server, in the given order.
    pub fn statuses(&self) -> Vec<(String, Status)> {
        let slots = self.shared.slots();
        let newest = slots.values().map(|leased| &leased.slot).filter(|slot| !slot.lock().is_replaced);
        newest.map(|slot| (slot.spec.name.clone(), slot.lock().status.clone())).collect()
    }

    /// Returns the state and the tools of each server, in the given order.
    pub fn reports(&self) -> Vec<Report> {
        let slots = self.shared.slots();
        let report = |slot: &Arc<Slot>| {
            let state = slot.lock();
            let tools = state.tools.iter().filter(|_| state.connection.is_some());
            Report {
                name: slot.spec.name.clone(),
                place: slot.spec.server.to_string(),
                status: state.status.clone(),
                tools: tools.map(|tool| (tool.name.clone(), tool.description.clone())).collect(),
            }
        };
        let newest = slots.values().map(|leased| &leased.slot).filter(|slot| !slot.lock().is_replaced);
        newest.map(report).collect()
    }

    /// Leases the current servers: those that are replaced meanwhile go on until the lease is dropped.
    pub fn lease(&self) -> ServersLease {
        ServersLease { shared: self.shared.clone(), slots: self.shared.slots() }
    }

    /// Tells the servers these roots beside their working directory.
    pub fn set_more_roots(&self, directories: &[PathBuf]) {
        let first = self.shared.directory().to_owned();
        let roots: Vec<PathBuf> = std::iter::once(first).chain(directories.iter().cloned()).collect();
        self.shared.roots.send_if_modified(|told| std::mem::replace(told, roots.clone()) != roots);
    }

    /// Waits until no server is connecting any more, or until `limit` has passed.
    pub async fn settled(&self, limit: Duration) {
        let mut changes = self.shared.changes.subscribe();
        let is_settled = |(): &()| {
            let slots = self.shared.slots();
            slots.values().all(|leased| {
                let state = leased.slot.lock();
                state.status != Status::Connecting || state.is_replaced
            })
        };
        // Both a timeout and a closed channel mean that the wait is over.
        let _ = tokio::time::timeout(limit, changes.wait_for(is_settled)).await;
    }

    /// Ends every connection and every process, and waits for that.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
        login::renewals_ended().await;
    }
}

/// The servers of one moment. They end no earlier than this is dropped, unless their [`Servers`] are closed.
#[derive(Clone)]
pub struct ServersLease {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
}

impl ServersLease {
    /// Returns the tools of the connected servers, sorted by key.
    pub fn tools(&self) -> Vec<Arc<McpTool>> {
        self.table().values().cloned().collect()
    }

    /// Returns the instructions of the connected servers of which a tool is used, each with the server's name.
    pub fn instructions(&self, is_used: impl Fn(&McpTool) -> bool) -> Vec<(String, String)> {
        let told = table::serving(&self.slots).filter_map(|slot| {
            let state = slot.lock();
            let words = state.connection.as_ref()?.instructions()?;
            let has_used = state.tools.iter().any(|tool| is_used(tool));
            has_used.then(|| (slot.spec.name.clone(), words))
        });
        told.collect()
    }

    /// Calls a tool by its key and waits for the result. `caller` sees the newest of the server's reports meanwhile,
    /// and answers its requests.
    ///
    /// Tells the server if the call is cancelled, times out or is dropped.
    pub async fn call(
        &self,
        key: &str,
        input: Value,
        cancel: &CancellationToken,
        caller: &dyn Caller,
    ) -> Result<CallOutput, CallError> {
        let tool = self.table().get(key).cloned();
        let Some(tool) = tool else { return Err(missing(&self.slots, key)) };
        let Value::Object(arguments) = input else {
            return Err(CallError::Failed(format!("the input of {key} must be a JSON object")));
        };
        let Some(leased) = self.slots.get(&tool.slot_id) else { return Err(CallError::Unknown) };
        let connection = leased.slot.lock().connection.clone();
        let Some(connection) = connection else { return Err(missing(&self.slots, key)) };
        connection.call(&tool, arguments, leased.slot.spec.timeout, cancel, caller).await
    }

    /// Returns the names of the connected servers that offer resources.
    pub fn with_resources(&self) -> Vec<String> {
        let slots = table::serving(&self.slots);
        slots.filter(|slot| has_resources(slot)).map(|slot| slot.spec.name.clone()).collect()
    }

    /// Returns the state of the server of that name.
    pub fn status(&self, server: &str) -> Option<Status> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        slots.find(|slot| slot.spec.name == server).map(|slot| slot.lock().status.clone())
    }

    /// Returns the resources or templates of a server, as JSON objects in its order, and true if there are more
    /// than the limit.
    ///
    /// Cancelled and timed out like [`ServersLease::call`], for each page.
    pub async fn resources(
        &self,
        server: &str,
        list: ResourceList,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Value>, bool), CallError> {
        let (connection, timeout) = self.offering(server)?;
        resources::list(&connection, server, list, timeout, cancel).await
    }

    /// Reads a resource. Cancelled and timed out like [`ServersLease::call`].
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<ResourceContent, CallError> {
        let (connection, timeout) = self.offering(server)?;
        resources::read(&connection, server, uri, timeout, cancel).await
    }

    /// Waits until every server has started or failed, except those that a prompt has waited for in vain.
    pub async fn started(&self) {
        self.all(|state| state.status != Status::Connecting || !state.is_awaited).await;
    }

    /// Waits until this holds for every server.
    async fn all(&self, holds: impl Fn(&State) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        let is_over = |(): &()| self.slots.values().all(|leased| holds(&leased.slot.lock()));
        // A closed channel means that the servers have ended.
        let _ = changes.wait_for(is_over).await;
    }

    /// Lets no later prompt wait for the servers that are still starting.
    pub fn stop_awaiting(&self) {
        for leased in self.slots.values() {
            let mut state = leased.slot.lock();
            if state.status == Status::Connecting && state.is_awaited {
                state.is_awaited = false;
                tracing::warn!(
                    server = leased.slot.spec.name,
                    "a prompt goes on without the MCP server, which is still starting"
                );
            }
        }
    }

    fn offering(&self, server: &str) -> Result<(client::Connection, Duration), CallError> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        let slot = slots.find(|slot| slot.spec.name == server && has_resources(slot));
        let connection = slot.and_then(|slot| Some((slot.lock().connection.clone()?, slot.spec.timeout)));
        connection.ok_or_else(|| CallError::Failed(format!("MCP server {server} is gone")))
    }

    fn table(&self) -> Arc<Table> {
        if Arc::ptr_eq(&self.slots, &self.shared.slots()) {
            self.shared.table()
        } else {
            Arc::new(table(&self.slots, |_, _| {}))
        }
    }
}

/// State that the servers' tasks share with their owner.
struct Shared {
    slots: Mutex<Arc<Slots>>,
    directories: Directories,
    bus: Bus,
    /// The right to start a process.
    starts: Semaphore,
    /// The tools of connected servers, by key.
    table: Mutex<Arc<Table>>,
    /// Notified after every change of a status.
    changes: watch::Sender<()>,
    /// The directories that servers are told as roots, which begin with their working directory.
    roots: watch::Sender<Vec<PathBuf>>,
    http: OnceCell<reqwest::Client>,
    /// The client for addresses that only the project names.
    foreign_http: OnceCell<reqwest::Client>,
    /// Keys of tools of which one hides another, as far as that was logged.
    collisions: Mutex<HashSet<String>>,
}

/// The servers by an id, in the given order.
type Slots = BTreeMap<usize, Arc<Leased>>;

/// A running server; it stops when the last handle is dropped. Its task holds the slot, not a handle.
#[derive(Debug)]
struct Leased {
    slot: Arc<Slot>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Slot {
    spec: ServerSpec,
    state: Mutex<State>,
    /// Stops this server.
    stop: CancellationToken,
}

#[derive(Debug)]
struct State {
    status: Status,
    /// Kept after a failure, so that a late call can report the reason.
    tools: Vec<Arc<McpTool>>,
    /// `None` until the server was asked for them.
    prompts: Option<Vec<McpPrompt>>,
    connection: Option<client::Connection>,
    /// True from the end of a connection until the server's next state is decided.
    has_lost_connection: bool,
    /// True once the login that it had is no longer good.
    has_lost_login: bool,
    /// False once a prompt has waited in vain for the server to start.
    is_awaited: bool,
    /// True for a server that another of the same name replaces as soon as that has started or failed.
    is_replaced: bool,
}

impl State {
    fn new() -> Self {
        Self {
            status: Status::Connecting,
            tools: Vec::new(),
            prompts: None,
            connection: None,
            has_lost_connection: false,
            has_lost_login: false,
            is_awaited: true,
            is_replaced: false,
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Shared {
    fn directory(&self) -> &Path {
        &self.directories.directory
    }

    /// Records that a server is ready, or that its tools have changed.
    fn offer(&self, slot: &Slot, connection: client::Connection, tools: Vec<McpTool>) {
        {
            let mut state = slot.lock();
            state.status = Status::Connected;
            state.has_lost_login = false;
            state.tools = tools.into_iter().map(Arc::new).collect();
            state.connection = Some(connection);
        }
        self.retire(&slot.spec.name);
        self.rebuild_table();
        self.changes.send_replace(());
        self.bus.publish(EventPayload::McpToolsChanged { server: slot.spec.name.clone() });
    }

    /// Drops the server of this name that has served until its successor was decided.
    fn retire(&self, name: &str) {
        let before = {
            let mut slots = self.lock_slots();
            let is_over = |leased: &Leased| leased.slot.spec.name == name && leased.slot.lock().is_replaced;
            if !slots.values().any(|leased| is_over(leased)) {
                return;
            }
            let mut rest = (**slots).clone();
            rest.retain(|_, leased| !is_over(leased));
            std::mem::replace(&mut *slots, Arc::new(rest))
        };
        // Ends it, unless a lease keeps it.
        drop(before);
    }

    fn rebuild_table(&self) {
        let table = table(&self.slots(), |tool, hidden| {
            // Lists may change often.
            if lock(&self.collisions).insert(tool.key.clone()) {
                let [used, left_out] = [tool, hidden].map(|it| format!("{}/{}", it.server, it.name));
                let key = &tool.key;
                tracing::warn!(
                    "the MCP tools {left_out} and {used} are both called {key}; the latter is used"
                );
            }
        });
        *self.lock_table() = Arc::new(table);
    }

    fn slots(&self) -> Arc<Slots> {
        self.lock_slots().clone()
    }

    fn lock_slots(&self) -> MutexGuard<'_, Arc<Slots>> {
        lock(&self.slots)
    }

    fn table(&self) -> Arc<Table> {
        self.lock_table().clone()
    }

    fn lock_table(&self) -> MutexGuard<'_, Arc<Table>> {
        lock(&self.table)
    }
}

fn has_resources(slot: &Slot) -> bool {
    slot.lock().connection.as_ref().is_some_and(client::Connection::has_resources)
}

#[cfg(test)]
mod tests;
