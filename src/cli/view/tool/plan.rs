//! The plan of a session as a list with marks.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    session::{Todo, TodoStatus},
    tool_metadata::{Todos, decode},
};

use super::super::{
    line::{BOLD, DIM, GREEN, Line, PLAIN, YELLOW},
    look::Draw,
};

/// Returns the entries that a call of `todowrite` or `todoread` leaves.
pub fn of(input: &Value, metadata: &Map<String, Value>) -> Vec<Todo> {
    let listed = decode(metadata).or_else(|| Todos::deserialize(input).ok());
    listed.map(|listed: Todos<'_>| listed.todos.into_owned()).unwrap_or_default()
}

/// Draws a heading with the progress, and one row per entry.
pub fn listed(todos: &[Todo], draw: &Draw<'_>) -> Vec<Line> {
    let n_done = todos.iter().filter(|todo| todo.status == TodoStatus::Completed).count();
    let heading = Line::new("• ", DIM).with("Plan", BOLD);
    let mut rows = vec![heading.with(&format!("  {n_done} of {}", todos.len()), DIM)];
    for todo in todos {
        let (mark, mark_style, style) = match todo.status {
            TodoStatus::Completed => ("✓", GREEN, DIM),
            TodoStatus::InProgress => ("▸", YELLOW, BOLD),
            TodoStatus::Pending => ("○", DIM, PLAIN),
            TodoStatus::Cancelled => ("✗", DIM, DIM.strikethrough()),
        };
        let mark = Line::new("  ", PLAIN).with(mark, mark_style).with(" ", PLAIN);
        let indent = Line::new("    ", PLAIN);
        let text = Line::new(&todo.content, style).wrap(draw.width.saturating_sub(4));
        let text = text.into_iter().enumerate();
        rows.extend(text.map(|(idx, row)| row.behind(if idx == 0 { &mark } else { &indent })));
    }
    rows
}
