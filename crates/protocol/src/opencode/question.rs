//! Questions of a tool to the user, and their answers (facts: OpenCode §1.5, §5.9).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    id::{QuestionId, SessionId},
    permission::ToolRef,
};

/// One or more questions that are asked together and wait for the user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionRequest {
    pub id: QuestionId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub questions: Vec<Question>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// The wish of an MCP server that the questions stand for; no part of OpenCode's form.
    #[serde(skip)]
    pub wish: Option<Arc<ServerWish>>,
}

/// A form or a page of an MCP server, for front ends that can show it as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerWish {
    /// The server's words, with its name.
    pub message: String,
    pub wanted: ServerWanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerWanted {
    /// A flat object of this JSON schema; each property has a question, in their order.
    Form(Value),
    /// A page to open. The id names it when it is done with.
    Page { id: String, url: String },
}

/// A question with the offered answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
}
