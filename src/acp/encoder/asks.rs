//! Questions to the client's user: put before them, taken back, and put again before a client that comes back.

use serde::Serialize;
use windlass_protocol::{
    opencode::{id::SessionId, permission::PermissionRequest, question::QuestionRequest},
    rpc,
};
use windlass_protocol_acp::schema::{
    CompleteElicitationNotification, ElicitationId, RequestPermissionRequest,
};

use super::{Encoder, Sink};
use crate::acp::{
    dialog::{Dialog, QuestionMessage},
    permissions::{Asked, AskedId, Request},
    to_proto,
};

impl Encoder {
    pub(super) fn ask(&mut self, root: &SessionId, request: &PermissionRequest, out: &mut Sink<'_>) {
        // If the client is gone, the engine refuses the request itself.
        let can_be_shown = !self.permissions.is_unanswerable();
        if can_be_shown && self.permissions.ask(root, Asked::Permission(request.clone())) {
            self.show_ask(root, out);
        }
    }

    pub(super) fn ask_question(&mut self, root: &SessionId, request: &QuestionRequest, out: &mut Sink<'_>) {
        // If the client is gone, the engine has refused the question already.
        let can_be_shown = !self.permissions.is_unanswerable();
        let dialog = Dialog::new(request.clone(), &self.client);
        if can_be_shown && self.permissions.ask(root, Asked::Question(dialog)) {
            self.show_ask(root, out);
        }
    }

    /// Takes a settled question off the client's screen and shows the next one.
    pub(super) fn settle(&mut self, id: &AskedId, out: &mut Sink<'_>) {
        let settled = self.permissions.settle(id);
        let (is_last, session_id) = (settled.next.is_none(), settled.session_id);
        if let Some(rpc_id) = settled.withdrawn {
            withdraw(rpc_id, out);
        }
        // The next one may be settled as well, with its news on the way.
        let is_over = settled.next.map_or(is_last, |next| !self.show_ask(&next, out));
        if let Some(session_id) = session_id.filter(|_| is_over) {
            self.set_waiting(&session_id, false, out);
        }
    }

    /// Shows the waiting questions to a client that opens the session (again): it may have forgotten them, or never
    /// have seen them.
    pub(super) fn ask_again(&mut self, root: &SessionId, children: &[SessionId], out: &mut Sink<'_>) {
        if self.permissions.is_unanswerable() {
            return;
        }
        let mut places = vec![root];
        for id in std::iter::once(root).chain(children) {
            let waiting = (out.waiting.of_session)(id);
            if !waiting.is_empty() && id != root {
                self.roots.insert(id.clone(), root.clone());
            }
            // A subagent that the client knows asks for itself.
            let place = if self.sessions.contains_key(id) { id } else { root };
            if !places.contains(&place) {
                places.push(place);
            }
            for request in waiting {
                let asked = match request {
                    Request::Permission(request) => Asked::Permission(request),
                    Request::Question(request) => Asked::Question(Dialog::new(request, &self.client)),
                };
                self.permissions.ask(place, asked);
            }
        }
        for place in places {
            if let Some(rpc_id) = self.permissions.withdraw_shown(place) {
                withdraw(rpc_id, out);
            }
            self.show_ask(place, out);
        }
    }

    /// Says that a page which the user was asked to open is done with.
    pub(super) fn page_completed(&self, id: &str, out: &mut Sink<'_>) {
        if self.client.pages {
            let completed = CompleteElicitationNotification::new(ElicitationId::new(id));
            out.lines.write(&rpc::notification("elicitation/complete", completed));
        }
    }

    /// Puts the question before the user that is the first of a session's; false if there is none.
    pub(super) fn show_ask(&mut self, root: &SessionId, out: &mut Sink<'_>) -> bool {
        let Some(cwd) = self.sessions.get(root).map(|shown| shown.cwd.clone()) else { return false };
        let Some((rpc_id, asked)) = self.permissions.show(root, out.waiting.is_waiting) else { return false };
        self.set_waiting(root, true, out);
        let choice = match asked {
            Asked::Permission(request) => {
                self.named(to_proto::permission(root, &request, &cwd), &request.session_id, root)
            }
            Asked::Question(dialog) => match dialog.show(root) {
                QuestionMessage::Choice(choice) => self.named(choice, dialog.session_id(), root),
                QuestionMessage::Form(form) => {
                    out.lines.write(&rpc::request(&rpc_id, "elicitation/create", form));
                    return true;
                }
            },
        };
        out.lines.ask(&rpc_id, choice);
        true
    }

    /// Names the subagent that asks in the session above.
    fn named(
        &self,
        mut choice: RequestPermissionRequest,
        id: &SessionId,
        root: &SessionId,
    ) -> RequestPermissionRequest {
        if let Some(above) = self.calls_above.get(id).filter(|_| id != root) {
            choice.tool_call = above.mark_update(choice.tool_call);
        }
        choice
    }
}

/// Takes a request of ours off the client's screen.
pub(super) fn withdraw(rpc_id: rpc::Id, out: &mut Sink<'_>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        request_id: rpc::Id,
    }
    out.lines.write(&rpc::notification("$/cancel_request", Params { request_id: rpc_id }));
}
