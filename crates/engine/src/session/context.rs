//! Context of a session's task and of each of its turns.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, ids};
use windlass_core::{
    config::Warning,
    library::{Agent, InstructionBlock},
    storage::session_locks::{SessionLock, SoleUse},
};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, UserMessage},
    model_ref::ModelRef,
    session::SessionStatus,
    time::CreatedTime,
};
use windlass_provider::Model;
use windlass_services::{
    mcp::{self, ServersLease},
    plugin::host::Host,
};

use super::{
    ahead::{Ahead, Stored},
    parent_limits::ParentLimits,
    prompt_key::PromptKey,
    request::Command,
    state::{Journal, SessionState},
    structured::Structured,
    tickets::Tickets,
    warning_log::WarningLog,
};
use crate::{
    Engine, EngineError, EngineErrorKind,
    approvals::Approvals,
    workspace::{directory::Workspace, loaded::Loaded},
};

/// Context of a session's task.
pub struct SessionCx {
    pub engine: Engine,
    pub id: SessionId,
    pub workspace: Arc<Workspace>,
    /// Servers the client gave for this session.
    pub mcp: Option<Arc<mcp::Servers>>,
    /// Limits of the sessions above, for a subagent's session.
    pub parent_limits: ParentLimits,
    pub tickets: Arc<Tickets>,
    /// Changes that are stored and not shown yet.
    pub ahead: Ahead,
    /// Held by the task while it has the session in memory.
    pub session_lock: OnceLock<SessionLock>,
    /// Warnings that the user has seen.
    pub warning_log: WarningLog,
    /// For the work that the session itself starts, such as its title.
    pub own_inbox: mpsc::WeakSender<Command>,
}

/// Context that stays the same for a whole turn.
pub struct TurnCx<'a> {
    pub session: &'a SessionCx,
    pub loaded: Arc<Loaded>,
    pub agent: Agent,
    pub model: Model,
    /// Variant of the model.
    pub variant: Option<String>,
    pub instructions: Vec<InstructionBlock>,
    /// Limits of the sessions above, for a subagent's session.
    pub parent_limits: ParentLimits,
    /// Servers of the configuration.
    pub mcp: ServersLease,
    /// The wanted form of the answer, if it is not text.
    pub structured: Option<Structured>,
    /// The host of plugins, where there is one.
    pub plugins: Option<Arc<Host>>,
    pub cancel: CancellationToken,
}

impl SessionCx {
    /// Returns the answers that the session's person wants remembered for the project.
    pub fn approvals(&self) -> Approvals {
        self.workspace.approvals.of(self.engine.person_of(&self.id))
    }

    /// Stores a journal's changes, then shows them.
    pub async fn commit(&self, journal: &mut Journal) -> Result<(), EngineError> {
        if !self.ahead.is_idle() {
            let (waiter, shown) = oneshot::channel();
            self.push_ahead(journal, Some(waiter)).await?;
            let gone = || EngineError::new(EngineErrorKind::Internal, "the shared log was left");
            return shown.await.unwrap_or_else(|_| Err(gone()));
        }
        let has_prompt = journal.has_prompt();
        journal.commit(self.engine.storage(), self.engine.bus()).await?;
        if has_prompt {
            self.tickets.stored();
        }
        Ok(())
    }

    /// Like [`SessionCx::commit`], but where sessions are shared, the work need not wait until the changes are shown. The
    /// next commit fails if they are not. For changes behind which nothing happens that others see.
    pub async fn commit_ahead(&self, journal: &mut Journal) -> Result<(), EngineError> {
        if !self.engine.storage().outlet.is_slow() || self.ahead.is_full() {
            return self.commit(journal).await;
        }
        self.push_ahead(journal, None).await
    }

