//! Permission requests that wait for an answer, by id; every client of the session may give it, the first wins.

use std::sync::{Arc, Mutex};

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, SessionId},
    permission::{Action, PermissionRequest, Reply, Rule, ToolRef},
};

use super::{
    approvals::Approvals,
    client::{Answerable, Clients},
};
use crate::{
    base::{ids, lock::lock},
    bus::Bus,
    config::policy::Policy,
    permission::{self, Ask, Verdict},
    tool::ToolError,
};

/// See the module's comment. Cloning it shares it.
#[derive(Clone)]
pub struct Asks {
    bus: Bus,
    clients: Clients,
    pending: Arc<Mutex<Vec<Pending>>>,
}

struct Pending {
    request: PermissionRequest,
    policy: Policy,
    approvals: Approvals,
    /// No remembered answer settles it.
    is_any: bool,
    /// It is not about a call: the answer to no other question settles it, and its own settles no other.
    is_apart: bool,
    cancel: CancellationToken,
    answer: oneshot::Sender<Result<(), ToolError>>,
}

/// The end of a question that is not about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmation {
    Yes,
    No,
    /// Its session was closed before anybody answered.
    Withdrawn,
}

/// The asking call.
pub struct Asker<'a> {
    pub session_id: &'a SessionId,
    pub tool: ToolRef,
    pub policy: &'a Policy,
    pub approvals: &'a Approvals,
    /// Cancelled with the turn.
    pub cancel: &'a CancellationToken,
}

impl Asks {
    pub fn new(bus: Bus, clients: Clients) -> Self {
        Self { bus, clients, pending: Arc::default() }
    }

    /// Ends when the request is allowed by rule, by an answer given before or by the user.
    ///
    /// What may turn out to be anything (`is_any`) is allowed by rule only where the rules allow everything,
    /// and by no
    /// answer given before.
    pub async fn ask(&self, asker: Asker<'_>, ask: Ask, is_any: bool) -> Result<(), ToolError> {
        let is_any = is_any && permission::is_anything_restricted(&ask.permission, asker.policy);
        match permission::evaluate_all(&ask, asker.policy, &[]) {
            Verdict::Allow if !is_any => return Ok(()),
            Verdict::Allow | Verdict::Ask => {}
            Verdict::Deny { rules } => return Err(ToolError::Forbidden(permission::denied_message(&rules))),
        }
        asker.approvals.sync().await;
        let (answer, answered) = oneshot::channel();
        let id = ids::permission();
        {
            // An answer is remembered before it looks for what it settles here: it finds this question, or is found.
            // And none is told of before its question.
            let mut pending = lock(&self.pending);
            let answers = asker.approvals.rules();
            match permission::evaluate_all(&ask, asker.policy, &answers) {
                Verdict::Allow if !is_any => return Ok(()),
                Verdict::Allow | Verdict::Ask => {}
                Verdict::Deny { rules } => {
                    return Err(ToolError::Forbidden(permission::denied_message(&rules)));
                }
            }
            let is_approved =
                |pattern: &&String| permission::evaluate(&ask.permission, pattern, &answers) == Action::Allow;
            let approved = ask.patterns.iter().filter(is_approved).cloned().collect();
            let request = PermissionRequest {
                id: id.clone(),
                session_id: asker.session_id.clone(),
                permission: ask.permission,
                patterns: ask.patterns,
                metadata: ask.metadata,
                always: ask.always,
                approved,
                tool: Some(asker.tool),
            };
            pending.push(Pending {
                request: request.clone(),
                policy: asker.policy.clone(),
                approvals: asker.approvals.clone(),
                is_any,
                is_apart: false,
                cancel: asker.cancel.clone(),
                answer,
            });
            self.bus.publish(EventPayload::PermissionAsked(request));
        }
        self.refuse_unanswerable();
        let withdrawal = Withdrawal { asks: self, id };
        let result = answered.await.unwrap_or(Err(ToolError::Cancelled { partial: None }));
        drop(withdrawal);
        if asker.approvals.has_unsaved() {
            // Before the tool goes on: what the user said once must not be asked again after a crash.
            asker.approvals.sync().await;
        }
        result
    }

    /// Asks what is not about a call: no rule and no remembered answer decides it, and this one is not remembered.
    pub async fn confirm(
        &self,
        session_id: &SessionId,
        permission: &str,
        metadata: Map<String, Value>,
    ) -> Confirmation {
        let (answer, answered) = oneshot::channel();
        let request = PermissionRequest {
            id: ids::permission(),
            session_id: session_id.clone(),
            permission: permission.to_owned(),
            patterns: vec!["*".to_owned()],
            metadata,
            always: Vec::new(),
            approved: Vec::new(),
            tool: None,
        };
        let withdrawal = Withdrawal { asks: self, id: request.id.clone() };
        let (policy, approvals, cancel) = (Policy::default(), Approvals::default(), CancellationToken::new());
        {
            let mut pending = lock(&self.pending);
            let event = EventPayload::PermissionAsked(request.clone());
            pending.push(Pending {
                request,
                policy,
                approvals,
                is_any: true,
                is_apart: true,
                cancel,
                answer,
            });
            self.bus.publish(event);
        }
        let result = answered.await;
        drop(withdrawal);
        match result {
            Ok(Ok(())) => Confirmation::Yes,
            Ok(Err(ToolError::Cancelled { .. })) | Err(_) => Confirmation::Withdrawn,
            Ok(Err(_)) => Confirmation::No,
        }
    }

