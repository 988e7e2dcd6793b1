//! The engine: sessions, turns and steps behind one façade, the API boundary for every front end.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::task::TaskTracker;
use windlass_base::{clock, git::Program, ids, lock::lock};
use windlass_core::{
    bus::Bus,
    config::{Environment, Hook, paths::Paths, sandbox::enclosure::Enclosures},
    pty::Terminals,
    snapshot::Snapshots,
    storage::{SessionQuery, Storage},
};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    model_ref::ModelRef,
    permission::Rule,
    session::{ArchiveFilter, Session, SessionModel, SessionTime},
};
use windlass_provider::{http, login::tokens::Tokens};
use windlass_services::{mcp, tool::truncate};

use self::{
    asking::granted::Granted,
    background_tasks::BackgroundTasks,
    freshness::{Freshness, Refreshed},
};

pub mod accounts;
mod asking;
mod background;
mod background_tasks;
mod branch;
mod call_title;
mod client_providers;
mod client_server;
mod command;
mod compaction;
mod diagnostics;
mod error;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod freshness;
mod generate;
pub mod git;
mod language_servers;
mod mcp_commands;
mod mention;
pub mod plugins;
pub mod project;
mod prompt_part;
mod remote;
mod session;
mod session_task;

mod tools;
pub mod transcript;
mod turn;
mod undo;
mod workspace;

pub use asking::{
    approvals,
    client::{Answerable, Client},
    words::{AskedWords, asked_words},
};
pub use call_title::{call_title, patch_changes};
pub use client_providers::ProviderRoute;
pub use client_server::ClientServer;
pub use command::{
    server_prompt::ServerPrompts,
    slash::{Slash, unknown_command},
};
pub use diagnostics::{
    doctor::{Finding, Health, Network},
    inspect::AgentView,
    lint::{Pages, Report},
    upkeep::{Repaired, StoreFinding, Verdict},
};
pub use error::{EngineError, EngineErrorKind};
pub use generate::{GeneratedAgent, sanitized as agent_name};
pub use language_servers::LanguageServers;
pub use plugins::reports::PluginReport;
pub use session::{
    auto_summaries::AutoSummaries,
    client_prompt::ClientPrompt,
    export::SessionFile,
    import::{Imported, OpencodeHistory, OpencodeSession},
    listing::SessionFilter,
    open::{Cursor, HistoryPage, Opened, task_session},
    patch::SessionPatch,
    records::{Found, FoundLine, Record, SearchQuery},
    request::{
        Edit, Invocation, OnMissing, PromptInput, PromptPart, RevertTo, Reverted, StopReason, TurnBegin,
        TurnEnd, TurnOutcome,
    },
    revert::created,
    stats::{Counts, Scope, Stats},
    structured::check_format,
    title::is_default as is_default_title,
};
pub use tools::{TRUST, is_about_configuration, is_own_permission, permission_names, tool_look};
pub use turn::attach::check_readable;
pub use windlass_core::{
    library::Agent,
    permission::denying_rules,
    pty::{Reader as TerminalReader, Terminal},
};
pub use windlass_provider::{Model, catalog::listing::EncodedListing, unusable::Unusable};
pub use windlass_services::{
    lsp::Program as LanguageServer,
    mcp::{
        AskServer, Link, LinkAnswer, LinkNotification, LinkRequest, Notifications, Report as ServerReport,
        Status as ServerStatus, login::LoginError,
    },
    plugin::api::{Api, ApiBody, ApiRequest, ApiResponse},
    tool::editor::{Editor, EditorFailure},
};
pub use workspace::{
    directory::Workspace,
    loaded::{Choice, CommandChoice, Loaded, mentions},
    server_login::ServerLoginError,
};

use asking::{asks, client::Clients, questions};
use remote::{download, pages};
use session::{
    context::SessionCx,
    inbox::{Inbox, MAX_QUEUED},
    parent_limits::ParentLimits,
    request::Command,
    tickets::Tickets,
    title,
    warning_log::WarningLog,
};

/// Time limit for turns to end after they were cancelled.
const ABORT_LIMIT: Duration = Duration::from_millis(1200);
/// Time for which a session without work keeps its history in memory.
const SESSION_IDLE: Duration = Duration::from_secs(120);
/// Interval of looking for old tool outputs.
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);

/// The engine. Cloning it shares it.
#[derive(Clone)]
pub struct Engine(Arc<EngineState>);

