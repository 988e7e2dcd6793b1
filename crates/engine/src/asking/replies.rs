//! The user's answers to permission questions and to questions of tools, from whichever front end they come.

use windlass_protocol::opencode::{
    id::{PermissionId, QuestionId, SessionId},
    permission::{PermissionRequest, Reply},
    question::QuestionRequest,
};

use crate::Asking;

impl Asking<'_> {
    /// Answers a pending permission request. False when none with this id waits.
    pub fn reply_permission(self, id: &PermissionId, reply: Reply, feedback: Option<String>) -> bool {
        self.engine.0.asking.asks.reply(id, reply, feedback)
    }

    /// Returns the permission requests of a session that wait now.
    pub fn pending_permissions(self, id: &SessionId) -> Vec<PermissionRequest> {
        self.engine.0.asking.asks.pending().of_session(id)
    }

    /// Returns the permission requests of all sessions that wait now.
    pub fn all_pending_permissions(self) -> Vec<PermissionRequest> {
        self.engine.0.asking.asks.pending().all()
    }

    /// Returns the questions of all sessions' tools that wait now.
    pub fn all_pending_questions(self) -> Vec<QuestionRequest> {
        self.engine.0.asking.questions.pending().all()
    }

    /// Settles the requests and questions that no client can answer any more.
    pub(crate) fn refuse_unanswerable(self) {
        self.engine.0.asking.asks.refuse_unanswerable();
        self.engine.0.asking.questions.refuse_unanswerable();
    }

    /// Answers a tool's question. False when none with this id waits.
    pub fn reply_question(self, id: &QuestionId, answers: Vec<Vec<String>>) -> bool {
        self.engine.0.asking.questions.reply(id, answers)
    }

    /// Dismisses a tool's question. False when none with this id waits.
    pub fn reject_question(self, id: &QuestionId) -> bool {
        self.engine.0.asking.questions.reject(id)
    }

    /// Closes a server's form or page without an answer. False when none with this id waits.
    pub fn close_question(self, id: &QuestionId) -> bool {
        self.engine.0.asking.questions.close(id)
    }

    /// Returns the agent that was chosen for a session.
    pub async fn session_agent(self, id: &SessionId) -> Option<String> {
        let unknown = |error| tracing::warn!(session = %id, %error, "the agent of a session is unknown");
        self.engine.sessions().get(id).await.map_err(unknown).ok()?.agent
    }

    /// Lets a request wait that no tool makes, for tests of front ends.
    #[doc(hidden)]
    pub fn pretend_asked(self, request: PermissionRequest) {
        self.engine.0.asking.asks.pretend(request);
    }

    /// Returns true if this permission request still waits for an answer: not once it is settled or its turn
    /// cancelled.
    pub fn is_permission_waiting(self, id: &PermissionId) -> bool {
        self.engine.0.asking.asks.pending().is_waiting(id)
    }

    /// Returns true if this question of a tool still waits for an answer.
    pub fn is_question_waiting(self, id: &QuestionId) -> bool {
        self.engine.0.asking.questions.pending().is_waiting(id)
    }

    /// Returns the questions of a session's tools that wait now.
    pub fn pending_questions(self, id: &SessionId) -> Vec<QuestionRequest> {
        self.engine.0.asking.questions.pending().of_session(id)
    }
}
