//! Opens stored sessions and reads their histories by the page.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_base::{git::repository::Repository, lock::lock};
use windlass_core::storage::history::{Outline, Page, Range};
use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, MessageWithParts, UserMessage},
    part::{Part, PartKind, ToolPart, ToolState},
    session::{Session, Todo},
    tool::Subject,
    tool_metadata::{self, decode},
};
use windlass_services::tool;

use super::{
    revert,
    state::{self, Journal},
};
use crate::{ClientServer, EngineError, EngineErrorKind, OpenSession, Sessions, Task, Workspace};

/// Messages of a subagent that are read at once.
const CHILD_PAGE: usize = 1000;

/// An opened session as it stands, without its history.
pub struct Opened {
    pub info: Session,
    pub workspace: Arc<Workspace>,
    pub todos: Vec<Todo>,
    /// The newest message of the user.
    pub last_prompt: Option<UserMessage>,
    /// All of its history so far.
    pub history: Cursor,
    /// The sessions of its subagents, and of theirs.
    pub children: Vec<SessionId>,
}

impl Opened {
    fn new(outline: Outline, workspace: Arc<Workspace>) -> Self {
        Self {
            info: outline.info,
            workspace,
            todos: outline.todos,
            last_prompt: outline.last_prompt,
            history: Cursor(Range { after: None, until: outline.newest }),
            children: outline.children,
        }
    }
}

/// A place in a session's history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cursor(Range);

/// A part of a session's history, oldest first and without undone messages.
pub struct HistoryPage {
    pub messages: Vec<MessageWithParts>,
    /// The histories of the subagents that these messages started, and of theirs.
    pub children: HashMap<SessionId, Vec<MessageWithParts>>,
    /// The place behind this page, while something follows.
    pub next: Option<Cursor>,
}

impl Cursor {
    /// Returns true if nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.until.is_none()
    }
}

