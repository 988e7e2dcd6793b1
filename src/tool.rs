//! The tools: one table of rows, each a name, a text for the model, a schema and a function.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    part::FilePart,
    permission::Rule,
    session::Todo,
};

use crate::{config::Config, permission::Ask};

pub mod arguments;
pub mod bash;
pub mod edit;
pub mod edit_match;
#[cfg(test)]
pub(crate) mod fake;
mod file;
pub mod glob;
pub mod grep;
pub mod invalid;
pub mod list;
pub mod mcp;
mod path;
pub mod read;
pub mod todowrite;
mod truncate;
mod walk;
pub mod write;

use arguments::schema_of;

/// Every tool that is always there, in the order OpenCode registers them.
pub static BUILTIN: &[Tool] = &[
    Tool {
        name: "invalid",
        text: include_str!("tool/invalid.txt"),
        schema: schema_of::<invalid::Args>,
        run: |cx, input| Box::pin(invalid::run(cx, input)),
    },
    Tool {
        name: "bash",
        text: include_str!("tool/bash.txt"),
        schema: schema_of::<bash::Args>,
        run: |cx, input| Box::pin(bash::run(cx, input)),
    },
    Tool {
        name: "read",
        text: include_str!("tool/read.txt"),
        schema: schema_of::<read::Args>,
        run: |cx, input| Box::pin(read::run(cx, input)),
    },
    Tool {
        name: "glob",
        text: include_str!("tool/glob.txt"),
        schema: schema_of::<glob::Args>,
        run: |cx, input| Box::pin(glob::run(cx, input)),
    },
    Tool {
        name: "grep",
        text: include_str!("tool/grep.txt"),
        schema: schema_of::<grep::Args>,
        run: |cx, input| Box::pin(grep::run(cx, input)),
    },
    Tool {
        name: "list",
        text: include_str!("tool/list.txt"),
        schema: schema_of::<list::Args>,
        run: |cx, input| Box::pin(list::run(cx, input)),
    },
    Tool {
        name: "edit",
        text: include_str!("tool/edit.txt"),
        schema: schema_of::<edit::Args>,
        run: |cx, input| Box::pin(edit::run(cx, input)),
    },
    Tool {
        name: "write",
        text: include_str!("tool/write.txt"),
        schema: schema_of::<write::Args>,
        run: |cx, input| Box::pin(write::run(cx, input)),
    },
    Tool {
        name: "todowrite",
        text: include_str!("tool/todowrite.txt"),
        schema: schema_of::<todowrite::Args>,
        run: |cx, input| Box::pin(todowrite::run(cx, input)),
    },
];

/// The built-in tool of that name.
pub fn find(name: &str) -> Option<&'static Tool> {
    BUILTIN.iter().find(|tool| tool.name == name)
}

/// The permission that decides whether a tool is shown and may run.
pub fn permission_name(tool: &str) -> &str {
    match tool {
        "edit" | "write" | "apply_patch" | "patch" | "multiedit" => "edit",
        other => other,
    }
}

/// Runs a tool and cuts what it hands to the model to the configured size.
pub async fn execute(tool: &Tool, cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let tool_output = (tool.run)(cx, input).await?;
    truncate::apply(cx, tool_output).await
}

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
    /// Like [`Host::ask`] for what may turn out to be anything: also asks when the rules allow the patterns but would
    /// ask about or deny something else.
    fn ask_any(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>>;
    /// The rules that hold for the call, and the user's remembered answers.
    fn rules(&self) -> (Vec<Rule>, Vec<Rule>);
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
    /// The turn was cancelled; with what the tool had to say until then.
    #[error("{}", partial.as_deref().unwrap_or("Tool execution aborted"))]
    Cancelled { partial: Option<String> },
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

/// Runs blocking work on a thread where it holds up nobody.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(ToolError::Internal(format!("a blocking task ended early: {error}"))),
    }
}

/// The fields of an object literal.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _other => Map::new(),
    }
}

#[cfg(test)]
mod tests;