struct EngineState {
    environment: Environment,
    paths: Paths,
    hooks: Vec<Hook>,
    git: Program,
    storage: Storage,
    bus: Bus,
    http: http::Client,
    pages: pages::Pages,
    asked: download::Asked,
    clients: Clients,
    terminals: Terminals,
    asks: asks::Asks,
    questions: questions::Questions,
    workspaces: Mutex<HashMap<PathBuf, Arc<Workspace>>>,
    plugins: plugins::Hosts,
    client_providers: Mutex<client_providers::ClientProviders>,
    background: background::Background,
    /// By worktree.
    snapshots: Mutex<HashMap<PathBuf, Arc<Snapshots>>>,
    sessions: Mutex<HashMap<SessionId, OpenSession>>,
    /// Time for which a session without work keeps its task.
    session_idle: Duration,
    next_ticket: AtomicU64,
    /// Every session's task, whether its session is still open or not.
    tasks: TaskTracker,
    /// Prompts of sessions that [`Engine::finish`] has taken out, for [`Engine::abort`] to reach.
    finishing: Mutex<Vec<Arc<Tickets>>>,
    is_finishing: AtomicBool,
    /// False after `logout`: stored keys are not used until the user authenticates again.
    use_stored_keys: AtomicBool,
    freshness: Freshness,
    background_tasks: BackgroundTasks,
}

/// A session that a front end has opened.
struct OpenSession {
    workspace: Arc<Workspace>,
    mcp: Option<Arc<mcp::Servers>>,
    /// The servers are those of the session that started this one, and end with that.
    is_mcp_lent: bool,
    parent_limits: ParentLimits,
    granted: Granted,
    /// The directories beside the project as the client named them.
    directories: Arc<[PathBuf]>,
    client_prompt: Option<Arc<ClientPrompt>>,
    tickets: Arc<Tickets>,
    /// A subagent's: the warnings that were told in the session it works for.
    warning_log: Option<WarningLog>,
    /// Absent while the session is idle: it is rebuilt from the store by the next prompt.
    task: Option<Task>,
}

struct Task {
    inbox: mpsc::Sender<Command>,
    join: JoinHandle<()>,
}

/// A session to be made.
#[derive(Debug, Clone, Default)]
pub struct NewSession {
    pub directory: PathBuf,
    /// The id the client wants; refused when taken.
    pub id: Option<SessionId>,
    /// A title the user chose; one is made from the first prompt when there is none.
    pub title: Option<String>,
    /// Servers for this session only.
    pub servers: Vec<ClientServer>,
    /// The session that this one is made under.
    pub parent_id: Option<SessionId>,
    pub agent: Option<String>,
    pub model: Option<SessionModel>,
    /// Rules for this session only.
    pub permission: Option<Vec<Rule>>,
    /// The client's own data about it.
    pub metadata: Option<Map<String, Value>>,
}

impl Engine {
    pub fn new(environment: Environment, paths: Paths) -> Self {
        Self::with_hooks(environment, paths, Vec::new())
    }

    /// Makes an engine with hooks that change every configuration that is read, in this order.
    pub fn with_hooks(environment: Environment, paths: Paths, hooks: Vec<Hook>) -> Self {
        let bus = Bus::default();
        let clients = Clients::new(bus.clone());
        let tokens = Tokens::new(environment.clone(), paths.clone());
        let http = http::Client::new(tokens, &environment);
        Self(Arc::new(EngineState {
            pages: pages::Pages::new(http.clone(), paths.pages()),
            asked: download::Asked::default(),
            storage: Storage::new(paths.database()),
            git: Program::new(environment.get("PATH")),
            environment,
            paths,
            hooks,
            asks: asks::Asks::new(bus.clone(), clients.clone()),
            questions: questions::Questions::new(bus.clone(), clients.clone()),
            clients,
            terminals: Terminals::new(bus.clone()),
            bus,
            http,
            workspaces: Mutex::default(),
            plugins: plugins::Hosts::default(),
            client_providers: Mutex::default(),
            background: background::Background::default(),
            snapshots: Mutex::default(),
            sessions: Mutex::default(),
            session_idle: SESSION_IDLE,
            next_ticket: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            finishing: Mutex::default(),
            is_finishing: AtomicBool::new(false),
            use_stored_keys: AtomicBool::new(true),
            freshness: Freshness::default(),
            background_tasks: BackgroundTasks::default(),
        }))
    }

    /// Returns the bus on which the engine publishes events.
    pub fn bus(&self) -> &Bus {
        &self.0.bus
    }