impl Sessions<'_> {
    /// Opens a stored session in a directory.
    pub async fn open(
        self,
        id: &SessionId,
        directory: &Path,
        servers: Vec<ClientServer>,
    ) -> Result<Opened, EngineError> {
        // Before anything of it is read here.
        self.engine.fleet().claim(id, Some(directory)).await?;
        let own = self.own_worktree(id, directory).await;
        let directory = own.as_deref().unwrap_or(directory);
        let restored = self.engine.worktrees().restore(directory).await;
        let workspace = async {
            let there = self.engine.workspaces().workspace(directory).await;
            let Err(error) = &there else { return there };
            // A session can be read without its directory.
            let is_missing = error.kind == EngineErrorKind::InvalidInput;
            if is_missing && Path::new(&self.get(id).await?.directory) == directory {
                return self.engine.workspaces().workspace_of_gone(directory).await;
            }
            there
        };
        let opened = self.register_and_read(id, workspace, servers).await;
        if let (Ok(_), Some(restored)) = (&opened, restored) {
            restored.leave_to_session().await;
        }
        opened
    }

    /// Opens a session for a client of another node: one that is open keeps its servers, and everything that its clients here
    /// have given it.
    pub async fn open_beside(self, id: &SessionId, directory: &Path) -> Result<Opened, EngineError> {
        let Some(workspace) = self.opened(id) else { return self.open(id, directory, Vec::new()).await };
        self.engine.fleet().claim(id, None).await?;
        let outline = self.engine.storage().outline(id.clone()).await?;
        let outline = outline.ok_or_else(|| EngineError::session_not_found(id))?;
        Ok(Opened::new(outline, workspace))
    }

    /// Returns the worktree that a session was in, where a directory of its project is named in its place: the session goes
    /// on in the worktree.
    async fn own_worktree(self, id: &SessionId, directory: &Path) -> Option<PathBuf> {
        let own = PathBuf::from(self.engine.storage().session(id.clone()).await.ok()??.directory);
        if own == directory {
            return None;
        }
        let repository = self.engine.worktrees().repository_of(&own)?;
        let root = self.engine.workspaces().project_root(directory);
        let there = Repository::of(&root).ok()?.common_dir;
        (there == repository).then_some(own)
    }

    /// Opens a stored session in a workspace that was read just now.
    pub async fn open_in(
        self,
        workspace: Arc<Workspace>,
        id: &SessionId,
        servers: Vec<ClientServer>,
    ) -> Result<Opened, EngineError> {
        self.engine.fleet().claim(id, Some(workspace.directory())).await?;
        self.register_and_read(id, std::future::ready(Ok(workspace)), servers).await
    }

    async fn register_and_read(
        self,
        id: &SessionId,
        workspace: impl Future<Output = Result<Arc<Workspace>, EngineError>>,
        servers: Vec<ClientServer>,
    ) -> Result<Opened, EngineError> {
        let is_running = !self.stop_if_idle(id).await;
        let outline = self.engine.storage().outline(id.clone()).await?;
        let mut outline = outline.ok_or_else(|| EngineError::session_not_found(id))?;
        let workspace = workspace.await?;
        if !is_running {
            outline.unfinished.retain(|message| !self.is_working(message.info.session_id()));
            let mut journal = Journal::default();
            state::repair(&mut outline.unfinished, state::TOOL_INTERRUPTED, &mut journal);
            let moved = workspace.directory().display().to_string();
            if outline.info.directory != moved {
                outline.info.directory = moved;
                journal.session(&outline.info);
            }
            journal.commit(self.engine.storage(), self.engine.bus()).await?;
        }
        self.register(id, workspace.clone(), servers);
        if outline.info.share.is_some() {
            self.engine.shares().follow(id);
        }
        self.keep_client_prompt(id, outline.client_prompt.take());
        if !is_running {
            self.restore_waiting(id).await;
            self.ask_again(id, outline.newest.clone());
        }
        Ok(Opened::new(outline, workspace))
    }

    /// Reads a page of a session's history: at most `limit` messages, fewer where they are large.
    pub async fn history(
        self,
        id: &SessionId,
        cursor: &Cursor,
        limit: usize,
    ) -> Result<HistoryPage, EngineError> {
        if cursor.is_empty() {
            return Ok(HistoryPage { messages: Vec::new(), children: HashMap::new(), next: None });
        }
        let page = self.engine.storage().page(id.clone(), cursor.0.clone(), limit).await?;
        let Page { info, messages } = page.ok_or_else(|| EngineError::session_not_found(id))?;
        let last = messages.last().map(|message| message.info.id().clone());
        let is_last = last.is_none() || last == cursor.0.until;
        let next = (!is_last).then(|| Cursor(Range { after: last, until: cursor.0.until.clone() }));
        let messages = self.without_undone(&info, messages).await?;
        let mut children = HashMap::new();
        self.read_children(&messages, &mut children).await?;
        Ok(HistoryPage { messages, children, next })
    }

    /// Leaves out the undone part of a page. It depends on the prompts, and the first one may be on an earlier page.
    async fn without_undone(
        self,
        info: &Session,
        messages: Vec<MessageWithParts>,
    ) -> Result<Vec<MessageWithParts>, EngineError> {
        let (Some(_), Some(first)) = (&info.revert, messages.first()) else { return Ok(messages) };
        let prompt = match &first.info {
            Message::Assistant(answer) => Some(answer.parent_id.clone()),
            Message::User(_) => None,
        };
        let mut whole: Vec<MessageWithParts> = match &prompt {
            Some(prompt) => self.engine.storage().message(prompt.clone()).await?.into_iter().collect(),
            None => Vec::new(),
        };
        whole.extend(messages);
        let mut kept = revert::without_undone(info, whole);
        kept.retain(|message| Some(message.info.id()) != prompt.as_ref());
        Ok(kept)
    }

    /// Reads the histories of the subagents that messages started.
    async fn read_children(
        self,
        messages: &[MessageWithParts],
        children: &mut HashMap<SessionId, Vec<MessageWithParts>>,
    ) -> Result<(), EngineError> {
        let mut waiting = started(messages);
        let mut known: HashSet<SessionId> = HashSet::new();
        while let Some(id) = waiting.pop() {
            if !known.insert(id.clone()) {
                continue;
            }
            let mut history: Vec<MessageWithParts> = Vec::new();
            loop {
                let after = history.last().map(|message| message.info.id().clone());
                let range = Range { after, until: None };
                match self.engine.storage().page(id.clone(), range, CHILD_PAGE).await? {
                    Some(page) if !page.messages.is_empty() => history.extend(page.messages),
                    Some(_) | None => break,
                }
            }
            waiting.extend(started(&history));
            children.insert(id, history);
        }
        Ok(())
    }

    /// Returns the workspace of a session that is open in this process.
    pub fn opened(self, id: &SessionId) -> Option<Arc<Workspace>> {
        let workspace = lock(&self.engine.0.sessions.open).get(id).map(|open| open.workspace.clone())?;
        workspace.touch();
        Some(workspace)
    }

    /// Returns the sessions of a directory that have a turn that runs or waits.
    pub fn working(self, directory: &Path) -> Vec<SessionId> {
        let sessions = lock(&self.engine.0.sessions.open);
        let is_working =
            |open: &OpenSession| !open.tickets.is_empty() && open.workspace.directory() == directory;
        sessions.iter().filter(|(_, open)| is_working(open)).map(|(id, _)| id.clone()).collect()
    }

    /// Closes all sessions of a directory, cancelling their turns, and with them its services.
    pub async fn close_directory(self, directory: &Path) -> Vec<SessionId> {
        let ids: Vec<SessionId> = {
            let sessions = lock(&self.engine.0.sessions.open);
            let is_there = |open: &OpenSession| open.workspace.directory() == directory;
            sessions.iter().filter(|(_, open)| is_there(open)).map(|(id, _)| id.clone()).collect()
        };
        for id in &ids {
            self.close(id).await;
        }
        self.engine.workspaces().close_services(directory).await;
        ids
    }

    /// Returns true if a session of this process has a turn that runs or waits.
    pub fn is_working(self, id: &SessionId) -> bool {
        lock(&self.engine.0.sessions.open).get(id).is_some_and(|open| !open.tickets.is_empty())
    }

    /// Ends the task of a session that has nothing to do, so that it can be opened afresh. False when it works.
    pub(crate) async fn stop_if_idle(self, id: &SessionId) -> bool {
        let task = match lock(&self.engine.0.sessions.open).get_mut(id) {
            Some(open) if !open.tickets.is_empty() => return false,
            Some(open) => open.task.take(),
            None => None,
        };
        if let Some(Task { inbox, join, .. }) = task {
            drop(inbox);
            // A task that panicked has ended as well.
            let _ = join.await;
        }
        true
    }
}

/// Returns the sessions of the subagents that messages started.
fn started(messages: &[MessageWithParts]) -> Vec<SessionId> {
    messages.iter().flat_map(|message| &message.parts).filter_map(started_by).collect()
}

fn started_by(part: &Part) -> Option<SessionId> {
    let PartKind::Tool(tool) = &part.kind else { return None };
    task_session(tool)
}

/// Returns the session of the subagent that a `task` call started.
pub fn task_session(tool: &ToolPart) -> Option<SessionId> {
    let metadata = match &tool.state {
        ToolState::Pending { .. } => None,
        ToolState::Running { metadata, .. } | ToolState::Error { metadata, .. } => metadata.as_ref(),
        ToolState::Completed { metadata, .. } => Some(metadata),
    };
    let is_task = tool::look(&tool.tool).subject == Subject::Task;
    let task: tool_metadata::Task<'_> = metadata.filter(|_| is_task).and_then(decode)?;
    SessionId::parse(task.session_id).ok()
}
