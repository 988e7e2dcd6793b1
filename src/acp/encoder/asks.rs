//! Questions to the client's user: put before them, taken back, and put again before a client that comes back.

use serde::Serialize;
use windlass_protocol::{
    opencode::{id::SessionId, permission::PermissionRequest, question::QuestionRequest},
    rpc,
};

use super::{Encoder, Sink};
use crate::acp::{
    dialog::{Dialog, Shown},
    lines,
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
        let dialog = Dialog::new(request.clone(), self.client.forms);
        if can_be_shown && self.permissions.ask(root, Asked::Question(dialog)) {
            self.show_ask(root, out);
        }
    }

    /// Takes a settled question off the client's screen and shows the next one.
    pub(super) fn settle(&mut self, id: &AskedId, out: &mut Sink<'_>) {
        let settled = self.permissions.settle(id);
        if let Some(rpc_id) = settled.withdrawn {
            withdraw(rpc_id, out);
        }
        if let Some(session_id) = settled.next {
            self.show_ask(&session_id, out);
        }
    }

    /// Puts the questions that wait before a client that opens the session (again): it may have forgotten them, or never
    /// have seen them.
    pub(super) fn ask_again(&mut self, root: &SessionId, children: &[SessionId], out: &mut Sink<'_>) {
        if self.permissions.is_unanswerable() {
            return;
        }
        for id in std::iter::once(root).chain(children) {
            let waiting = (out.waiting.of_session)(id);
            if !waiting.is_empty() && id != root {
                self.roots.insert(id.clone(), root.clone());
            }
            for request in waiting {
                let asked = match request {
                    Request::Permission(request) => Asked::Permission(request),
                    Request::Question(request) => Asked::Question(Dialog::new(request, self.client.forms)),
                };
                self.permissions.ask(root, asked);
            }
        }
        if let Some(rpc_id) = self.permissions.withdraw_shown(root) {
            withdraw(rpc_id, out);
        }
        self.show_ask(root, out);
    }

    pub(super) fn show_ask(&mut self, root: &SessionId, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get(root) else { return };
        let Some((rpc_id, asked)) = self.permissions.show(root, out.waiting.is_waiting) else { return };
        let choice = match asked {
            Asked::Permission(request) => to_proto::permission(root, &request, &shown.cwd),
            Asked::Question(dialog) => match dialog.show(root) {
                Shown::Choice(choice) => choice,
                Shown::Form(form) => {
                    return lines::write(&rpc::request(&rpc_id, "elicitation/create", form), out.lines);
                }
            },
        };
        lines::write(&rpc::request(&rpc_id, "session/request_permission", choice), out.lines);
    }
}

/// Takes a request of ours off the client's screen.
fn withdraw(rpc_id: rpc::Id, out: &mut Sink<'_>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        request_id: rpc::Id,
    }
    lines::write(&rpc::notification("$/cancel_request", Params { request_id: rpc_id }), out.lines);
}
