//! The tools: one table of rows, each a name, a text for the model, a schema and a function.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    part::FilePart,
    session::Todo,
};

use crate::{config::Config, permission::Ask};

/// A built-in tool.
pub struct Tool {
    pub name: &'static str,
    /// What the model reads.
    pub text: &'static str,
    /// JSON schema of the arguments.
    pub schema: fn() -> Value,
    pub run: for<'a> fn(&'a ToolCx<'a>, Value) -> BoxFuture<'a, Result<ToolOutput, ToolError>>,
}

/// What a running tool knows.
pub struct ToolCx<'a> {
    pub session_id: &'a SessionId,
    pub message_id: &'a MessageId,
    pub call_id: &'a str,
    pub agent: &'a str,
    pub config: &'a Config,
    /// Cancelled with the turn.
    pub cancel: &'a CancellationToken,
    pub host: &'a dyn Host,
}

impl ToolCx<'_> {
    /// The directory relative paths start from.
    pub fn directory(&self) -> &Path {
        &self.config.directory
    }
}

/// What a tool may ask of the engine above it.
pub trait Host: Send + Sync {
    /// Ends when every pattern is allowed; fails with the error the tool must return.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Shows how far the call has come: replaces its metadata, and its title when one is given.
    fn progress(&self, title: Option<String>, metadata: Map<String, Value>);
    /// Replaces the session's todo list.
    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>>;
    /// Tells everyone that a file was changed.
    fn edited(&self, path: &Path);
}

/// What a tool answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// One line for the user.
    pub title: String,
    /// What the model reads.
    pub output: String,
    pub metadata: Map<String, Value>,
    pub attachments: Vec<FilePart>,
}

/// Why a tool did not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The model reads this and goes on.
    #[error("{0}")]
    Model(String),
    /// The user refused; the turn stops unless there is feedback for the model.
    #[error("{}", refusal(feedback.as_deref()))]
    Denied { feedback: Option<String> },
    #[error("Tool execution aborted")]
    Cancelled,
    /// Our own fault; shown to the model, logged.
    #[error("{0}")]
    Internal(String),
}

/// What the model reads of a refusal (facts: OpenCode §4.2).
fn refusal(feedback: Option<&str>) -> String {
    match feedback {
        None => "The user rejected permission to use this specific tool call.".to_owned(),
        Some(feedback) => format!(
            "The user rejected permission to use this specific tool call with the following feedback: {feedback}"
        ),
    }
}
