//! The sessions that are open in this process: made, registered, cancelled and closed.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64},
    },
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use windlass_base::{clock, ids, lock::lock};
use windlass_core::{
    config::sandbox::enclosure::Enclosures,
    storage::{SessionQuery, client_prompt::ClientPrompt},
};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    permission::Rule,
    project::WorktreeChoice,
    session::{ArchiveFilter, Session, SessionModel, SessionTime},
    settings::Share,
};
use windlass_services::mcp;

use super::{
    inbox::Inbox,
    open::{Cursor, Opened},
    parent_limits::ParentLimits,
    prompt_key::PromptKeys,
    request::Command,
    tickets::Tickets,
    title,
    warning_log::WarningLog,
};
use crate::{
    EngineError, EngineErrorKind, Sessions, asking::granted::Granted, client_server::ClientServer, project,
    workspace::directory::Workspace,
};

/// Time for which a session without work keeps its history in memory.
const IDLE: Duration = Duration::from_secs(120);

/// The sessions that are open, and the work that goes on in them.
pub struct Registry {
    pub open: Mutex<HashMap<SessionId, OpenSession>>,
    /// Time for which a session without work keeps its task.
    pub idle: Duration,
    pub next_ticket: AtomicU64,
    /// Every session's task, whether its session is still open or not.
    pub tasks: TaskTracker,
    pub prompt_keys: Arc<PromptKeys>,
    /// Prompts of sessions that [`crate::Engine::finish`] has taken out, for [`crate::Engine::abort`] to reach.
    pub finishing: Mutex<Vec<Arc<Tickets>>>,
    pub is_finishing: AtomicBool,
}

impl Default for Registry {
    fn default() -> Self {
        Self {
            open: Mutex::default(),
            idle: IDLE,
            next_ticket: AtomicU64::new(1),
            tasks: TaskTracker::new(),
            prompt_keys: Arc::default(),
            finishing: Mutex::default(),
            is_finishing: AtomicBool::new(false),
        }
    }
}

/// A session that a front end has opened.
pub struct OpenSession {
    pub workspace: Arc<Workspace>,
    pub mcp: Option<Arc<mcp::Servers>>,
    /// The servers are those of the session that started this one, and end with that.
    pub is_mcp_lent: bool,
    pub parent_limits: ParentLimits,
    pub granted: Granted,
    /// The directories beside the project as the client named them.
    pub directories: Arc<[PathBuf]>,
    pub client_prompt: Option<Arc<ClientPrompt>>,
    pub tickets: Arc<Tickets>,
    /// A subagent's: the warnings that were told in the session it works for.
    pub warning_log: Option<WarningLog>,
    /// Absent while the session is idle: it is rebuilt from the store by the next prompt.
    pub task: Option<Task>,
}

pub struct Task {
    pub inbox: mpsc::Sender<Command>,
    pub join: JoinHandle<()>,
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
    /// Rules that nothing in the session loosens, a list for each that they come from.
    pub limits: Vec<Vec<Rule>>,
    /// The client's own data about it.
    pub metadata: Option<Map<String, Value>>,
    /// A git worktree of the directory's repository to work in. It is removed with the end of the session if nothing was
    /// changed in it.
    pub worktree: Option<WorktreeChoice>,
}

