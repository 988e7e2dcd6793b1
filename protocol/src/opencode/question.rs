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

/// A question with the offered answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The whole question.
    pub question: String,
    /// A short form for a narrow place.
    pub header: String,
    pub options: Vec<QuestionOption>,
    /// True if several options may be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// False if only the options may be chosen; otherwise the user may also write a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
}

impl Question {
    /// Returns true if several options may be chosen.
    pub fn is_multiple(&self) -> bool {
        self.multiple == Some(true)
    }

    /// Returns true if the user may write a text.
    pub fn takes_custom(&self) -> bool {
        self.custom != Some(false)
    }
}

/// An offered answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
}
