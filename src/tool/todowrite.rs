//! Replaces the session's todo list.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::session::{Todo, TodoPriority, TodoStatus};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments, object};
use crate::permission::Ask;

/// The new list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The whole list in order; it replaces the previous one.
    pub todos: Vec<Item>,
}

/// One entry.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// What is to be done, in a few words.
    pub content: String,
    /// pending, in_progress, completed or cancelled.
    pub status: String,
    /// high, medium or low.
    pub priority: String,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("todowrite", input)?;
    let todos: Vec<Todo> = args.todos.into_iter().map(todo).collect();
    cx.host
        .ask(Ask {
            permission: "todowrite".to_owned(),
            patterns: vec!["*".to_owned()],
            always: vec!["*".to_owned()],
            metadata: object(json!({ "todos": todos })),
        })
        .await?;
    cx.host.set_todos(todos.clone()).await?;
    let n_open = todos.iter().filter(|todo| todo.status != TodoStatus::Completed).count();
    let internal = |error: serde_json::Error| ToolError::Internal(format!("encode todos: {error}"));
    Ok(ToolOutput {
        title: format!("{n_open} todos"),
        output: serde_json::to_string_pretty(&todos).map_err(internal)?,
        metadata: object(json!({ "todos": todos })),
        attachments: Vec::new(),
    })
}

fn todo(item: Item) -> Todo {
    // Models spell these freely; the meaning is plain, so a spelling must not cost a round.
    let word = |text: &str| text.trim().to_lowercase().replace(['-', ' '], "_");
    Todo {
        content: item.content,
        status: match word(&item.status).as_str() {
            "in_progress" | "active" | "doing" => TodoStatus::InProgress,
            "completed" | "complete" | "done" => TodoStatus::Completed,
            "cancelled" | "canceled" => TodoStatus::Cancelled,
            _other => TodoStatus::Pending,
        },
        priority: match word(&item.priority).as_str() {
            "high" => TodoPriority::High,
            "low" => TodoPriority::Low,
            _other => TodoPriority::Medium,
        },
    }
}

#[cfg(test)]
mod tests;
