//! The engine: sessions, turns and steps behind one façade, the API boundary for every front end.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use tokio::sync::mpsc;
use windlass_base::{git::Program, lock::lock};
use windlass_core::{
    bus::Bus,
    config::{Environment, Hook, paths::Paths},
    pty::Terminals,
    snapshot::Snapshots,
    storage::Storage,
};
use windlass_protocol::opencode::id::SessionId;
use windlass_provider::{http, login::tokens::Tokens};
use windlass_services::tool::truncate;

use self::{
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
pub mod fleet;
mod freshness;
mod generate;
pub mod git;
mod jobs;
mod language_servers;
mod mcp_commands;
mod mention;
pub mod people;
mod plugins;
pub mod project;
mod prompt_part;
mod remote;
mod session;
mod session_task;
mod share;

mod tools;
pub mod transcript;
mod turn;
mod undo;
mod workspace;
mod worktrees;

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
pub use people::People;
pub use plugins::reports::PluginReport;
pub use session::{
    auto_summaries::AutoSummaries,
    client_prompt::ClientPrompt,
    export::SessionFile,
    fork::Copied,
    import::{Imported, OpencodeHistory, OpencodeSession},
    listing::SessionFilter,
    open::{Cursor, HistoryPage, Opened, task_session},
    patch::SessionPatch,
    prompt_key::{EarlierPrompt, KeyClaim, PromptKey},
    records::{Found, FoundLine, Record, SearchQuery},
    registry::NewSession,
    request::{
        Begun, Delivery, Edit, Invocation, Limits, OnMissing, PromptInput, PromptPart, RevertTo, Reverted,
        StopReason, TurnBegin, TurnEnd, TurnOutcome, WaitingPrompt,
    },
    revert::created,
    state::TOOL_LOST,
    stats::{Counts, Scope, Stats},
    structured::check_format,
    title::is_default as is_default_title,
};
pub use share::{LEFT_OUT, Shares};
pub use tools::{TRUST, is_about_configuration, is_own_permission, permission_names, tool_look};
pub use turn::attach::check_readable;
pub use windlass_core::{
    library::Agent,
    permission::denying_rules,
    pty::{Reader as TerminalReader, Terminal},
    storage::listing::{Admitted, IsAdmitted},
};
pub use windlass_provider::{Model, Secret, catalog::listing::EncodedListing, unusable::Unusable};
pub use windlass_services::{
    lsp::Program as LanguageServer,
    mcp::{
        AskServer, Link, LinkAnswer, LinkNotification, LinkRequest, Notifications, Report as ServerReport,
        Status as ServerStatus, login::LoginError,
    },
    plugin::api::{Api, ApiBody, ApiRequest, ApiResponse},
    tool::{
        bash::background::Job,
        editor::{Editor, EditorFailure},
    },
};
pub use workspace::{
    directory::Workspace,
    loaded::{Choice, CommandChoice, Loaded, mentions},
    server_login::ServerLoginError,
};
pub use worktrees::{TaskWorktree, WorktreeError, Worktrees};

use asking::{Waiting, asks, client::Clients, questions};
use remote::Fetched;
use session::{
    context::SessionCx,
    inbox::{Inbox, MAX_COMMANDS},
    registry::{OpenSession, Registry, Task, end_session},
    request::Command,
    warning_log::WarningLog,
};

/// Time limit for the files of sessions to be sent to other machines at the end.
const FILES_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for turns to end after they were cancelled.
const ABORT_LIMIT: Duration = Duration::from_millis(1200);
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
    held_worktrees: worktrees::HeldWorktrees,
    storage: Storage,
    bus: Bus,
    http: http::Client,
    fetched: Fetched,
    terminals: Terminals,
    asking: Waiting,
    workspaces: Mutex<HashMap<PathBuf, Arc<Workspace>>>,
    plugins: plugins::Hosts,
    client_providers: Mutex<client_providers::ClientProviders>,
    background: background::Background,
    jobs: jobs::Jobs,
    /// By worktree.
    snapshots: Mutex<HashMap<PathBuf, Arc<Snapshots>>>,
    sessions: Registry,
    /// False after `logout`: stored keys are not used until the user authenticates again.
    use_stored_keys: AtomicBool,
    freshness: Freshness,
    background_tasks: BackgroundTasks,
    fleet: fleet::FleetState,
    shares: share::ShareState,
    people: OnceLock<Box<dyn People>>,
}

