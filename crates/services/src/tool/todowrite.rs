//! Replaces the session's todo list.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{
    session::{Todo, TodoPriority, TodoStatus},
    tool_metadata::{Todos, encode},
};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::{arguments, invalid},
    todoread,
};

/// The new list.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The whole list in order; it replaces the previous one.
    pub todos: Vec<Item>,
}

/// One entry.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Item {
    /// The task, in a few words.
    pub content: String,
    /// pending, in_progress, completed or cancelled.
    pub status: String,
    /// high, medium or low.
    pub priority: String,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("todowrite", input)?;
    let unknown = args.todos.iter().enumerate().find(|(_, item)| status(&item.status).is_none());
    if let Some((idx, item)) = unknown {
        let issue = format!(
            "`todos.{idx}.status` is {:?}, which is none of pending, in_progress, completed and cancelled",
            item.status
        );
        return Err(invalid("todowrite", &issue));
    }
    let todos: Vec<Todo> = args.todos.into_iter().map(todo).collect();
    cx.host
        .ask(Ask {
            permission: "todowrite".to_owned(),
            patterns: vec!["*".to_owned()],
            always: vec!["*".to_owned()],
            metadata: encode(&Todos { todos: Cow::Borrowed(&todos) }),
        })
        .await?;
    cx.host.set_todos(todos.clone()).await?;
    todoread::listed(&todos)
}

/// Normalizes a word: models spell these freely, and a spelling with a clear meaning must not cost a round.
fn word(text: &str) -> String {
    text.trim().to_lowercase().replace(['-', ' '], "_")
}

fn status(text: &str) -> Option<TodoStatus> {
    match word(text).as_str() {
        "pending" | "todo" | "open" => Some(TodoStatus::Pending),
        "in_progress" | "active" | "doing" => Some(TodoStatus::InProgress),
        "completed" | "complete" | "done" => Some(TodoStatus::Completed),
        "cancelled" | "canceled" => Some(TodoStatus::Cancelled),
        _other => None,
    }
}

fn todo(item: Item) -> Todo {
    Todo {
        content: item.content,
        status: status(&item.status).unwrap_or(TodoStatus::Pending),
        priority: match word(&item.priority).as_str() {
            "high" => TodoPriority::High,
            "low" => TodoPriority::Low,
            _other => TodoPriority::Medium,
        },
    }
}

#[cfg(test)]
mod tests;
