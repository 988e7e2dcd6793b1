//! Permission requests: decided by the rules, by an answer given before, or by the user.

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_base::ids;
use windlass_core::{
    bus::Bus,
    config::policy::{Policy, REACH_HOST},
    permission::{self, Ask, Verdict},
};
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{PermissionId, SessionId},
    permission::{Action, PermissionRequest, Reply, Rule, ToolRef},
};
use windlass_services::{
    plugin::host::Host,
    tool::{AllowedBy, ToolError},
};

use super::{
    approvals::Approvals,
    client::{Answerable, Clients},
    pending::{self, PendingTable, Request},
    plugin_opinion::{self, Opinion},
};

/// The permission requests that wait. Cloning it shares it.
#[derive(Clone)]
pub struct Asks(PendingTable<PermissionRequest>);

type Pending = pending::Pending<PermissionRequest>;

/// Facts of a request that only settling needs.
#[derive(Default)]
pub struct Context {
    policy: Policy,
    approvals: Approvals,
    /// No remembered answer settles it.
    is_opaque: bool,
    /// True for a question that is not about a call: no other answer settles it, and its answer settles no other.
    is_standalone: bool,
}

impl Request for PermissionRequest {
    type Id = PermissionId;
    type Context = Context;
    /// The name of the source that allowed it, where it was not the user.
    type Answer = Option<String>;
    const ANSWERABLE: Answerable = Answerable::Permissions;

    fn id(&self) -> &PermissionId {
        &self.id
    }

    fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    fn asked(&self) -> EventPayload {
        EventPayload::PermissionAsked(self.clone())
    }

    fn refused(&self) -> EventPayload {
        replied(self, Reply::Reject)
    }
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
    /// The host of plugins, where there is one.
    pub plugins: Option<&'a Host>,
}

impl Asks {
    pub fn new(bus: Bus, clients: Clients) -> Self {
        Self(PendingTable::new(bus, clients))
    }

    /// Like [`Asks::ask_who`], without the source of the permission.
    pub async fn ask(&self, asker: Asker<'_>, ask: Ask, is_opaque: bool) -> Result<(), ToolError> {
        self.ask_who(asker, ask, is_opaque).await.map(drop)
    }

    /// Ends when the request is allowed by rule, by an answer given before or by the user; says by which.
    ///
    /// An opaque request may turn out to be anything: it is allowed by rule only where the rules allow everything, and
    /// by no answer given before.
    pub async fn ask_who(&self, asker: Asker<'_>, ask: Ask, is_opaque: bool) -> Result<AllowedBy, ToolError> {
        let is_opaque = is_opaque && permission::is_anything_restricted(&ask.permission, asker.policy);
        let is_opaque = match before_question(&asker, &ask, is_opaque).await? {
            Before::Allowed => return Ok(AllowedBy::Rules),
            Before::Asked => is_opaque,
            // No rule and no answer given before settles a request that a plugin wants asked.
            Before::AskedByPlugin => true,
        };
        let answered = {
            // An answer is remembered before it looks for the questions that it settles here: it finds this question,
            // or is found.
            let mut pending = self.0.lock();
            let answers = asker.approvals.rules();
            if is_settled(&asker, &ask, &answers, is_opaque)? {
                return Ok(AllowedBy::Rules);
            }
            let is_approved =
                |pattern: &&String| permission::evaluate(&ask.permission, pattern, &answers) == Action::Allow;
            let approved = ask.patterns.iter().filter(is_approved).cloned().collect();
            let request = PermissionRequest {
                id: ids::permission(),
                session_id: asker.session_id.clone(),
                permission: ask.permission,
                patterns: ask.patterns,
                metadata: ask.metadata,
                always: ask.always,
                approved,
                tool: Some(asker.tool),
            };
            let (policy, approvals) = (asker.policy.clone(), asker.approvals.clone());
            let context = Context { policy, approvals, is_opaque, is_standalone: false };
            self.0.add(&mut pending, request, context, asker.cancel.clone())
        };
        self.refuse_unanswerable();
        let result = answered.get().await;
        if asker.approvals.has_unsaved() {
            // Before the tool goes on: a request that the user has answered must not be asked again after a crash.
            asker.approvals.sync().await;
        }
        result.map(AllowedBy::Client)
    }

    /// Asks a question that is not about a call: no rule and no remembered answer decides it, and this one is not
    /// remembered.
    pub async fn confirm(
        &self,
        session_id: &SessionId,
        permission: &str,
        metadata: Map<String, Value>,
    ) -> Confirmation {
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
        let context = Context { is_opaque: true, is_standalone: true, ..Context::default() };
        let answered = self.0.add(&mut self.0.lock(), request, context, CancellationToken::new());
        match answered.get().await {
            Ok(_) => Confirmation::Yes,
            Err(ToolError::Cancelled { .. }) => Confirmation::Withdrawn,
            Err(_) => Confirmation::No,
        }
    }

    /// Takes back the questions to a session that are not about a call.
    pub fn withdraw_apart(&self, session_id: &SessionId) {
        for pending in self.0.take(|it| it.context.is_standalone && it.request.session_id == *session_id) {
            self.0.refuse(pending, ToolError::Cancelled { partial: None });
        }
    }