/// The sessions: made, opened, prompted, listed, changed and taken back.
#[derive(Clone, Copy)]
pub struct Sessions<'a> {
    engine: &'a Engine,
}

/// Permissions and questions that wait for people, and the directories that they granted.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    engine: &'a Engine,
}

/// The directories that sessions work in: read, watched, their configuration shown and changed.
#[derive(Clone, Copy)]
pub struct Workspaces<'a> {
    engine: &'a Engine,
}

/// The plugins of directories: started, renewed, installed, reported.
#[derive(Clone, Copy)]
pub struct Plugins<'a> {
    engine: &'a Engine,
}

/// Everything that is fetched by URL and kept: the catalog, configurations, skills and agents.
#[derive(Clone, Copy)]
pub struct Remote<'a> {
    engine: &'a Engine,
}

/// Checks and reports that need no turn: `doctor`, the check of a configuration, the store's upkeep.
#[derive(Clone, Copy)]
pub struct Diagnostics<'a> {
    engine: &'a Engine,
}

impl Engine {
    pub fn new(environment: Environment, paths: Paths) -> Self {
        Self::with_hooks(environment, paths, Vec::new())
    }

    /// Makes an engine with hooks that change every configuration that is read, in this order.
    pub fn with_hooks(environment: Environment, paths: Paths, hooks: Vec<Hook>) -> Self {
        let bus = Bus::default();
        let tokens = Tokens::new(environment.clone(), paths.clone());
        let http = http::Client::new(tokens, &environment);
        Self(Arc::new(EngineState {
            fetched: Fetched::new(http.clone(), &paths),
            storage: Storage::new(paths.database()),
            git: Program::new(environment.get("PATH")),
            held_worktrees: Default::default(),
            environment,
            paths,
            hooks,
            asking: Waiting::new(&bus),
            terminals: Terminals::new(bus.clone()),
            bus,
            http,
            workspaces: Mutex::default(),
            plugins: plugins::Hosts::default(),
            client_providers: Mutex::default(),
            background: background::Background::default(),
            jobs: jobs::Jobs::default(),
            snapshots: Mutex::default(),
            sessions: Registry::default(),
            use_stored_keys: AtomicBool::new(true),
            freshness: Freshness::default(),
            background_tasks: BackgroundTasks::default(),
            fleet: fleet::FleetState::default(),
            shares: Default::default(),
            people: OnceLock::new(),
        }))
    }