    /// Returns the store. Sessions are changed by their tasks alone.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    pub fn paths(&self) -> &Paths {
        &self.0.paths
    }

    /// Returns the terminals that clients have opened; they end with the engine.
    pub fn terminals(&self) -> &Terminals {
        &self.0.terminals
    }

    /// Runs work beside the sessions. An engine that is aborted gives it a moment; one that finishes does not wait.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(work);
    }

    pub(crate) fn http(&self) -> &http::Client {
        &self.0.http
    }

    fn clients(&self) -> &Clients {
        &self.0.clients
    }

    pub(crate) fn asks(&self) -> &asks::Asks {
        &self.0.asks
    }

    pub(crate) fn questions(&self) -> &questions::Questions {
        &self.0.questions
    }

    /// Returns the snapshots of a worktree.
    pub(crate) fn snapshots(&self, worktree: &Path) -> Arc<Snapshots> {
        let mut snapshots = lock(&self.0.snapshots);
        let make = || Snapshots::new(self.0.git.clone(), &self.0.paths.snapshots(), worktree);
        snapshots.entry(worktree.to_owned()).or_insert_with(|| Arc::new(make())).clone()
    }

    /// Removes old tool outputs in the background, at the first use and then once an hour at most.
    pub(crate) fn clean(&self) {
        if self.0.freshness.begin(Refreshed::ToolOutputs, CLEAN_EVERY) {
            let directory = self.0.paths.tool_output();
            // Nothing waits for it: the next process removes the outputs that this one leaves.
            tokio::task::spawn_blocking(move || {
                truncate::clean(&directory, SystemTime::now(), truncate::MAX_SAVED)
            });
        }
    }

    /// Builds the request of an agent's turn in a directory; nothing is sent or stored.
    pub async fn inspect_agent(
        &self,
        directory: &Path,
        name: &str,
        model: Option<&ModelRef>,
    ) -> Result<AgentView, EngineError> {
        diagnostics::inspect::inspect(self, directory, name, model).await
    }

    /// Has a model, the default one unless another is named, write an agent for the task in `wanted`.
    pub async fn generate_agent(
        &self,
        directory: &Path,
        wanted: &str,
        model: Option<&ModelRef>,
    ) -> Result<GeneratedAgent, EngineError> {
        generate::generate(self, directory, wanted, model).await
    }

    /// Makes and opens a session.
    pub async fn create_session(&self, new: NewSession) -> Result<Opened, EngineError> {
        let workspace = self.workspace(&new.directory).await?;
        self.create_session_in(workspace, new).await
    }

    /// Makes and opens a session of a workspace that was read just now.
    pub async fn create_session_in(
        &self,
        workspace: Arc<Workspace>,
        mut new: NewSession,
    ) -> Result<Opened, EngineError> {
        let loaded = workspace.loaded();
        let worktree = &loaded.config.worktree;
        let project_id = self.project_id(worktree).await?;
        let servers = std::mem::take(&mut new.servers);
        let info = new_info(new, worktree, project_id);
        if !self.0.storage.create_session(info.clone()).await? {
            let message = format!("the session id {} is taken; choose another or load it", info.id);
            return Err(EngineError::new(EngineErrorKind::SessionExists, message));
        }
        self.register(&info.id, workspace.clone(), servers);
        let event = SessionInfo { session_id: info.id.clone(), info: Arc::new(info.clone()) };
        self.0.bus.publish(EventPayload::SessionCreated(event));
        self.0.http.warm_up(loaded.answers_next(None, None).ok());
        Ok(Opened {
            info,
            workspace,
            todos: Vec::new(),
            last_prompt: None,
            history: Cursor::default(),
            children: Vec::new(),
        })
    }

    fn register(&self, id: &SessionId, workspace: Arc<Workspace>, servers: Vec<ClientServer>) {
        // A running turn keeps the workspace and servers it began with.
        if lock(&self.0.sessions).get(id).is_some_and(|open| !open.tickets.is_empty()) {
            return;
        }
        let start = |servers: Vec<ClientServer>| {
            let loaded = workspace.loaded();
            let timeout = mcp::usual_timeout(&loaded.config);
            let sandbox = Enclosures::of_mcp(&loaded.config).own();
            let specs = servers.into_iter().map(|server| server.spec(timeout, sandbox.clone())).collect();
            let directory = workspace.directory().to_owned();
            let directories = mcp::Directories {
                directory,
                results: self.0.paths.tool_output(),
                logins: mcp::login::LoginFiles::new(&self.0.paths),
            };
            Arc::new(mcp::Servers::start(specs, directories, self.0.bus.clone()))
        };
        let mcp = (!servers.is_empty()).then(|| start(servers));
        let (parent_limits, tickets) = (ParentLimits::default(), Arc::default());
        let open = OpenSession {
            workspace,
            mcp,
            is_mcp_lent: false,
            parent_limits,
            granted: Granted::default(),
            directories: Arc::default(),
            client_prompt: None,
            tickets,
            warning_log: None,
            task: None,
        };
        lock(&self.0.sessions).insert(id.clone(), open);
    }

    /// Opens a subagent's session with the settings of its parent, unless it is open already.
    fn register_child(
        &self,
        id: &SessionId,
        workspace: Arc<Workspace>,
        mcp: Option<Arc<mcp::Servers>>,
        parent_limits: ParentLimits,
        granted: Granted,
        warning_log: WarningLog,
    ) -> Result<(), InUse> {
        let (tickets, warning_log) = (Arc::default(), Some(warning_log));
        let open = OpenSession {
            workspace,
            mcp,
            is_mcp_lent: true,
            parent_limits,
            granted,
            directories: Arc::default(),
            client_prompt: None,
            tickets,
            warning_log,
            task: None,
        };
        match lock(&self.0.sessions).entry(id.clone()) {
            // A task that was just opened has no prompt yet.
            Entry::Occupied(other) if other.get().is_mcp_lent || !other.get().tickets.is_empty() => {
                Err(InUse::Works)
            }
            Entry::Occupied(_) => Err(InUse::Opened),
            Entry::Vacant(place) => {
                place.insert(open);
                Ok(())
            }
        }
    }

    /// Lists up to `limit` root sessions, most recently changed first: of one directory or all, behind the session with
    /// the last change and id that are given.
    pub async fn list_sessions(
        &self,
        directory: Option<String>,
        archived: ArchiveFilter,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Session>, EngineError> {
        let mut sessions = self.0.storage.list(SessionQuery { directory, archived, after, limit }).await?;
        self.entitle(&mut sessions).await?;
        Ok(sessions)
    }

    /// Returns a stored session.
    pub async fn session(&self, id: &SessionId) -> Result<Session, EngineError> {
        let stored = self.0.storage.session(id.clone()).await?;
        let mut session = stored.ok_or_else(|| EngineError::session_not_found(id))?;
        self.entitle([&mut session]).await?;
        Ok(session)
    }

    /// Returns the inbox of a session's task, which is started when there is none.
    fn inbox(&self, id: &SessionId, open: &mut OpenSession) -> mpsc::Sender<Command> {
        match &open.task {
            Some(task) if !task.inbox.is_closed() => task.inbox.clone(),
            Some(_) | None => {
                let (inbox, receiver) = mpsc::channel(MAX_QUEUED);
                let cx = SessionCx {
                    engine: self.clone(),
                    id: id.clone(),
                    workspace: open.workspace.clone(),
                    mcp: open.mcp.clone(),
                    parent_limits: open.parent_limits.clone(),
                    tickets: open.tickets.clone(),
                    warning_log: open.warning_log.clone().unwrap_or_else(|| WarningLog::new(id.clone())),
                    session_lock: OnceLock::new(),
                    own_inbox: inbox.downgrade(),
                };
                let join =
                    self.0.tasks.spawn(session_task::run(cx, Inbox::new(receiver), self.0.session_idle));
                open.task = Some(Task { inbox: inbox.clone(), join });
                inbox
            }
        }
    }

    /// Lets an idle session's task end; false when something has come in the meantime.
    pub(crate) fn release_if_idle(&self, id: &SessionId, inbox: &Inbox) -> bool {
        let mut sessions = lock(&self.0.sessions);
        if !inbox.is_empty() {
            return false;
        }
        if let Some(open) = sessions.get_mut(id) {
            open.task = None;
        }
        true
    }

    /// Drops a task that ends by itself, so that the next prompt starts another.
    pub(crate) fn drop_task(&self, id: &SessionId) {
        if let Some(open) = lock(&self.0.sessions).get_mut(id) {
            open.task = None;
        }
    }

    /// Cancels every prompt of a session, running or waiting, and its subagents in the background. Unknown sessions are ignored.
    pub fn cancel(&self, id: &SessionId) {
        let tickets = lock(&self.0.sessions).get(id).map(|open| open.tickets.clone());
        if let Some(tickets) = tickets {
            tickets.cancel_all();
        }
        self.cancel_background(id);
    }

    /// Cancels one prompt.
    pub fn cancel_prompt(&self, id: &SessionId, ticket: u64) {
        let tickets = lock(&self.0.sessions).get(id).map(|open| open.tickets.clone());
        if let Some(tickets) = tickets {
            tickets.cancel(ticket);
        }
    }

    /// Cancels a session's turns, waits for them and frees the session's resources. False when it was not open.
    pub async fn close_session(&self, id: &SessionId) -> bool {
        let Some(open) = lock(&self.0.sessions).remove(id) else { return false };
        open.tickets.cancel_all();
        self.0.asks.withdraw_apart(id);
        self.close_background(id).await;
        let workspace = open.workspace.clone();
        end_session(open).await;
        self.0.bus.forget_children(id);
        self.close_workspace_if_unused(workspace).await;
        true
    }

    /// Ends a directory's services with its last session.
    async fn close_workspace_if_unused(&self, workspace: Arc<Workspace>) {
        let is_used = lock(&self.0.sessions).values().any(|open| Arc::ptr_eq(&open.workspace, &workspace));
        if is_used {
            return;
        }
        lock(&self.0.workspaces).retain(|_, other| !Arc::ptr_eq(other, &workspace));
        self.end_plugins(workspace.directory()).await;
        workspace.close().await;
    }

    /// Returns true if the engine ends once everything is done.
    pub(crate) fn is_finishing(&self) -> bool {
        self.0.is_finishing.load(Ordering::Relaxed)
    }

    /// Ends the engine: running and waiting turns finish first, then everything that was started is ended.
    pub async fn finish(&self) {
        self.0.is_finishing.store(true, Ordering::Relaxed);
        self.0.background.idle().await;
        let sessions = std::mem::take(&mut *lock(&self.0.sessions));
        lock(&self.0.finishing).extend(sessions.values().map(|open| open.tickets.clone()));
        futures_util::future::join_all(sessions.into_values().map(end_session)).await;
        self.close_workspaces().await;
    }

    /// Ends the engine now: turns are cancelled and get a moment to say so.
    pub async fn abort(&self) {
        let sessions = std::mem::take(&mut *lock(&self.0.sessions));
        let finishing = std::mem::take(&mut *lock(&self.0.finishing));
        for tickets in finishing.iter().chain(sessions.values().map(|open| &open.tickets)) {
            tickets.cancel_all();
        }
        let ends = futures_util::future::join_all(sessions.into_values().map(end_session));
        self.0.tasks.close();
        let all = async { tokio::join!(ends, self.0.tasks.wait()) };
        if tokio::time::timeout(ABORT_LIMIT, all).await.is_err() {
            tracing::warn!("some turns did not end in time");
        }
        // Servers that are left are killed with their owner when the process ends.
        let _ = tokio::time::timeout(Duration::from_millis(300), self.close_workspaces()).await;
    }

    async fn close_workspaces(&self) {
        self.0.terminals.remove_all(None);
        let workspaces = std::mem::take(&mut *lock(&self.0.workspaces));
        let closing = futures_util::future::join_all(workspaces.values().map(|workspace| workspace.close()));
        tokio::join!(closing, self.end_all_plugins(), self.0.background_tasks.end());
    }
}

