//! Requests that wait for the client's user: one at a time per session, withdrawn when they are settled elsewhere.

use std::collections::{HashMap, VecDeque};

use windlass_engine::Engine;
use windlass_protocol::{
    opencode::{
        event::EventPayload,
        id::{PermissionId, QuestionId, SessionId},
        permission::PermissionRequest,
        question::QuestionRequest,
    },
    rpc::Id,
};

use super::dialog::Dialog;

/// See the module's comment.
#[derive(Default)]
pub struct Permissions {
    /// Our requests the client has not answered.
    outstanding: HashMap<Id, AskedId>,
    /// The requests that wait in each session, the shown one first.
    queues: HashMap<SessionId, VecDeque<Asked>>,
    next_id: i64,
    /// The client can no longer answer.
    is_unanswerable: bool,
}

/// Something the user is asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Permission(PermissionRequest),
    /// A tool's own questions.
    Question(Dialog),
}

/// Id of a request to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AskedId {
    Permission(PermissionId),
    Question(QuestionId),
}

impl Asked {
    fn is(&self, id: &AskedId) -> bool {
        match (self, id) {
            (Asked::Permission(request), AskedId::Permission(id)) => request.id == *id,
            (Asked::Question(dialog), AskedId::Question(id)) => dialog.id() == id,
            (Asked::Permission(_), AskedId::Question(_)) | (Asked::Question(_), AskedId::Permission(_)) => {
                false
            }
        }
    }

    fn id(&self) -> AskedId {
        match self {
            Asked::Permission(request) => AskedId::Permission(request.id.clone()),
            Asked::Question(dialog) => AskedId::Question(dialog.id().clone()),
        }
    }
}

/// The requests that wait for the user at the moment, regardless of the events on their way.
pub struct Waiting<'a> {
    pub is_waiting: &'a dyn Fn(&AskedId) -> bool,
    pub of_session: &'a dyn Fn(&SessionId) -> Vec<Request>,
}

/// A request that waits for the user.
pub enum Request {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

/// Returns true if a request was not settled and its turn not cancelled.
pub fn is_waiting(engine: &Engine, asked: &AskedId) -> bool {
    match asked {
        AskedId::Permission(id) => engine.asking().is_permission_waiting(id),
        AskedId::Question(id) => engine.asking().is_question_waiting(id),
    }
}

/// Returns the requests of a session that wait now.
pub fn requests(engine: &Engine, id: &SessionId) -> Vec<Request> {
    let permissions = engine.asking().pending_permissions(id).into_iter().map(Request::Permission);
    permissions.chain(engine.asking().pending_questions(id).into_iter().map(Request::Question)).collect()
}

/// Consequences of a settled question for the client.
pub struct Settled {
    /// Our request that is taken back, when the client did not answer it itself.
    pub withdrawn: Option<Id>,
    /// The session with the next question to be shown, as the client knows it.
    pub next: Option<SessionId>,
    /// The session that the shown question belonged to.
    pub session_id: Option<SessionId>,
}

impl Permissions {
    /// Queues a question of a session the client knows, its own or a subagent's; whether it is to be shown now.
    pub fn ask(&mut self, session_id: &SessionId, asked: Asked) -> bool {
        let id = asked.id();
        if self.queues.values().flatten().any(|it| it.is(&id)) {
            return false;
        }
        let queue = self.queues.entry(session_id.clone()).or_default();
        queue.push_back(asked);
        queue.len() == 1
    }

    /// Returns the question of a session that is to be shown, and the id of the request that shows it.
    ///
    /// Leaves out a question that does not wait any more: the news that it is settled is on its way behind it.
    pub fn show(
        &mut self,
        session_id: &SessionId,
        is_waiting: impl Fn(&AskedId) -> bool,
    ) -> Option<(Id, Asked)> {
        let queue = self.queues.get_mut(session_id)?;
        while queue.front().is_some_and(|asked| !is_waiting(&asked.id())) {
            queue.pop_front();
        }
        let Some(asked) = queue.front().cloned() else {
            self.queues.remove(session_id);
            return None;
        };
        let rpc_id = self.next_rpc_id();
        self.outstanding.insert(rpc_id.clone(), asked.id());
        Some((rpc_id, asked))
    }

    /// Returns an id for a request of ours.
    pub fn next_rpc_id(&mut self) -> Id {
        let id = Id::Number(self.next_id);
        self.next_id += 1;
        id
    }

