//! Questions of tools to the user that wait for an answer, by id; every client of the session may give it, the first wins.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{QuestionId, SessionId},
    permission::ToolRef,
    question::{Question, QuestionRequest},
};

use super::client::{Answerable, Clients};
use crate::{
    base::{ids, lock::lock},
    bus::Bus,
    tool::{Answers, ToolError},
};

/// What the model reads where no user can be reached.
pub const NOBODY: &str = "Nobody can be asked: there is no user who could answer in this run. \
                      Decide by yourself, go on, and say in your answer what you assumed.";

/// See the module's comment. Cloning it shares it.
#[derive(Clone)]
pub struct Questions {
    bus: Bus,
    clients: Clients,
    pending: Arc<Mutex<Vec<Pending>>>,
}

struct Pending {
    request: QuestionRequest,
    cancel: CancellationToken,
    answer: oneshot::Sender<Result<Answers, ToolError>>,
}

impl Questions {
    pub fn new(bus: Bus, clients: Clients) -> Self {
        Self { bus, clients, pending: Arc::default() }
    }

    /// Returns true if a client of the session has a user who could answer.
    pub fn is_answerable(&self, session_id: &SessionId) -> bool {
        self.clients.can_answer(session_id, Answerable::Everything)
    }

    /// Refuses the questions of sessions that no client holds which could answer.
    pub fn refuse_unanswerable(&self) {
        let is_unanswerable =
            |it: &Pending| !self.is_answerable(&it.request.session_id) && !it.cancel.is_cancelled();
        for pending in self.take(is_unanswerable) {
            self.refuse(pending, ToolError::Model(NOBODY.to_owned()));
        }
    }

    /// Ends with the user's answers, one list for each question. `cancel` is cancelled with the turn.
    pub async fn ask(
        &self,
        session_id: &SessionId,
        tool: ToolRef,
        questions: Vec<Question>,
        cancel: &CancellationToken,
    ) -> Result<Answers, ToolError> {
        if !self.is_answerable(session_id) {
            return Err(ToolError::Model(NOBODY.to_owned()));
        }
        let (answer, answered) = oneshot::channel();
        let request = QuestionRequest {
            id: ids::question(),
            session_id: session_id.clone(),
            questions,
            tool: Some(tool),
        };
        let withdrawal = Withdrawal { questions: self, id: request.id.clone() };
        lock(&self.pending).push(Pending { request: request.clone(), cancel: cancel.clone(), answer });
        self.bus.publish(EventPayload::QuestionAsked(request));
        let result = answered.await.unwrap_or(Err(ToolError::Cancelled { partial: None }));
        drop(withdrawal);
        result
    }

    /// Answers a pending question; what is missing counts as not answered, what is too much is dropped. False when
    /// none with this id waits (any more).
    pub fn reply(&self, id: &QuestionId, mut answers: Answers) -> bool {
        let Some(pending) = self.take(|pending| pending.is(id)).pop() else { return false };
        answers.resize(pending.request.questions.len(), Vec::new());
        self.bus.publish(EventPayload::QuestionReplied {
            session_id: pending.request.session_id,
            request_id: pending.request.id,
            answers: answers.clone(),
        });
        // The asking tool may have been cancelled in between.
        let _ = pending.answer.send(Ok(answers));
        true
    }

    /// Notes that the user does not want to answer. False when none with this id waits (any more).
    pub fn reject(&self, id: &QuestionId) -> bool {
        let Some(pending) = self.take(|pending| pending.is(id)).pop() else { return false };
        self.refuse(pending, ToolError::Dismissed);
        true
    }

    /// Returns the questions of a session that wait now.
    pub fn of_session(&self, id: &SessionId) -> Vec<QuestionRequest> {
        let pending = lock(&self.pending);
        let of_session = |it: &&Pending| it.request.session_id == *id && !it.cancel.is_cancelled();
        pending.iter().filter(of_session).map(|it| it.request.clone()).collect()
    }

    /// Returns true if this question still waits for an answer.
    pub fn is_waiting(&self, id: &QuestionId) -> bool {
        lock(&self.pending).iter().any(|pending| pending.is(id))
    }

    fn refuse(&self, pending: Pending, error: ToolError) {
        self.bus.publish(EventPayload::QuestionRejected {
            session_id: pending.request.session_id,
            request_id: pending.request.id,
        });
        let _ = pending.answer.send(Err(error));
    }

    fn take(&self, is_wanted: impl Fn(&Pending) -> bool) -> Vec<Pending> {
        lock(&self.pending).extract_if(.., |pending| is_wanted(pending)).collect()
    }
}

impl Pending {
    /// Returns true if this question has the id and can be answered. A cancelled turn takes its questions back
    /// as soon as its tasks run; until then no answer counts.
    fn is(&self, id: &QuestionId) -> bool {
        self.request.id == *id && !self.cancel.is_cancelled()
    }
}

/// Takes the question back when the asking tool is cancelled, so that no front end goes on showing it.
struct Withdrawal<'a> {
    questions: &'a Questions,
    id: QuestionId,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        for pending in self.questions.take(|pending| pending.request.id == self.id) {
            self.questions.refuse(pending, ToolError::Cancelled { partial: None });
        }
    }
}

#[cfg(test)]
mod tests;
