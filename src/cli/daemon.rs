//! The engine behind a terminal: this process's own, or a server's.

use std::{path::Path, sync::Arc};

use tokio::sync::oneshot;
use windlass_base::queue::Queue;
use windlass_engine::{Answerable, Client, Engine, EngineError, PromptInput, TurnBegin, TurnOutcome};
use windlass_protocol::opencode::{
    event::Event,
    id::{PartId, PermissionId, QuestionId, SessionId},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
};

pub mod http;
pub mod place;
pub mod remote;
pub mod sessions;
pub mod turn_end;

use remote::Remote;
use turn_end::{OnEnd, TurnEnd, TurnResult};

/// See the module's comment.
#[derive(Clone)]
pub enum Daemon {
    Own(Engine, Arc<Client>),
    Remote(Arc<Remote>),
}

impl Daemon {
    /// Returns this process's engine, with a lease that holds no session yet.
    pub fn own(engine: &Engine) -> Self {
        Self::Own(engine.clone(), Arc::new(engine.client(Answerable::Permissions)))
    }

    /// Returns a queue of the held sessions' events.
    pub fn listen(&self) -> Arc<Queue<Arc<Event>>> {
        match self {
            Self::Own(_, client) => client.listen(),
            Self::Remote(remote) => remote.listen(),
        }
    }

    /// Notes the requests that the terminal can answer. A server has other clients as well, and asks all of them.
    pub fn set_answerable(&self, answerable: Answerable) {
        match self {
            Self::Own(_, client) => client.set_answerable(answerable),
            Self::Remote(_) => {}
        }
    }

    /// Shows a session's events from now on.
    pub fn hold(&self, id: &SessionId) {
        match self {
            Self::Own(_, client) => _ = client.hold(id),
            Self::Remote(remote) => remote.hold(id),
        }
    }

    /// Shows no more events of a session.
    pub fn release(&self, id: &SessionId) {
        match self {
            Self::Own(_, client) => client.release(id),
            Self::Remote(remote) => remote.release(id),
        }
    }

    /// Gives a session a prompt; `on_end` is called behind the turn's last event.
    pub fn prompt(&self, id: &SessionId, input: PromptInput, on_end: OnEnd) {
        match self {
            Self::Own(engine, _) => {
                engine.sessions().prompt(id, input, Box::new(move |ended| on_end(turn_end(ended))));
            }
            Self::Remote(remote) => remote.prompt(id, input, on_end),
        }
    }

    /// Gives a session that works a prompt, and returns its ticket; `None` at a server that has no place for it.
    pub fn prompt_beside(
        &self,
        id: &SessionId,
        input: PromptInput,
        on_begin: TurnBegin,
        on_end: OnEnd,
    ) -> Option<u64> {
        match self {
            Self::Own(engine, _) => {
                let on_end = Box::new(move |ended| on_end(turn_end(ended)));
                Some(engine.sessions().prompt_watched(id, input, on_begin, on_end))
            }
            Self::Remote(remote) => remote.prompt_beside(id, input, on_begin, on_end),
        }
    }

    /// Takes a prompt back that waits; false comes if it has begun. A server's answer takes its time.
    pub fn withdraw(&self, id: &SessionId, ticket: u64) -> oneshot::Receiver<bool> {
        match self {
            Self::Own(engine, _) => {
                let (withdrawn, answer) = oneshot::channel();
                // The one that asked is there.
                let _ = withdrawn.send(engine.sessions().withdraw_prompt(id, ticket));
                answer
            }
            Self::Remote(remote) => remote.withdraw(id, ticket),
        }
    }

    /// Returns the end of a turn that another client of the server began; an engine of our own has no other.
    pub async fn running(&self, id: &SessionId, directory: &Path) -> Option<oneshot::Receiver<TurnEnd>> {
        match self {
            Self::Own(..) => None,
            Self::Remote(remote) => remote.running(id, directory).await,
        }
    }

    /// Shows a part as it is, of which a server's client missed a piece.
    pub fn refresh(&self, session_id: &SessionId, part_id: &PartId) {
        match self {
            Self::Own(..) => {}
            Self::Remote(remote) => remote.refresh(session_id, part_id),
        }
    }

    /// Cancels a session's turns.
    pub fn cancel(&self, id: &SessionId) {
        match self {
            Self::Own(engine, _) => engine.sessions().cancel(id),
            Self::Remote(remote) => remote.cancel(id),
        }
    }

    pub fn is_permission_waiting(&self, id: &PermissionId) -> bool {
        match self {
            Self::Own(engine, _) => engine.asking().is_permission_waiting(id),
            Self::Remote(remote) => remote.is_permission_waiting(id),
        }
    }

    pub fn is_question_waiting(&self, id: &QuestionId) -> bool {
        match self {
            Self::Own(engine, _) => engine.asking().is_question_waiting(id),
            Self::Remote(remote) => remote.is_question_waiting(id),
        }
    }

    /// Returns the permissions that a session asks for.
    pub fn pending_permissions(&self, id: &SessionId) -> Vec<PermissionRequest> {
        match self {
            Self::Own(engine, _) => engine.asking().pending_permissions(id),
            Self::Remote(remote) => remote.pending_permissions(id),
        }
    }

    /// Returns the questions that a server's session asks; those of our own engine are shown when they are asked.
    pub fn pending_questions(&self, id: &SessionId) -> Vec<QuestionRequest> {
        match self {
            Self::Own(..) => Vec::new(),
            Self::Remote(remote) => remote.pending_questions(id),
        }
    }

    pub fn reply_permission(&self, id: &PermissionId, reply: Reply, feedback: Option<String>) {
        match self {
            Self::Own(engine, _) => _ = engine.asking().reply_permission(id, reply, feedback),
            Self::Remote(remote) => remote.reply_permission(id, reply, feedback),
        }
    }

    pub fn reply_question(&self, id: &QuestionId, answers: Vec<Vec<String>>) {
        match self {
            Self::Own(engine, _) => _ = engine.asking().reply_question(id, answers),
            Self::Remote(remote) => remote.reply_question(id, answers),
        }
    }

    pub fn reject_question(&self, id: &QuestionId) {
        match self {
            Self::Own(engine, _) => _ = engine.asking().reject_question(id),
            Self::Remote(remote) => remote.reject_question(id),
        }
    }
}

fn turn_end(ended: Result<TurnOutcome, EngineError>) -> TurnEnd {
    let ended = ended.map(|outcome| TurnResult { stop: outcome.stop, structured: outcome.structured });
    ended.map_err(|error| error.message)
}