    /// Returns the sessions.
    pub fn sessions(&self) -> Sessions<'_> {
        Sessions { engine: self }
    }

    /// Returns the permissions and questions that wait.
    pub fn asking(&self) -> Asking<'_> {
        Asking { engine: self }
    }

    /// Returns the directories that sessions work in.
    pub fn workspaces(&self) -> Workspaces<'_> {
        Workspaces { engine: self }
    }

    /// Returns the plugins of directories.
    pub fn plugins(&self) -> Plugins<'_> {
        Plugins { engine: self }
    }

    /// Returns the things that are fetched by URL.
    pub fn remote(&self) -> Remote<'_> {
        Remote { engine: self }
    }

    /// Returns the checks and reports.
    pub fn diagnostics(&self) -> Diagnostics<'_> {
        Diagnostics { engine: self }
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
        self.0.sessions.tasks.spawn(work);
    }

    pub(crate) fn http(&self) -> &http::Client {
        &self.0.http
    }

    fn clients(&self) -> &Clients {
        &self.0.asking.clients
    }

    pub(crate) fn asks(&self) -> &asks::Asks {
        &self.0.asking.asks
    }

    pub(crate) fn questions(&self) -> &questions::Questions {
        &self.0.asking.questions
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

    /// Returns the inbox of a session's task, which is started when there is none.
    pub(crate) fn inbox(&self, id: &SessionId, open: &mut OpenSession) -> mpsc::Sender<Command> {
        match &open.task {
            Some(task) if !task.inbox.is_closed() => task.inbox.clone(),
            Some(_) | None => {
                let (inbox, receiver) = mpsc::channel(MAX_COMMANDS);
                let cx = SessionCx {
                    engine: self.clone(),
                    id: id.clone(),
                    workspace: open.workspace.clone(),
                    mcp: open.mcp.clone(),
                    parent_limits: open.parent_limits.clone(),
                    tickets: open.tickets.clone(),
                    warning_log: open.warning_log.clone().unwrap_or_else(|| WarningLog::new(id.clone())),
                    ahead: Default::default(),
                    session_lock: OnceLock::new(),
                    own_inbox: inbox.downgrade(),
                };
                let join = self.0.sessions.tasks.spawn(session_task::run(
                    cx,
                    Inbox::new(receiver),
                    self.0.sessions.idle,
                ));
                open.task = Some(Task { inbox: inbox.clone(), join });
                inbox
            }
        }
    }

    /// Returns true if the engine ends once everything is done.
    pub(crate) fn is_finishing(&self) -> bool {
        self.0.sessions.is_finishing.load(Ordering::Relaxed)
    }

    /// Ends the engine: running and waiting turns finish first, then everything that was started is ended.
    pub async fn finish(&self) {
        self.0.sessions.is_finishing.store(true, Ordering::Relaxed);
        self.0.background.idle().await;
        let sessions = std::mem::take(&mut *lock(&self.0.sessions.open));
        lock(&self.0.sessions.finishing).extend(sessions.values().map(|open| open.tickets.clone()));
        futures_util::future::join_all(sessions.into_values().map(end_session)).await;
        lock(&self.0.sessions.finishing).clear();
        // Commands in the background get the same moment as those that are cancelled with a turn.
        if self.0.jobs.end_all() {
            self.0.sessions.tasks.close();
            let _ = tokio::time::timeout(ABORT_LIMIT, self.0.sessions.tasks.wait()).await;
        }
        // A directory of another machine may hang.
        let _ = tokio::time::timeout(FILES_LIMIT, self.shares().finish()).await;
        self.fleet().end(FILES_LIMIT).await;
        self.close_workspaces().await;
        self.worktrees().tidy_all().await;
    }

    /// Ends the engine now: turns are cancelled and get a moment to say so, and prompts that wait stay in the store.
    pub async fn abort(&self) {
        self.0.jobs.end_all();
        let sessions = std::mem::take(&mut *lock(&self.0.sessions.open));
        let finishing = std::mem::take(&mut *lock(&self.0.sessions.finishing));
        for tickets in finishing.iter().chain(sessions.values().map(|open| &open.tickets)) {
            tickets.leave_to_store();
            tickets.cancel_all();
        }
        // The rows of prompts that stay have an owner for as long as these are there.
        drop(finishing);
        let ends = futures_util::future::join_all(sessions.into_values().map(end_session));
        self.0.sessions.tasks.close();
        let all = async { tokio::join!(ends, self.0.sessions.tasks.wait()) };
        if tokio::time::timeout(ABORT_LIMIT, all).await.is_err() {
            tracing::warn!("some turns did not end in time");
        }
        let _ = tokio::time::timeout(ABORT_LIMIT, self.shares().finish()).await;
        self.fleet().end(ABORT_LIMIT).await;
        // Servers that are left are killed with their owner when the process ends.
        let _ = tokio::time::timeout(Duration::from_millis(300), self.close_workspaces()).await;
        let _ = tokio::time::timeout(ABORT_LIMIT, self.worktrees().tidy_all()).await;
    }

    async fn close_workspaces(&self) {
        self.0.terminals.remove_all(None);
        let workspaces = std::mem::take(&mut *lock(&self.0.workspaces));
        let closing = futures_util::future::join_all(workspaces.values().map(|workspace| workspace.close()));
        tokio::join!(closing, self.plugins().end_all(), self.0.background_tasks.end());
    }
}

#[cfg(test)]
mod tests;
