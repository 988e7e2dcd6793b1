//! Questions of tools to the user, and their answers.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_base::ids;
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{QuestionId, SessionId},
    permission::ToolRef,
    question::{Question, QuestionRequest, ServerWish},
};
use windlass_services::tool::{Answers, ToolError};

use super::{
    client::{Answerable, Clients},
    pending::{PendingTable, Request},
};

/// The answer for the model where no user can be reached.
pub const NOBODY: &str = "Nobody can be asked: there is no user who could answer in this run. \
                      Decide by yourself, go on, and say in your answer what you assumed.";

/// The questions that wait. Cloning it shares it.
#[derive(Clone)]
pub struct Questions(PendingTable<QuestionRequest>);

impl Request for QuestionRequest {
    type Id = QuestionId;
    type Context = ();
    type Answer = Answers;
    const ANSWERABLE: Answerable = Answerable::Everything;

    fn id(&self) -> &QuestionId {
        &self.id
    }

    fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    fn asked(&self) -> EventPayload {
        EventPayload::QuestionAsked(self.clone())
    }

    fn refused(&self) -> EventPayload {
        EventPayload::QuestionRejected { session_id: self.session_id.clone(), request_id: self.id.clone() }
    }
}

impl Questions {
    pub fn new(bus: Bus, clients: Clients) -> Self {
        Self(PendingTable::new(bus, clients))
    }

    /// Refuses the questions of sessions that no client holds which could answer.
    pub fn refuse_unanswerable(&self) {
        for pending in self.0.take_unanswerable() {
            self.0.refuse(pending, ToolError::Model(NOBODY.to_owned()));
        }
    }

    /// Ends with the user's answers, one list for each question. `wish` is the server's that they stand for,
    /// if one does; `cancel` is cancelled with the turn.
    pub async fn ask(
        &self,
        session_id: &SessionId,
        tool: ToolRef,
        questions: Vec<Question>,
        wish: Option<Arc<ServerWish>>,
        cancel: &CancellationToken,
    ) -> Result<Answers, ToolError> {
        if !self.0.is_answerable(session_id) {
            return Err(ToolError::Model(NOBODY.to_owned()));
        }
        let request = QuestionRequest {
            id: ids::question(),
            session_id: session_id.clone(),
            questions,
            tool: Some(tool),
            wish,
        };
        let answered = self.0.add(&mut self.0.lock(), request, (), cancel.clone());
        answered.get().await
    }

    /// Answers a pending question; missing answers count as not given, surplus ones are dropped. False when none with
    /// this id waits (any more).
    pub fn reply(&self, id: &QuestionId, mut answers: Answers) -> bool {
        let Some(pending) = self.0.take_answered(id) else { return false };
        answers.resize(pending.request.questions.len(), Vec::new());
        let event = EventPayload::QuestionReplied {
            session_id: pending.request.session_id.clone(),
            request_id: id.clone(),
            answers: answers.clone(),
        };
        self.0.settle(pending, event, Ok(answers));
        true
    }

    /// Notes that the user does not want to answer. False when none with this id waits (any more).
    pub fn reject(&self, id: &QuestionId) -> bool {
        let Some(pending) = self.0.take_answered(id) else { return false };
        self.0.refuse(pending, ToolError::Dismissed);
        true
    }

    /// Notes that the user neither answers nor declines. False when none with this id waits (any more).
    pub fn close(&self, id: &QuestionId) -> bool {
        let Some(pending) = self.0.take_answered(id) else { return false };
        self.0.refuse(pending, ToolError::Cancelled { partial: None });
        true
    }

    /// Returns the questions that wait.
    pub fn pending(&self) -> &PendingTable<QuestionRequest> {
        &self.0
    }
}

#[cfg(test)]
mod tests;
