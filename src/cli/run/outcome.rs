//! The outcome of a run as an object for programs: the answer, what it cost, what it changed, what was refused, and why it
//! ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_engine::Limits;
use windlass_protocol::opencode::{
    event::EventPayload,
    file_diff::FileDiff,
    id::{MessageId, PartId, SessionId},
    message::{Message, MessageError},
    part::{PartKind, ToolState},
    session::Session,
    tokens::Tokens,
    tool_metadata::{Failure, decode},
};

/// The reason that a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    EndTurn,
    MaxTokens,
    MaxSteps,
    MaxCost,
    Timeout,
    /// The model refused.
    Refusal,
    /// Something was refused to it that nobody could allow, or that was to end the run.
    Refused,
    Cancelled,
    Error,
}

impl Reason {
    /// Returns its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxSteps => "max_steps",
            Self::MaxCost => "max_cost",
            Self::Timeout => "timeout",
            Self::Refusal => "refusal",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::Error => "error",
        }
    }
}

/// Says which limit ended a turn's work.
pub fn cut_by(limits: Limits, cost: f64) -> &'static str {
    if limits.cost.is_some_and(|max| cost >= max) {
        "The work was cut: it has cost what --max-cost allows."
    } else if limits.steps.is_some() {
        "The work was cut: the steps that --max-steps or the agent allows are used up."
    } else {
        "The work was cut: the agent's `steps` are used up."
    }
}

/// What the events of a turn say about its outcome.
#[derive(Debug, Default)]
pub struct Tally {
    session_id: Option<SessionId>,
    /// Cost and tokens before the turn.
    before: (f64, Tokens),
    now: (f64, Tokens),
    answers: BTreeSet<MessageId>,
    /// The texts of the newest message that has some.
    answer: (Option<MessageId>, BTreeMap<PartId, String>),
    files: Vec<FileDiff>,
    refusals: Vec<Value>,
    error: Option<MessageError>,
}

impl Tally {
    /// Begins with a session as it is before the turn.
    pub fn of(session: &Session) -> Self {
        let before = (session.cost, session.tokens);
        Self { session_id: Some(session.id.clone()), now: before, before, ..Self::default() }
    }

    /// Returns US dollars that the turn has cost so far.
    pub fn cost(&self) -> f64 {
        self.now.0 - self.before.0
    }

    /// Returns the text of the last message.
    pub fn answer(&self) -> String {
        self.answer.1.values().map(String::as_str).collect::<Vec<_>>().join("\n\n")
    }

    /// Takes in an event.
    pub fn note(&mut self, payload: &EventPayload) {
        if let EventPayload::PartUpdated { part, .. } = payload
            && let PartKind::Tool(call) = &part.kind
            && let ToolState::Error { error, metadata: Some(metadata), input, .. } = &call.state
            && decode(metadata).is_some_and(|failure: Failure| failure.denied)
        {
            self.refusals.push(json!({"tool": call.tool, "input": input, "reason": error}));
        }
        if self.session_id.is_none() || payload.session_id() != self.session_id.as_ref() {
            return;
        }
        match payload {
            EventPayload::SessionUpdated(session) => {
                self.now = (session.info.cost, session.info.tokens);
            }
            EventPayload::SessionError { error: Some(error), .. } => self.error = Some(error.clone()),
            EventPayload::MessageUpdated { info, .. } => match &**info {
                Message::User(user) => {
                    if let Some(summary) = &user.summary {
                        self.files.clone_from(&summary.diffs);
                    }
                }
                Message::Assistant(answer) => {
                    self.answers.insert(answer.id.clone());
                    if answer.error.is_some() {
                        self.error.clone_from(&answer.error);
                    }
                }
            },
            EventPayload::PartUpdated { part, .. } => {
                let PartKind::Text(text) = &part.kind else { return };
                if !self.answers.contains(&part.message_id) || text.text.trim().is_empty() {
                    return;
                }
                if self.answer.0.as_ref() != Some(&part.message_id) {
                    self.answer = (Some(part.message_id.clone()), BTreeMap::new());
                }
                self.answer.1.insert(part.id.clone(), text.text.clone());
            }
            _ => {}
        }
    }

    /// Returns the object; `error` goes before that of the last message.
    pub fn object(&self, reason: Reason, structured: Option<&Value>, error: Option<&str>) -> Value {
        let spent = self.now.1.since(&self.before.1);
        let file = |file: &FileDiff| {
            json!({
                "file": file.file, "status": file.status, "additions": file.additions, "deletions": file.deletions,
            })
        };
        json!({
            "type": "result", "sessionID": self.session_id, "reason": reason.word(), "answer": self.answer(),
            "structured": structured, "cost": self.cost(), "tokens": spent,
            "files": self.files.iter().map(file).collect::<Vec<_>>(), "refusals": self.refusals,
            "error": error.or(self.error.as_ref().map(MessageError::message)),
        })
    }
}