    /// Answers a pending request. The words with a rejection are for the model; those with a consent name the source
    /// that gives it in the user's place. False when there is none with this id (any more), or when its turn was
    /// cancelled.
    ///
    /// Other requests that the answer settles are settled first: a front end shows the next question when the answered one
    /// is gone, and must not show one that needs no answer.
    pub fn reply(&self, id: &PermissionId, reply: Reply, feedback: Option<String>) -> bool {
        let Some(pending) = self.0.take_answered(id) else { return false };
        let is_standalone = pending.context.is_standalone;
        match reply {
            Reply::Always if !is_standalone => {
                remember(&pending, Action::Allow);
                for other in self.0.take(|other| is_approved_since(other, &pending)) {
                    self.allow(other, Reply::Always, None);
                }
                self.allow(pending, Reply::Always, feedback);
            }
            Reply::Once | Reply::Always => self.allow(pending, Reply::Once, feedback),
            Reply::Reject | Reply::RejectAlways if is_standalone => self.deny(pending, None),
            Reply::Reject | Reply::RejectAlways => {
                if reply == Reply::RejectAlways {
                    remember(&pending, Action::Deny);
                }
                let session_id = &pending.request.session_id;
                // The question about a host comes from a program that runs already, so no call is taken back for it.
                let is_of_call =
                    |it: &Pending| !it.context.is_standalone && it.request.permission != REACH_HOST;
                let is_other = |it: &Pending| is_of_call(it) && it.request.session_id == *session_id;
                let others = if is_of_call(&pending) { self.0.take(is_other) } else { Vec::new() };
                for other in others {
                    self.deny(other, None);
                }
                self.deny(pending, feedback.filter(|text| !text.trim().is_empty()));
            }
        }
        true
    }

    /// Rejects the requests of sessions that no client holds which could answer.
    pub fn refuse_unanswerable(&self) {
        for pending in self.0.take_unanswerable() {
            let PermissionRequest { permission, patterns, .. } = &pending.request;
            tracing::warn!(
                permission,
                ?patterns,
                "nobody can be asked any more, so the call is refused; allow it by configuration"
            );
            self.deny(pending, None);
        }
    }

    /// Returns the requests that wait.
    pub fn pending(&self) -> &PendingTable<PermissionRequest> {
        &self.0
    }

    /// Lets a request wait that no tool makes, for tests.
    pub fn pretend(&self, request: PermissionRequest) {
        let context = Context::default();
        std::mem::forget(self.0.add(&mut self.0.lock(), request, context, CancellationToken::new()));
    }

    fn allow(&self, pending: Pending, reply: Reply, by: Option<String>) {
        let event = replied(&pending.request, reply);
        self.0.settle(pending, event, Ok(by.filter(|name| !name.trim().is_empty())));
    }

    fn deny(&self, pending: Pending, feedback: Option<String>) {
        self.0.refuse(pending, ToolError::Denied { feedback });
    }
}

/// Decides without the user where that can be. Else the answers that were given before are brought up to date.
async fn before_question(asker: &Asker<'_>, ask: &Ask, is_opaque: bool) -> Result<Before, ToolError> {
    let is_allowed = is_settled(asker, ask, &[], is_opaque)?;
    let opinion = match asker.plugins.filter(|host| host.declares(plugin_opinion::HOOK)) {
        Some(host) => {
            plugin_opinion::ask(host, asker.session_id, &asker.tool, asker.policy, ask, is_allowed).await?
        }
        None => Opinion::None,
    };
    let before = match opinion {
        Opinion::Allow => Before::Allowed,
        Opinion::Ask => Before::AskedByPlugin,
        Opinion::None if is_allowed => Before::Allowed,
        Opinion::None => Before::Asked,
    };
    if before != Before::Allowed {
        asker.approvals.sync().await;
    }
    Ok(before)
}

/// State of a request before a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Allowed,
    Asked,
    /// A plugin wants it asked although the rules allow it.
    AskedByPlugin,
}

/// Returns true if rules and remembered answers allow a request, false if it must be asked.
fn is_settled(asker: &Asker<'_>, ask: &Ask, answers: &[Rule], is_opaque: bool) -> Result<bool, ToolError> {
    match permission::evaluate_all(ask, asker.policy, answers) {
        Verdict::Allow => Ok(!is_opaque),
        Verdict::Ask => Ok(false),
        Verdict::Deny { rules } => Err(ToolError::Forbidden(permission::denied_message(&rules))),
    }
}

/// Returns true if this request of the same project would not be asked any more now that the other one was answered.
fn is_approved_since(pending: &Pending, answered: &Pending) -> bool {
    let PermissionRequest { permission, patterns, .. } = &pending.request;
    let Context { policy, approvals, is_opaque, .. } = &pending.context;
    if *is_opaque || pending.is_cancelled() || !approvals.is_same(&answered.context.approvals) {
        return false;
    }
    let answers = approvals.rules();
    let is_allowed = |pattern| permission::resolve(permission, pattern, policy, &answers) == Action::Allow;
    patterns.iter().all(|pattern| is_allowed(pattern))
}

fn replied(request: &PermissionRequest, reply: Reply) -> EventPayload {
    EventPayload::PermissionReplied {
        session_id: request.session_id.clone(),
        request_id: request.id.clone(),
        reply,
    }
}

fn remember(pending: &Pending, action: Action) {
    let PermissionRequest { permission, always, .. } = &pending.request;
    let rule = |pattern: &String| Rule { permission: permission.clone(), pattern: pattern.clone(), action };
    pending.context.approvals.remember(always.iter().map(rule).collect());
}

#[cfg(test)]
mod tests;
