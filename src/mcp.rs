//! MCP servers of the configuration and of the client: started in the background, their tools and resources offered by name.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use serde_json::Value;
use tokio::sync::{OnceCell, watch};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use windlass_protocol::opencode::{config::McpConfig, event::EventPayload, part::FilePart};

use crate::{base::lock::lock, bus::Bus, config::secrets};

mod cause;
mod client;
mod connection;
mod output;
mod remote;
mod resources;
mod tools;

/// How long connecting, listing and calling may each take unless the configuration says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// How to reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A child process that speaks MCP on its pipes.
    Local {
        /// Program and arguments.
        command: Vec<String>,
        /// Relative ones start from the directory of the [`Servers`], which is also the default.
        cwd: Option<PathBuf>,
        environment: BTreeMap<String, String>,
    },
    /// A server over streamable HTTP.
    Remote { url: String, headers: BTreeMap<String, String> },
}

impl Server {
    /// The server that an entry of `mcp` describes.
    pub fn of(config: &McpConfig) -> Self {
        match config {
            McpConfig::Local { command, cwd, environment, .. } => Self::Local {
                command: command.clone(),
                cwd: cwd.as_ref().map(PathBuf::from),
                environment: environment.clone(),
            },
            McpConfig::Remote { url, headers, .. } => {
                Self::Remote { url: url.clone(), headers: headers.clone() }
            }
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local { command, .. } => f.write_str(&command.join(" ")),
            Self::Remote { url, .. } => f.write_str(url),
        }
    }
}

/// A server to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSpec {
    pub name: String,
    pub server: Server,
    /// For connecting, for each page of a list, and for a call since its last sign of progress.
    pub timeout: Duration,
}

impl ServerSpec {
    /// The server that `mcp.<name>` describes; `None` when it is switched off.
    pub fn from_config(name: &str, config: &McpConfig) -> Option<Self> {
        let (McpConfig::Local { enabled, timeout, .. } | McpConfig::Remote { enabled, timeout, .. }) = config;
        if *enabled == Some(false) {
            return None;
        }
        let timeout = timeout.map_or(DEFAULT_TIMEOUT, Duration::from_millis);
        Some(Self { name: name.to_owned(), server: Server::of(config), timeout })
    }

    /// A line of the server's without the values of its environment, which are often keys.
    fn masked(&self, line: &str) -> String {
        match &self.server {
            Server::Local { environment, .. } => {
                environment.values().fold(line.to_owned(), |line, value| secrets::hide(&line, value))
            }
            Server::Remote { .. } => line.to_owned(),
        }
    }
}

/// How a server is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Connecting,
    Connected,
    /// Switched off: its [`Servers`] were closed.
    Disabled,
    Failed {
        /// A sentence for the user.
        error: String,
    },
    /// The server wants a login.
    NeedsAuth,
}

/// A server as a user is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub name: String,
    /// Its command line or its URL.
    pub place: String,
    pub status: Status,
    /// Names and descriptions, as the server says them.
    pub tools: Vec<(String, String)>,
}

/// A tool of a connected server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// What the model calls it: server and tool name with foreign characters replaced.
    pub key: String,
    pub server: String,
    /// What the server calls it.
    pub name: String,
    pub description: String,
    /// JSON schema of an object without further properties.
    pub schema: Arc<Value>,
    slot_id: usize,
}

/// What a call brought.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallOutput {
    pub text: String,
    /// Files as `data:` URLs.
    pub attachments: Vec<FilePart>,
}

/// Which list of a server's resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceList {
    Resources,
    /// Addresses with places to fill in.
    Templates,
}

