//! The list from todowrite is shown by todoread.

use serde_json::json;
use windlass_protocol::opencode::session::Todo;

use crate::tool::fake::{Project, one};

#[tokio::test]
async fn the_list_is_shown_as_it_was_written() {
    let project = Project::new();
    assert_eq!(project.output("todoread", json!({})).await.output, "[]");
    let todos = json!({ "todos": [
        { "content": "one", "status": "completed", "priority": "high" },
        { "content": "two", "status": "pending", "priority": "low" },
    ] });
    let written = project.output("todowrite", todos).await;
    assert_eq!(project.output("todoread", json!({})).await, written);
    assert_eq!(serde_json::from_str::<Vec<Todo>>(&written.output).expect("a list").len(), 2);
    assert_eq!(project.asked().last(), Some(&one("todoread", "*")));
}