impl Sessions<'_> {
    /// Makes and opens a session.
    pub async fn create(self, mut new: NewSession) -> Result<Opened, EngineError> {
        let workspace = self.engine.workspaces().workspace(&new.directory).await?;
        let Some(name) = new.worktree.take().and_then(WorktreeChoice::name) else {
            return self.create_in(workspace, new).await;
        };
        let entered = self.engine.worktrees().enter(&workspace, name, &CancellationToken::new()).await;
        self.engine.workspaces().close_if_unused(workspace).await;
        let entered =
            entered.map_err(|error| EngineError::new(EngineErrorKind::InvalidInput, error.to_string()))?;
        let created = async {
            new.directory = entered.place_of(&new.directory);
            let workspace = self.engine.workspaces().workspace(&new.directory).await?;
            self.create_in(workspace, new).await
        };
        match created.await {
            Ok(opened) => {
                entered.leave_to_session().await;
                Ok(opened)
            }
            // Dropped, the worktree goes again.
            Err(error) => Err(error),
        }
    }

    /// Makes and opens a session of a workspace that was read just now.
    pub async fn create_in(
        self,
        workspace: Arc<Workspace>,
        mut new: NewSession,
    ) -> Result<Opened, EngineError> {
        let loaded = workspace.loaded();
        let worktree = &loaded.config.worktree;
        // Other nodes know the session's place by its project.
        if self.engine.fleet().is_shared().await {
            self.engine.workspaces().find_project(worktree).await?;
        }
        let project_id = self.engine.workspaces().project_id(worktree).await?;
        let servers = std::mem::take(&mut new.servers);
        let info = new_info(new, worktree, project_id);
        if !self.engine.0.storage.create_session(info.clone()).await? {
            let message = format!("the session id {} is taken; choose another or load it", info.id);
            return Err(EngineError::new(EngineErrorKind::SessionExists, message));
        }
        match self.engine.fleet().claim(&info.id, None).await {
            Ok(false) => {}
            Ok(true) => {
                let message = format!("the session id {} is taken; choose another or load it", info.id);
                return Err(EngineError::new(EngineErrorKind::SessionExists, message));
            }
            Err(error) => {
                self.engine.0.storage.delete_session(info.id).await?;
                return Err(error);
            }
        }
        self.register(&info.id, workspace.clone(), servers);
        let event = SessionInfo { session_id: info.id.clone(), info: Arc::new(info.clone()) };
        self.engine.0.bus.publish(EventPayload::SessionCreated(event));
        if loaded.config.settings.share == Some(Share::Auto) && info.parent_id.is_none() {
            self.share_unasked(&info.id);
        }
        self.engine.0.http.warm_up(loaded.answers_next(None, None).ok());
        Ok(Opened {
            info,
            workspace,
            todos: Vec::new(),
            last_prompt: None,
            history: Cursor::default(),
            children: Vec::new(),
        })
    }

    /// Shares a new session where the user wants each one shared. A failure leaves it unshared.
    fn share_unasked(self, id: &SessionId) {
        let (engine, id) = (self.engine.clone(), id.clone());
        self.engine.spawn(async move {
            // A server of several people shares by itself, with pages of its own.
            if !engine.has_people()
                && engine.shares().is_automatic().await
                && let Err(error) = engine.shares().share(&id).await
            {
                tracing::warn!(session = %id, %error, "the session is not shared");
            }
        });
    }

    pub(crate) fn register(self, id: &SessionId, workspace: Arc<Workspace>, servers: Vec<ClientServer>) {
        // A running turn keeps the workspace and servers it began with.
        if lock(&self.engine.0.sessions.open).get(id).is_some_and(|open| !open.tickets.is_empty()) {
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
                results: self.engine.0.paths.tool_output(),
                logins: mcp::login::LoginFiles::new(&self.engine.0.paths),
            };
            Arc::new(mcp::Servers::start(specs, directories, self.engine.0.bus.clone()))
        };
        let mcp = (!servers.is_empty()).then(|| start(servers));
        let tickets = Arc::new(Tickets::new(id, &self.engine.0.bus));
        let open = OpenSession {
            workspace,
            mcp,
            is_mcp_lent: false,
            parent_limits: ParentLimits::default(),
            granted: Granted::default(),
            directories: Arc::default(),
            client_prompt: None,
            tickets,
            warning_log: None,
            task: None,
        };
        lock(&self.engine.0.sessions.open).insert(id.clone(), open);
    }

    /// Opens a subagent's session with the settings of its parent, unless it is open already.
    pub(crate) fn register_child(
        self,
        id: &SessionId,
        workspace: Arc<Workspace>,
        mcp: Option<Arc<mcp::Servers>>,
        parent_limits: ParentLimits,
        granted: Granted,
        warning_log: WarningLog,
    ) -> Result<(), InUse> {
        let (tickets, warning_log) = (Arc::new(Tickets::new(id, &self.engine.0.bus)), Some(warning_log));
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
        match lock(&self.engine.0.sessions.open).entry(id.clone()) {
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
    pub async fn list(
        self,
        directory: Option<String>,
        archived: ArchiveFilter,
        after: Option<(i64, String)>,
        limit: usize,
    ) -> Result<Vec<Session>, EngineError> {
        if after.is_none() {
            // The list here serves as well.
            let _ = self.engine.fleet().refresh(directory.as_deref().map(Path::new)).await;
        }
        let mut sessions =
            self.engine.0.storage.list(SessionQuery { directory, archived, after, limit }).await?;
        self.entitle(&mut sessions).await?;
        Ok(sessions)
    }

    /// Returns a stored session.
    pub async fn get(self, id: &SessionId) -> Result<Session, EngineError> {
        self.engine.fleet().claim(id, None).await?;
        let stored = self.engine.0.storage.session(id.clone()).await?;
        let mut session = stored.ok_or_else(|| EngineError::session_not_found(id))?;
        self.entitle([&mut session]).await?;
        Ok(session)
    }

    /// Lets an idle session's task end; false when something has come in the meantime.
    pub(crate) fn release_if_idle(self, id: &SessionId, inbox: &Inbox) -> bool {
        let mut sessions = lock(&self.engine.0.sessions.open);
        if !inbox.is_empty() {
            return false;
        }
        if let Some(open) = sessions.get_mut(id) {
            open.task = None;
        }
        true
    }

    /// Drops a task that ends by itself, so that the next prompt starts another.
    pub(crate) fn drop_task(self, id: &SessionId) {
        if let Some(open) = lock(&self.engine.0.sessions.open).get_mut(id) {
            open.task = None;
        }
    }

    /// Cancels every prompt of a session, running or waiting, and its subagents in the background. Unknown sessions are ignored.
    pub fn cancel(self, id: &SessionId) {
        let tickets = lock(&self.engine.0.sessions.open).get(id).map(|open| open.tickets.clone());
        if let Some(tickets) = tickets {
            tickets.cancel_all();
        }
        self.cancel_background(id);
    }

    /// Cancels one prompt.
    pub fn cancel_prompt(self, id: &SessionId, ticket: u64) {
        let tickets = lock(&self.engine.0.sessions.open).get(id).map(|open| open.tickets.clone());
        if let Some(tickets) = tickets {
            tickets.cancel(ticket);
        }
    }

    /// Cancels a session's turns, waits for them and frees the session's resources. False when it was not open.
    pub async fn close(self, id: &SessionId) -> bool {
        let Some(open) = lock(&self.engine.0.sessions.open).remove(id) else { return false };
        open.tickets.cancel_all();
        self.engine.0.asking.asks.withdraw_apart(id);
        self.close_jobs(id);
        self.close_background(id).await;
        let workspace = open.workspace.clone();
        end_session(open).await;
        // A call that was just ending may have begun one more.
        self.close_jobs(id);
        self.engine.0.bus.forget_children(id);
        let directory = workspace.directory().to_owned();
        self.engine.workspaces().close_if_unused(workspace).await;
        self.engine.worktrees().tidy(&directory).await;
        self.engine.fleet().give_back(id).await;
        true
    }
}

/// Reason that a session cannot be given a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InUse {
    /// The session is working.
    Works,
    /// A client has it open.
    Opened,
}

/// Waits for a session's task and ends its servers.
pub async fn end_session(open: OpenSession) {
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
pub fn new_info(new: NewSession, worktree: &Path, project_id: String) -> Session {
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
        share: None,
        metadata: new.metadata,
        permission: new.permission,
        limits: new.limits,
        revert: None,
        time: SessionTime { created: now, updated: now, compacting: None, archived: None },
    }
}