/// What was read of a resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResourceContent {
    pub text: String,
    /// Files as `data:` URLs.
    pub attachments: Vec<FilePart>,
    /// Of how many pieces the resource is.
    pub n_items: usize,
}

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// For the model to read.
    #[error("{0}")]
    Failed(String),
    #[error("the MCP server did not answer within {0:?}")]
    TimedOut(Duration),
    #[error("the call was cancelled")]
    Cancelled,
    #[error("there is no such MCP tool")]
    Unknown,
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
    pub fn start(specs: Vec<ServerSpec>, directory: PathBuf, bus: Bus) -> Servers {
        let shared = Arc::new(Shared {
            slots: Mutex::default(),
            directory,
            bus,
            table: Mutex::default(),
            changes: watch::Sender::new(()),
            http: OnceCell::new(),
        });
        let tasks = TaskTracker::new();
        let stop = CancellationToken::new();
        tasks.close();
        let servers = Servers { shared, tasks, _stop_on_drop: stop.clone().drop_guard(), stop };
        servers.replace(specs);
        servers
    }

    /// Ends the servers that are not among `specs`, as soon as nobody holds them, and begins to connect to those
    /// that are new; one whose specification is different is both. The others go on undisturbed. Returns at once.
    ///
    /// Must be called within the runtime.
    pub fn replace(&self, mut specs: Vec<ServerSpec>) {
        if self.stop.is_cancelled() {
            return;
        }
        let mut slots = (*self.shared.slots()).clone();
        let first = slots.last_key_value().map_or(0, |(slot_id, _)| slot_id + 1);
        slots.retain(|_, leased| match specs.iter().position(|spec| *spec == leased.slot.spec) {
            Some(position) => {
                specs.remove(position);
                true
            }
            None => false,
        });
        for (slot_id, spec) in (first..).zip(specs) {
            let slot =
                Arc::new(Slot { spec, state: Mutex::new(State::new()), stop: self.stop.child_token() });
            let lease = Leased { slot: slot.clone(), _stop: slot.stop.clone().drop_guard() };
            slots.insert(slot_id, Arc::new(lease));
            self.tasks.spawn(connection::run(self.shared.clone(), slot, slot_id));
        }
        // What nobody holds ends here.
        let before = std::mem::replace(&mut *self.shared.lock_slots(), Arc::new(slots));
        drop(before);
        self.shared.rebuild_table();
        self.shared.changes.send_replace(());
    }

    /// How each server is doing, in the order they were given.
    pub fn statuses(&self) -> Vec<(String, Status)> {
        let slots = self.shared.slots();
        let slots = slots.values().map(|leased| &leased.slot);
        slots.map(|slot| (slot.spec.name.clone(), slot.lock().status.clone())).collect()
    }

    /// How each server is doing and the tools it offers, in the order they were given.
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
        slots.values().map(|leased| report(&leased.slot)).collect()
    }

    /// The servers as they are now; those that are replaced meanwhile go on for the holder.
    pub fn hold(&self) -> Held {
        Held { shared: self.shared.clone(), slots: self.shared.slots() }
    }

    /// Waits until no server is connecting any more, or until `limit` has passed.
    pub async fn settled(&self, limit: Duration) {
        let mut changes = self.shared.changes.subscribe();
        let is_settled = |(): &()| {
            let slots = self.shared.slots();
            slots.values().all(|leased| leased.slot.lock().status != Status::Connecting)
        };
        // Both ways of not getting there, time and a closed channel, mean that waiting is over.
        let _ = tokio::time::timeout(limit, changes.wait_for(is_settled)).await;
    }

    /// Ends every connection and every process, and waits for that.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

/// The servers of one moment. They end at the earliest when this is dropped, unless their [`Servers`] are closed.
#[derive(Clone)]
pub struct Held {
    shared: Arc<Shared>,
    slots: Arc<Slots>,
}

impl Held {
    /// The tools of the connected servers, sorted by key.
    pub fn tools(&self) -> Vec<Arc<McpTool>> {
        self.table().values().cloned().collect()
    }

    /// Calls a tool by its key and waits for the result.
    ///
    /// The server is told when the call is cancelled, times out or is dropped.
    pub async fn call(
        &self,
        key: &str,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<CallOutput, CallError> {
        let tool = self.table().get(key).cloned();
        let Some(tool) = tool else { return Err(missing(&self.slots, key)) };
        let Value::Object(arguments) = input else {
            return Err(CallError::Failed(format!("the input of {key} must be a JSON object")));
        };
        let Some(leased) = self.slots.get(&tool.slot_id) else { return Err(CallError::Unknown) };
        let connection = leased.slot.lock().connection.clone();
        let Some(connection) = connection else { return Err(missing(&self.slots, key)) };
        connection.call(&tool, arguments, leased.slot.spec.timeout, cancel).await
    }

    /// The connected servers that offer resources.
    pub fn with_resources(&self) -> Vec<String> {
        let slots = self.slots.values().map(|leased| &leased.slot);
        slots.filter(|slot| has_resources(slot)).map(|slot| slot.spec.name.clone()).collect()
    }

    /// How the server of that name is doing.
    pub fn status(&self, server: &str) -> Option<Status> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        slots.find(|slot| slot.spec.name == server).map(|slot| slot.lock().status.clone())
    }

    /// What a server offers, as JSON objects in its order, and whether there is more than is taken.
    ///
    /// Cancelled and timed out like [`Held::call`], for each page.
    pub async fn resources(
        &self,
        server: &str,
        list: ResourceList,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Value>, bool), CallError> {
        let (connection, timeout) = self.offering(server)?;
        resources::list(&connection, server, list, timeout, cancel).await
    }

    /// Reads a resource. Cancelled and timed out like [`Held::call`].
    pub async fn read_resource(
        &self,
        server: &str,
        uri: &str,
        cancel: &CancellationToken,
    ) -> Result<ResourceContent, CallError> {
        let (connection, timeout) = self.offering(server)?;
        resources::read(&connection, server, uri, timeout, cancel).await
    }