/// Reason that a session cannot be given a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InUse {
    /// The session is working.
    Works,
    /// A client has it open.
    Opened,
}

/// Waits for a session's task and ends its servers.
async fn end_session(open: OpenSession) {
    let OpenSession { mcp, is_mcp_lent, task, .. } = open;
    if let Some(Task { inbox, join, .. }) = task {
        // Without senders the task ends when its inbox is empty.
        drop(inbox);
        let _ = join.await;
    }
    if let Some(mcp) = mcp.filter(|_| !is_mcp_lent) {
        mcp.close().await;
    }
}

/// Returns a session in which nothing has been said.
fn new_info(new: NewSession, worktree: &Path, project_id: String) -> Session {
    let now = clock::now_ms();
    Session {
        id: new.id.unwrap_or_else(ids::session),
        slug: project::slug(),
        project_id,
        directory: new.directory.display().to_string(),
        path: new.directory.strip_prefix(worktree).ok().map(|path| path.display().to_string()),
        title: new.title.unwrap_or_else(|| title::default(now, new.parent_id.is_some())),
        parent_id: new.parent_id,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: new.agent,
        model: new.model,
        cost: 0.0,
        tokens: Default::default(),
        summary: None,
        metadata: new.metadata,
        permission: new.permission,
        limits: Vec::new(),
        revert: None,
        time: SessionTime { created: now, updated: now, compacting: None, archived: None },
    }
}

#[cfg(test)]
mod tests;