    /// Takes the request back that shows a session's question, for a client that begins anew: its id, if there is one.
    /// The question waits to be shown again.
    pub fn withdraw_shown(&mut self, session_id: &SessionId) -> Option<Id> {
        let front = self.queues.get(session_id)?.front()?.id();
        let shown = self.outstanding.iter().find(|(_, asked)| **asked == front);
        let rpc_id = shown.map(|(rpc_id, _)| rpc_id.clone())?;
        self.outstanding.remove(&rpc_id);
        Some(rpc_id)
    }

    /// Moves the questions of a session to another one behind its own; true if its first is to be shown now. The
    /// request that shows one of them is taken back.
    pub fn move_to(&mut self, from: &SessionId, to: &SessionId) -> (bool, Option<Id>) {
        let shown = self.withdraw_shown(from);
        let Some(moved) = self.queues.remove(from) else { return (false, shown) };
        let queue = self.queues.entry(to.clone()).or_default();
        let is_first = queue.is_empty();
        queue.extend(moved);
        (is_first, shown)
    }

    /// Forgets the questions of a session, which will be asked anew; returns the request that shows one of them.
    pub fn forget(&mut self, session_id: &SessionId) -> Option<Id> {
        let shown = self.withdraw_shown(session_id);
        self.queues.remove(session_id);
        shown
    }

    /// Returns the session that the client was shown this question in.
    pub fn session_of(&self, id: &AskedId) -> Option<&SessionId> {
        self.queues.iter().find(|(_, queue)| queue.iter().any(|it| it.is(id))).map(|(session, _)| session)
    }

    /// Returns the session of this question, while it is the one to be shown and is not on the screen.
    pub fn session_to_ask_next(&self, id: &QuestionId) -> Option<SessionId> {
        let id = AskedId::Question(id.clone());
        if self.outstanding.values().any(|it| *it == id) {
            return None;
        }
        let mut queues = self.queues.iter();
        queues
            .find(|(_, queue)| queue.front().is_some_and(|it| it.is(&id)))
            .map(|(session, _)| session.clone())
    }

    /// Returns the request that the client answered; `None` when it was settled before.
    pub fn answered(&mut self, rpc_id: &Id) -> Option<AskedId> {
        self.outstanding.remove(rpc_id)
    }

    /// Works on a tool's questions that wait.
    pub fn with_dialog<T>(&mut self, id: &QuestionId, work: impl FnOnce(&mut Dialog) -> T) -> Option<T> {
        let dialog = self.queues.values_mut().flatten().find_map(|asked| match asked {
            Asked::Question(dialog) if dialog.id() == id => Some(dialog),
            Asked::Question(_) | Asked::Permission(_) => None,
        });
        dialog.map(work)
    }

    /// Notes that a question is settled, by whomever.
    pub fn settle(&mut self, id: &AskedId) -> Settled {
        let withdrawn = self.outstanding.iter().find(|(_, it)| *it == id).map(|(rpc_id, _)| rpc_id.clone());
        if let Some(rpc_id) = &withdrawn {
            self.outstanding.remove(rpc_id);
        }
        let found = self.queues.iter_mut().find(|(_, queue)| queue.iter().any(|asked| asked.is(id)));
        let Some((session_id, queue)) = found else {
            return Settled { withdrawn, next: None, session_id: None };
        };
        let session_id = session_id.clone();
        let was_shown = queue.front().is_some_and(|front| front.is(id));
        queue.retain(|asked| !asked.is(id));
        let has_next = was_shown && !queue.is_empty() && !self.is_unanswerable;
        if queue.is_empty() {
            self.queues.remove(&session_id);
        }
        let next = has_next.then(|| session_id.clone());
        Settled { withdrawn, next, session_id: was_shown.then_some(session_id) }
    }

    /// Notes that from now on nothing can be answered.
    pub fn give_up(&mut self) {
        self.is_unanswerable = true;
    }

    /// Returns true if the client can no longer answer.
    pub fn is_unanswerable(&self) -> bool {
        self.is_unanswerable
    }
}

/// Returns the question that an event says is settled.
pub fn settled(payload: &EventPayload) -> Option<AskedId> {
    if let EventPayload::PermissionReplied { request_id, .. } = payload {
        Some(AskedId::Permission(request_id.clone()))
    } else if let EventPayload::QuestionReplied { request_id, .. }
    | EventPayload::QuestionRejected { request_id, .. } = payload
    {
        Some(AskedId::Question(request_id.clone()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
