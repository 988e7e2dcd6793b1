//! Context of a session's task and of each of its turns.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{CreatedTime, Message, ModelRef, UserMessage},
    session::SessionStatus,
};

use super::{
    parent_limits::ParentLimits,
    pending_agent::PendingAgent,
    request::Command,
    state::{Journal, SessionState},
    tickets::Tickets,
    warning_log::WarningLog,
};
use crate::{
    base::{clock, ids},
    config::Warning,
    engine::{
        Engine,
        turn::structured::Structured,
        workspace::{directory::Workspace, loaded::Loaded},
    },
    library::{Agent, InstructionBlock},
    mcp::{self, ServersLease},
    provider::Model,
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
    /// The user's choices that are still to be stored.
    pub chosen: PendingAgent,
    /// Warnings that the user has seen.
    pub warning_log: WarningLog,
    /// For what the session itself starts, such as its title.
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
    pub cancel: CancellationToken,
}

impl SessionCx {
    /// Tells everyone whether the session works.
    pub async fn show_status(&self, state: &SessionState, status: SessionStatus) {
        let mut journal = Journal::default();
        journal.status(&state.info, status);
        // Nothing is stored, so nothing can fail.
        let _ = journal.commit(self.engine.storage(), self.engine.bus()).await;
    }

    /// Tells the user what of the instructions does not reach a model.
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
    /// Returns the MCP servers of the turn: the configuration's, then the client's if it gave some.
    pub fn servers(&self) -> Vec<ServersLease> {
        let clients = self.session.mcp.iter().map(|servers| servers.lease());
        std::iter::once(self.mcp.clone()).chain(clients).collect()
    }

    /// Opens a message of the user, or of the daemon in the user's place.
    pub fn push_prompt(&self, state: &mut SessionState, journal: &mut Journal) -> MessageId {
        let given = state.given.message_id.take();
        let is_newest = |id: &MessageId| state.history.last().is_none_or(|last| id > last.info.id());
        // What follows gets later ids, whatever the client's clock says.
        let given = given.filter(is_newest).inspect(|id| ids::follow(id.as_str()));
        let message = Message::User(UserMessage {
            id: given.unwrap_or_else(ids::message),
            session_id: state.info.id.clone(),
            time: CreatedTime { created: clock::now_ms() },
            agent: self.agent.name.clone(),
            model: ModelRef { variant: self.variant.clone(), ..self.model.reference() },
            system: state.given.system.clone(),
            format: self.structured.as_ref().map(|it| Box::new(it.format.clone())),
        });
        let message_id = message.id().clone();
        state.push_message(message, journal);
        message_id
    }
}
