//! Questions of a tool to the user, and their answers (facts: OpenCode §1.5, §5.9).

use serde::{Deserialize, Serialize};

use super::{
    id::{QuestionId, SessionId},
    permission::ToolRef,
};

/// One or more questions that are asked together and wait for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionRequest {
    pub id: QuestionId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub questions: Vec<Question>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
}

/// A question with the answers that are offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The whole question.
    pub question: String,
    /// A few words for a narrow place.
    pub header: String,
    pub options: Vec<QuestionOption>,
    /// Several options may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// False when only the options may be answered; else the user may also write an answer of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
}

impl Question {
    /// Whether several options may be chosen.
    pub fn is_multiple(&self) -> bool {
        self.multiple == Some(true)
    }

    /// Whether the user may write an answer of their own.
    pub fn takes_custom(&self) -> bool {
        self.custom != Some(false)
    }
}

/// An answer that is offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
}
