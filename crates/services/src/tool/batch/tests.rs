//! Calls of a batch, and its report on them.

use serde_json::{Value, json};

use crate::tool::{NestedCall, fake::Project};

fn calls(tools: &[&str]) -> Value {
    let calls: Vec<Value> = tools.iter().map(|tool| json!({"tool": tool, "parameters": {}})).collect();
    json!({ "tool_calls": calls })
}

fn refusals(project: &Project) -> Vec<Option<String>> {
    project.host.calls.lock().unwrap().iter().map(|call| call.refusal.clone()).collect()
}

#[tokio::test]
async fn every_call_is_made_unchanged() {
    let project = Project::new();
    let input = json!({"tool_calls": [{"tool": "read", "parameters": {"filePath": "a"}}, {"tool": "list", "parameters": "{\"path\": \"b\"}"}]});
    let output = project.output("batch", input).await;
    let made = project.host.calls.lock().unwrap().clone();
    let call = |tool: &str, input: Value| NestedCall { tool: tool.to_owned(), input, refusal: None };
    assert_eq!(made, [call("read", json!({"filePath": "a"})), call("list", json!({"path": "b"}))]);
    assert_eq!(output.title, "Batch execution (2/2 successful)");
    assert!(output.output.starts_with("All 2 tools executed successfully."), "{}", output.output);
}

#[tokio::test]
async fn one_that_fails_is_counted() {
    let project = Project::new();
    let output = project.output("batch", calls(&["read", "fail"])).await;
    assert!(output.output.starts_with("Executed 1/2 tools successfully. 1 failed."), "{}", output.output);
    assert_eq!(
        output.metadata["details"],
        json!([{"tool": "read", "success": true}, {"tool": "fail", "success": false}])
    );
}

#[tokio::test]
async fn the_eleventh_call_does_not_run() {
    let project = Project::new();
    let output = project.output("batch", calls(&["read"; 11])).await;
    let mut wanted = vec![None; 10];
    wanted.push(Some("Maximum of 10 tools allowed in batch".to_owned()));
    assert_eq!(refusals(&project), wanted);
    assert_eq!(output.title, "Batch execution (10/11 successful)");
    assert!(output.output.contains("Maximum of 10 tools allowed in batch"), "{}", output.output);
}

#[tokio::test]
async fn calls_beyond_the_shown_ones_are_counted() {
    let project = Project::new();
    let output = project.output("batch", calls(&["read"; 500])).await;
    assert_eq!(refusals(&project).len(), 20);
    assert!(
        output.output.starts_with("Executed 10/500 tools successfully. 490 failed."),
        "{}",
        output.output
    );
}

#[tokio::test]
async fn a_batch_holds_no_batch() {
    let project = Project::new();
    project.output("batch", calls(&["Batch", "read"])).await;
    let refusals = refusals(&project);
    assert!(refusals[0].as_ref().unwrap().contains("not allowed in batch") && refusals[1].is_none());
    assert!(project.error("batch", calls(&[])).await.contains("at least one tool call"));
}