    /// Takes back what a session is asked that is not about a call.
    pub fn withdraw_apart(&self, session_id: &SessionId) {
        for pending in self.take(|it| it.is_apart && it.request.session_id == *session_id) {
            self.settle(pending, Reply::Reject, Err(ToolError::Cancelled { partial: None }));
        }
    }

    /// Answers a pending request. False when there is none with this id (any more), or when its turn was cancelled.
    ///
    /// What the answer settles besides is settled first: a front end shows the next question when the answered one is
    /// gone, and must not show one that nobody has to answer.
    pub fn reply(&self, id: &PermissionId, reply: Reply, feedback: Option<String>) -> bool {
        let Some(pending) = self.take(|pending| pending.is(id)).pop() else { return false };
        match reply {
            Reply::Once | Reply::Always if pending.is_apart => self.settle(pending, Reply::Once, Ok(())),
            Reply::Once => self.settle(pending, Reply::Once, Ok(())),
            Reply::Always => {
                remember(&pending, Action::Allow);
                for other in self.take(|other| other.is_approved_since(&pending)) {
                    self.settle(other, Reply::Always, Ok(()));
                }
                self.settle(pending, Reply::Always, Ok(()));
            }
            Reply::Reject | Reply::RejectAlways if pending.is_apart => {
                self.settle(pending, Reply::Reject, Err(ToolError::Denied { feedback: None }));
            }
            Reply::Reject | Reply::RejectAlways => {
                if reply == Reply::RejectAlways {
                    remember(&pending, Action::Deny);
                }
                let session_id = &pending.request.session_id;
                for other in self.take(|other| !other.is_apart && other.request.session_id == *session_id) {
                    self.settle(other, Reply::Reject, Err(ToolError::Denied { feedback: None }));
                }
                let feedback = feedback.filter(|text| !text.trim().is_empty());
                self.settle(pending, Reply::Reject, Err(ToolError::Denied { feedback }));
            }
        }
        true
    }

    /// Rejects the requests of sessions that no client holds which could answer.
    pub fn refuse_unanswerable(&self) {
        let is_unanswerable = |it: &Pending| {
            let id = &it.request.session_id;
            !self.clients.can_answer(id, Answerable::Permissions) && !it.cancel.is_cancelled()
        };
        for pending in self.take(is_unanswerable) {
            let PermissionRequest { permission, patterns, .. } = &pending.request;
            tracing::warn!(
                permission,
                ?patterns,
                "nobody can be asked any more, so the call is refused; allow it by configuration"
            );
            self.settle(pending, Reply::Reject, Err(ToolError::Denied { feedback: None }));
        }
    }

    /// Returns the requests of a session that wait now.
    pub fn of_session(&self, id: &SessionId) -> Vec<PermissionRequest> {
        let pending = lock(&self.pending);
        let of_session = |it: &&Pending| it.request.session_id == *id && !it.cancel.is_cancelled();
        pending.iter().filter(of_session).map(|it| it.request.clone()).collect()
    }

    /// Lets a request wait that no tool makes.
    #[cfg(test)]
    pub fn pretend(&self, request: PermissionRequest) {
        let (policy, approvals, cancel) = (Policy::default(), Approvals::default(), CancellationToken::new());
        let (answer, _) = oneshot::channel();
        lock(&self.pending).push(Pending {
            request,
            policy,
            approvals,
            is_any: false,
            is_apart: false,
            cancel,
            answer,
        });
    }

    /// Returns true if this request still waits for an answer.
    pub fn is_waiting(&self, id: &PermissionId) -> bool {
        lock(&self.pending).iter().any(|pending| pending.is(id))
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

impl Pending {
    /// Returns true if this request has the id and can be answered. A cancelled turn takes its questions back as
    /// soon as its tasks run; until then no answer counts.
    fn is(&self, id: &PermissionId) -> bool {
        self.request.id == *id && !self.cancel.is_cancelled()
    }

    /// Returns true if this question of the same project would not be asked any more now that the other one was
    /// answered.
    fn is_approved_since(&self, answered: &Pending) -> bool {
        let PermissionRequest { permission, patterns, .. } = &self.request;
        if self.is_any || self.cancel.is_cancelled() || !self.approvals.is_same(&answered.approvals) {
            return false;
        }
        let answers = self.approvals.rules();
        patterns
            .iter()
            .all(|pattern| permission::resolve(permission, pattern, &self.policy, &answers) == Action::Allow)
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

fn remember(pending: &Pending, action: Action) {
    let PermissionRequest { permission, always, .. } = &pending.request;
    let rule = |pattern: &String| Rule { permission: permission.clone(), pattern: pattern.clone(), action };
    pending.approvals.remember(always.iter().map(rule).collect());
}

#[cfg(test)]
mod tests;