    fn offering(&self, server: &str) -> Result<(client::Connection, Duration), CallError> {
        let mut slots = self.slots.values().rev().map(|leased| &leased.slot);
        let slot = slots.find(|slot| slot.spec.name == server && has_resources(slot));
        let connection = slot.and_then(|slot| Some((slot.lock().connection.clone()?, slot.spec.timeout)));
        connection.ok_or_else(|| CallError::Failed(format!("MCP server {server} is gone")))
    }

    fn table(&self) -> Arc<Table> {
        match Arc::ptr_eq(&self.slots, &self.shared.slots()) {
            true => self.shared.table(),
            false => Arc::new(table(&self.slots, |_, _| {})),
        }
    }
}

/// What the tasks of the servers and their owner both see.
struct Shared {
    slots: Mutex<Arc<Slots>>,
    directory: PathBuf,
    bus: Bus,
    /// The tools of connected servers by key.
    table: Mutex<Arc<Table>>,
    /// Ticks after every change of a status.
    changes: watch::Sender<()>,
    http: OnceCell<reqwest::Client>,
}

/// By an id, in the order they were given.
type Slots = BTreeMap<usize, Arc<Leased>>;

/// A server that ends when nobody has it any more. Its own task has the slot only.
#[derive(Debug)]
struct Leased {
    slot: Arc<Slot>,
    _stop: DropGuard,
}

type Table = BTreeMap<String, Arc<McpTool>>;

#[derive(Debug)]
struct Slot {
    spec: ServerSpec,
    state: Mutex<State>,
    /// Ends this server.
    stop: CancellationToken,
}

#[derive(Debug)]
struct State {
    status: Status,
    /// Kept after a failure, so that a late call can be told what became of its tool.
    tools: Vec<Arc<McpTool>>,
    connection: Option<client::Connection>,
}

impl State {
    fn new() -> Self {
        Self { status: Status::Connecting, tools: Vec::new(), connection: None }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Shared {
    fn directory(&self) -> &Path {
        &self.directory
    }

    /// Notes that a server is ready, or that its tools are different now.
    fn offer(&self, slot: &Slot, connection: client::Connection, tools: Vec<McpTool>) {
        {
            let mut state = slot.lock();
            state.status = Status::Connected;
            state.tools = tools.into_iter().map(Arc::new).collect();
            state.connection = Some(connection);
        }
        self.rebuild_table();
        self.changes.send_replace(());
        self.bus.publish(EventPayload::McpToolsChanged { server: slot.spec.name.clone() });
    }

    /// Notes that a server is gone.
    fn end(&self, slot: &Slot, status: Status) {
        let was_connected = {
            let mut state = slot.lock();
            state.status = status;
            state.connection.take().is_some()
        };
        self.rebuild_table();
        self.changes.send_replace(());
        if was_connected {
            self.bus.publish(EventPayload::McpToolsChanged { server: slot.spec.name.clone() });
        }
    }

    fn rebuild_table(&self) {
        let table = table(&self.slots(), |tool, hidden| {
            tracing::warn!(
                key = tool.key,
                by = %format_args!("{}/{}", tool.server, tool.name),
                hidden = %format_args!("{}/{}", hidden.server, hidden.name),
                "two MCP tools have the same key; the later one is used"
            );
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

/// The tools of connected servers; of two with the same key the later one, and `on_hidden` is told both.
fn table(slots: &Slots, on_hidden: impl Fn(&McpTool, &McpTool)) -> Table {
    let mut table = Table::new();
    for leased in slots.values() {
        let state = leased.slot.lock();
        let tools = if state.connection.is_some() { state.tools.as_slice() } else { &[] };
        for tool in tools {
            if let Some(hidden) = table.insert(tool.key.clone(), tool.clone()) {
                on_hidden(tool, &hidden);
            }
        }
    }
    table
}

/// Why `key` cannot be called.
fn missing(slots: &Slots, key: &str) -> CallError {
    for leased in slots.values().rev() {
        let slot = &leased.slot;
        let state = slot.lock();
        let is_its_tool = state.tools.iter().any(|tool| tool.key == key);
        match &state.status {
            Status::Failed { error } if is_its_tool => {
                return CallError::Failed(format!("the tool is gone: {error}"));
            }
            Status::Disabled if is_its_tool => {
                return CallError::Failed(format!("MCP server {} was closed", slot.spec.name));
            }
            Status::Failed { .. }
            | Status::Disabled
            | Status::Connecting
            | Status::Connected
            | Status::NeedsAuth => {}
        }
    }
    CallError::Unknown
}

#[cfg(test)]
mod tests;
