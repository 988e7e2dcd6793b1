//! Shows the session's todo list to the model.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{
    session::{Todo, TodoStatus},
    tool_metadata::{Todos, encode},
};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments};

/// The tool takes no arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let Args {} = arguments("todoread", input)?;
    cx.host
        .ask(Ask {
            permission: "todoread".to_owned(),
            patterns: vec!["*".to_owned()],
            always: vec!["*".to_owned()],
            metadata: Map::new(),
        })
        .await?;
    listed(&cx.host.todos())
}

/// Formats the list for both tools.
pub(super) fn listed(todos: &[Todo]) -> Result<ToolOutput, ToolError> {
    let n_open = todos.iter().filter(|todo| todo.status != TodoStatus::Completed).count();
    let internal = |error: serde_json::Error| ToolError::Internal(format!("encode todos: {error}"));
    Ok(ToolOutput {
        title: format!("{n_open} todos"),
        output: serde_json::to_string_pretty(todos).map_err(internal)?,
        metadata: encode(&Todos { todos: Cow::Borrowed(todos) }),
        attachments: Vec::new(),
    })
}

#[cfg(test)]
mod tests;
