//! Questions to the client's user: put before them, taken back, and put again before a client that comes back.

use serde::Serialize;
use windlass_protocol::{
    opencode::{id::SessionId, permission::PermissionRequest, question::QuestionRequest},
    rpc,
};

use super::Encoder;
use crate::acp::{
    dialog::{Dialog, Shown},
    lines,
    permissions::{Asked, AskedId},
    to_proto,
};

impl Encoder {
    pub(super) fn ask(&mut self, root: &SessionId, request: &PermissionRequest, out: &mut Vec<u8>) {
        // Where the client is gone, the engine refuses the request itself.
        let can_be_shown = !self.permissions.is_unanswerable();
        if can_be_shown && self.permissions.ask(root, Asked::Permission(request.clone())) {
            self.show_ask(root, out);
        }
    }

    pub(super) fn ask_question(&mut self, root: &SessionId, request: &QuestionRequest, out: &mut Vec<u8>) {
        // Where the client is gone, the engine has refused the question already.
        let can_be_shown = !self.permissions.is_unanswerable();
        let dialog = Dialog::new(request.clone(), self.client.forms);
        if can_be_shown && self.permissions.ask(root, Asked::Question(dialog)) {
            self.show_ask(root, out);
        }
    }

    /// Takes a settled question off the client's screen and shows the next one.
    pub(super) fn settle(&mut self, id: &AskedId, out: &mut Vec<u8>) {
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
    pub(super) fn ask_again(&mut self, root: &SessionId, children: &[SessionId], out: &mut Vec<u8>) {
        if self.permissions.is_unanswerable() {
            return;
        }
        for id in std::iter::once(root).chain(children) {
            let permissions = self.engine.pending_permissions(id).into_iter().map(Asked::Permission);
            let questions = self.engine.pending_questions(id).into_iter();
            let questions = questions.map(|it| Asked::Question(Dialog::new(it, self.client.forms)));
            let waiting: Vec<Asked> = permissions.chain(questions).collect();
            if !waiting.is_empty() && id != root {
                self.roots.insert(id.clone(), root.clone());
            }
            for asked in waiting {
                self.permissions.ask(root, asked);
            }
        }
        if let Some(rpc_id) = self.permissions.unshow(root) {
            withdraw(rpc_id, out);
        }
        self.show_ask(root, out);
    }

    pub(super) fn show_ask(&self, root: &SessionId, out: &mut Vec<u8>) {
        let Some(shown) = self.sessions.get(root) else { return };
        let is_waiting = |asked: &AskedId| match asked {
            AskedId::Permission(id) => self.engine.is_permission_waiting(id),
            AskedId::Question(id) => self.engine.is_question_waiting(id),
        };
        let Some((rpc_id, asked)) = self.permissions.show(root, is_waiting) else { return };
        let choice = match asked {
            Asked::Permission(request) => to_proto::permission(root, &request, &shown.cwd),
            Asked::Question(dialog) => match dialog.show(root) {
                Shown::Choice(choice) => choice,
                Shown::Form(form) => {
                    return lines::write(&rpc::request(&rpc_id, "elicitation/create", form), out);
                }
            },
        };
        lines::write(&rpc::request(&rpc_id, "session/request_permission", choice), out);
    }
}

/// Takes a request of ours off the client's screen.
fn withdraw(rpc_id: rpc::Id, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        request_id: rpc::Id,
    }
    lines::write(&rpc::notification("$/cancel_request", Params { request_id: rpc_id }), out);
}
