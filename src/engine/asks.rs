//! Permission requests that wait for an answer, by id; any front end may give it, the first wins.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, SessionId},
    permission::{Action, PermissionRequest, Reply, Rule, ToolRef},
};

use crate::{
    base::{ids, lock::lock},
    bus::Bus,
    permission::{self, Ask, Verdict},
    tool::ToolError,
};

/// Rules that `always` answers added; shared by all sessions of a directory.
pub type Approvals = Arc<Mutex<Vec<Rule>>>;

/// See the module's comment. Cloning it shares it.
#[derive(Clone)]
pub struct Asks {
    bus: Bus,
    pending: Arc<Mutex<Vec<Pending>>>,
}

struct Pending {
    request: PermissionRequest,
    approvals: Approvals,
    answer: oneshot::Sender<Result<(), ToolError>>,
}

/// Who asks.
pub struct Asker<'a> {
    pub session_id: &'a SessionId,
    pub tool: ToolRef,
    /// The agent's rules, then the session's.
    pub rules: &'a [Rule],
    pub approvals: &'a Approvals,
}

impl Asks {
    pub fn new(bus: Bus) -> Self {
        Self { bus, pending: Arc::default() }
    }

    /// Ends when the request is allowed by rule or by the user.
    pub async fn ask(&self, asker: Asker<'_>, ask: Ask) -> Result<(), ToolError> {
        let verdict = permission::evaluate_all(&ask, &[asker.rules], &lock(asker.approvals));
        match verdict {
            Verdict::Allow => return Ok(()),
            Verdict::Deny { rules } => return Err(ToolError::Model(permission::denied_message(&rules))),
            Verdict::Ask => {}
        }
        let (answer, answered) = oneshot::channel();
        let request = PermissionRequest {
            id: ids::permission(),
            session_id: asker.session_id.clone(),
            permission: ask.permission,
            patterns: ask.patterns,
            metadata: ask.metadata,
            always: ask.always,
            tool: Some(asker.tool),
        };
        let withdrawal = Withdrawal { asks: self, id: request.id.clone() };
        lock(&self.pending).push(Pending {
            request: request.clone(),
            approvals: asker.approvals.clone(),
            answer,
        });
        self.bus.publish(EventPayload::PermissionAsked(request));
        let result = answered.await.unwrap_or(Err(ToolError::Cancelled { partial: None }));
        drop(withdrawal);
        result
    }

    /// Answers a pending request. False when there is none with this id (any more).
    pub fn reply(&self, id: &PermissionId, reply: Reply, feedback: Option<String>) -> bool {
        let Some(pending) = self.take(|pending| pending.request.id == *id).pop() else { return false };
        let session_id = pending.request.session_id.clone();
        match reply {
            Reply::Once => self.settle(pending, Reply::Once, Ok(())),
            Reply::Always => {
                let approvals = pending.approvals.clone();
                lock(&approvals).extend(pending.request.always.iter().map(|pattern| Rule {
                    permission: pending.request.permission.clone(),
                    pattern: pattern.clone(),
                    action: Action::Allow,
                }));
                self.settle(pending, Reply::Always, Ok(()));
                let rules = lock(&approvals).clone();
                let is_approved = |other: &Pending| {
                    other.request.session_id == session_id
                        && other.request.patterns.iter().all(|pattern| {
                            permission::evaluate(&other.request.permission, pattern, &rules) == Action::Allow
                        })
                };
                for other in self.take(is_approved) {
                    self.settle(other, Reply::Always, Ok(()));
                }
            }
            Reply::Reject => {
                let feedback = feedback.filter(|text| !text.trim().is_empty());
                self.settle(pending, Reply::Reject, Err(ToolError::Denied { feedback }));
                for other in self.take(|other| other.request.session_id == session_id) {
                    self.settle(other, Reply::Reject, Err(ToolError::Denied { feedback: None }));
                }
            }
        }
        true
    }

    /// The requests of a session that wait now.
    pub fn of_session(&self, id: &SessionId) -> Vec<PermissionRequest> {
        let pending = lock(&self.pending);
        pending.iter().filter(|it| it.request.session_id == *id).map(|it| it.request.clone()).collect()
    }

    fn take(&self, is_wanted: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        lock(&self.pending).extract_if(.., |pending| is_wanted(pending)).collect()
    }

    fn settle(&self, pending: Pending, reply: Reply, result: Result<(), ToolError>) {
        self.bus.publish(EventPayload::PermissionReplied {
            session_id: pending.request.session_id,
            request_id: pending.request.id,
            reply,
        });
        // The asking tool may have been cancelled in between.
        let _ = pending.answer.send(result);
    }
}

/// Takes the question back when the asking tool is cancelled, so that no front end goes on showing it.
struct Withdrawal<'a> {
    asks: &'a Asks,
    id: PermissionId,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        for pending in self.asks.take(|pending| pending.request.id == self.id) {
            self.asks.settle(pending, Reply::Reject, Err(ToolError::Cancelled { partial: None }));
        }
    }
}

#[cfg(test)]
mod tests;
