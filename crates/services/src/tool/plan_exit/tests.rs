//! Only a clear yes carries a plan out; anything else is a rejection.

use serde_json::json;

use crate::tool::{ToolError, fake::Project};

#[tokio::test]
async fn a_yes_lets_the_build_agent_take_over() {
    let mut project = Project::new();
    project.host.answers = Ok(vec![vec!["Yes".to_owned()]]);
    let output = project.output("plan_exit", json!({})).await;
    assert_eq!(output.title, "Switching to build agent");
    let switch = project.host.switched.lock().unwrap().clone().unwrap();
    assert_eq!(switch.agent, "build");
    assert!(switch.message.contains("/project/.opencode/plans/1-plan.md"), "{}", switch.message);
}

#[tokio::test]
async fn anything_else_is_a_rejection() {
    for answers in [vec![vec!["No".to_owned()]], Vec::new()] {
        let mut project = Project::new();
        project.host.answers = Ok(answers);
        assert_eq!(project.run("plan_exit", json!({})).await, Err(ToolError::Dismissed));
        assert_eq!(*project.host.switched.lock().unwrap(), None);
    }
}
