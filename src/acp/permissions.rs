//! Permission questions to the client: one at a time per session, answered once, taken back when settled elsewhere.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use windlass_protocol::{
    opencode::{
        id::{PermissionId, SessionId},
        permission::PermissionRequest,
    },
    rpc::Id,
};

/// See the module's comment.
#[derive(Default)]
pub struct Permissions {
    state: Mutex<State>,
    next_id: AtomicI64,
    /// The client can no longer answer.
    is_unanswerable: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Our requests the client has not answered.
    outstanding: HashMap<Id, PermissionId>,
    /// Questions of each session, the shown one first.
    queues: HashMap<SessionId, VecDeque<PermissionRequest>>,
}

/// What a settled question means for the client.
pub struct Settled {
    /// Our request that is taken back, when the client did not answer it itself.
    pub withdrawn: Option<Id>,
    /// The next question of the same session, and that session as the client knows it.
    pub next: Option<(SessionId, PermissionRequest)>,
}

impl Permissions {
    /// Queues a question of a session the client knows, its own or a subagent's; returns it when it is to be shown now.
    pub fn ask(&self, session_id: &SessionId, request: PermissionRequest) -> Option<PermissionRequest> {
        let mut state = self.lock();
        let queue = state.queues.entry(session_id.clone()).or_default();
        queue.push_back(request.clone());
        (queue.len() == 1).then_some(request)
    }

    /// The id of the request that shows a question.
    pub fn show(&self, id: &PermissionId) -> Id {
        let rpc_id = Id::Number(self.next_id.fetch_add(1, Ordering::Relaxed));
        self.lock().outstanding.insert(rpc_id.clone(), id.clone());
        rpc_id
    }

    /// The question that the client's answer is about; `None` when it was settled before.
    pub fn answered(&self, rpc_id: &Id) -> Option<PermissionId> {
        self.lock().outstanding.remove(rpc_id)
    }

    /// Notes that a question is settled, by whomever.
    pub fn settle(&self, id: &PermissionId) -> Settled {
        let mut state = self.lock();
        let withdrawn = state.outstanding.iter().find(|(_, it)| *it == id).map(|(rpc_id, _)| rpc_id.clone());
        if let Some(rpc_id) = &withdrawn {
            state.outstanding.remove(rpc_id);
        }
        let found = state.queues.iter_mut().find(|(_, queue)| queue.iter().any(|request| request.id == *id));
        let Some((session_id, queue)) = found else { return Settled { withdrawn, next: None } };
        let session_id = session_id.clone();
        let was_shown = queue.front().is_some_and(|front| front.id == *id);
        queue.retain(|request| request.id != *id);
        let next = if was_shown && !self.is_unanswerable() { queue.front().cloned() } else { None };
        if queue.is_empty() {
            state.queues.remove(&session_id);
        }
        Settled { withdrawn, next: next.map(|request| (session_id, request)) }
    }

    /// Keeps questions from being shown that a cancel is about to take back; the shown one stays until it is.
    pub fn hold_back(&self, session_id: &SessionId) {
        if let Some(queue) = self.lock().queues.get_mut(session_id) {
            queue.truncate(1);
        }
    }

    /// Every question that waits; from now on none can be answered.
    pub fn give_up(&self) -> Vec<PermissionId> {
        self.is_unanswerable.store(true, Ordering::Release);
        self.lock().queues.values().flatten().map(|request| request.id.clone()).collect()
    }

    /// Whether the client can still answer.
    pub fn is_unanswerable(&self) -> bool {
        self.is_unanswerable.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
