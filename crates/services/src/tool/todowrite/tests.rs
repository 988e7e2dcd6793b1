//! The list is replaced as a whole, with lenient spelling.

use serde_json::{Value, json};

use crate::tool::fake::{Project, one};

#[tokio::test]
async fn the_list_is_shown_and_kept() {
    let project = Project::new();
    let output = project
        .output(
            "todowrite",
            json!({ "todos": [
                { "content": "one", "status": "pending", "priority": "high", "id": "1" },
                { "content": "two", "status": "In Progress", "priority": "urgent" },
                { "content": "three", "status": "completed", "priority": "low" },
                { "content": "four", "status": "todo", "priority": "medium" },
            ] }),
        )
        .await;
    let todos = json!([
        { "content": "one", "status": "pending", "priority": "high" },
        { "content": "two", "status": "in_progress", "priority": "medium" },
        { "content": "three", "status": "completed", "priority": "low" },
        { "content": "four", "status": "pending", "priority": "medium" },
    ]);
    assert_eq!(output.title, "3 todos");
    assert!(output.output.starts_with("[\n  {\n    \"content\": \"one\",\n    \"status\": \"pending\",\n"));
    assert_eq!(serde_json::from_str::<Value>(&output.output).expect("json"), todos);
    assert_eq!(Value::Object(output.metadata), json!({ "todos": todos, "truncated": false }));
    assert_eq!(json!(*project.host.todos.lock().expect("not poisoned")), todos);
    assert_eq!(project.asked(), [one("todowrite", "*")]);
}

#[tokio::test]
async fn a_status_that_means_nothing_is_a_mistake() {
    let project = Project::new();
    let todos = json!({ "todos": [{ "content": "a", "status": "bogus", "priority": "low" }] });
    let error = project.error("todowrite", todos).await;
    assert!(
        error.contains("`todos.0.status` is \"bogus\", which is none of pending, in_progress"),
        "{error}"
    );
    assert!(error.contains("Expected schema: "), "{error}");
    assert!(project.asked().is_empty() && project.host.todos.lock().expect("not poisoned").is_empty());
}

#[tokio::test]
async fn nothing_is_kept_when_refused() {
    let mut project = Project::new();
    project.deny("todowrite");
    let todos = json!({ "todos": [{ "content": "a", "status": "pending", "priority": "low" }] });
    project.run("todowrite", todos).await.expect_err("refused");
    assert!(project.host.todos.lock().expect("not poisoned").is_empty());
}