    async fn push_ahead(
        &self,
        journal: &mut Journal,
        waiter: Option<oneshot::Sender<Result<(), EngineError>>>,
    ) -> Result<(), EngineError> {
        let has_prompt = journal.has_prompt();
        let stored = journal.store_ahead(self.engine.storage()).await?;
        let tickets = has_prompt.then(|| self.tickets.clone());
        let on_shown = tickets.map(|tickets| Box::new(move || tickets.stored()) as Box<dyn FnOnce() + Send>);
        let stored = Stored { on_shown, waiter, ..stored };
        self.ahead.push(stored, &self.engine.storage().outlet, self.engine.bus())
    }

    /// Returns the MCP servers of now: the configuration's, then the client's if it gave some.
    pub fn servers(&self) -> Vec<ServersLease> {
        let clients = self.mcp.iter().map(|servers| servers.lease());
        std::iter::once(self.workspace.mcp().lease()).chain(clients).collect()
    }

    /// Takes the session alone: another process that has it in memory would not see that its past changes, and would
    /// write over it.
    ///
    /// `verb` names the deed in the refusal.
    pub fn sole_use(&self, verb: &str) -> Result<Option<SoleUse<'_>>, EngineError> {
        let Some(lock) = self.session_lock.get() else { return Ok(None) };
        let sole_use = lock.alone().ok_or_else(|| {
            let message = format!(
                "another windlass has the session {} open; {verb} it there, or close it there",
                self.id
            );
            EngineError::new(EngineErrorKind::SessionBusy, message)
        })?;
        Ok(Some(sole_use))
    }

    /// Tells everyone whether the session works.
    pub async fn show_status(&self, state: &SessionState, status: SessionStatus) {
        let mut journal = Journal::default();
        journal.status(&state.info, status);
        // Nothing is stored, so nothing can fail.
        let _ = self.commit(&mut journal).await;
    }

    /// Tells the user which parts of the instructions do not reach a model.
    pub fn warn(&self, warnings: &[Warning]) {
        self.warning_log.warn_once(self.engine.bus(), warnings);
    }

    /// Tells the user something about the model, once in a session.
    pub fn note(&self, note: Option<String>) {
        if let Some(note) = note {
            self.warning_log.notify_once(self.engine.bus(), &note);
        }
    }
}

impl TurnCx<'_> {
    /// Stores a journal's changes, then shows them.
    pub async fn commit(&self, journal: &mut Journal) -> Result<(), EngineError> {
        self.session.commit(journal).await
    }

    /// See [`SessionCx::commit_ahead`].
    pub async fn commit_ahead(&self, journal: &mut Journal) -> Result<(), EngineError> {
        self.session.commit_ahead(journal).await
    }

    /// Returns the MCP servers of the turn: the configuration's, then the client's if it gave some.
    pub fn servers(&self) -> Vec<ServersLease> {
        let clients = self.session.mcp.iter().map(|servers| servers.lease());
        std::iter::once(self.mcp.clone()).chain(clients).collect()
    }

    /// Opens a message of the user, or of the daemon in the user's place.
    pub fn push_prompt(&self, state: &mut SessionState, journal: &mut Journal) -> MessageId {
        let given = state.turn.given.message_id.take();
        let is_newest = |id: &MessageId| state.history.last().is_none_or(|last| id > last.info.id());
        // Later messages and parts get later ids, even if the client's clock is wrong.
        let id = match given {
            Some(id) if is_newest(&id) && ids::is_in_order(id.as_str()) => {
                ids::follow(id.as_str());
                id
            }
            // A retry finds it by its mark.
            Some(id) => PromptKey::new(&state.info.id, id.as_str()).message_id(),
            None => ids::message(),
        };
        let message = Message::User(UserMessage {
            id,
            session_id: state.info.id.clone(),
            time: CreatedTime { created: clock::now_ms() },
            agent: self.agent.name.clone(),
            model: ModelRef { variant: self.variant.clone(), ..self.model.reference() },
            system: state.turn.given.system.clone(),
            format: self.structured.as_ref().map(|it| Box::new(it.format.clone())),
            summary: None,
        });
        let message_id = message.id().clone();
        state.push_message(message, journal);
        journal.taken(&state.info, state.turn.given.waiting_id.take());
        message_id
    }
}
