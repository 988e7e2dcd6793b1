//! Only a clear yes starts planning; a no lets the work go on.

use serde_json::json;

use crate::tool::fake::Project;

#[tokio::test]
async fn a_yes_lets_the_plan_agent_take_over() {
    let mut project = Project::new();
    project.host.answers = Ok(vec![vec!["Yes".to_owned()]]);
    let output = project.output("plan_enter", json!({})).await;
    assert!(output.output.contains("/project/.opencode/plans/1-plan.md"), "{}", output.output);
    assert_eq!(project.host.switched.lock().unwrap().as_ref().unwrap().agent, "plan");
    let asked = project.host.questions.lock().unwrap();
    assert!(!asked[0].takes_custom() && asked[0].question.contains(".opencode/plans/1-plan.md"));
}

#[tokio::test]
async fn anything_else_goes_on_without_a_plan() {
    for answers in [vec![vec!["No".to_owned()]], vec![Vec::new()], Vec::new()] {
        let mut project = Project::new();
        project.host.answers = Ok(answers);
        assert!(project.error("plan_enter", json!({})).await.contains("wants no plan"));
        assert_eq!(*project.host.switched.lock().unwrap(), None);
    }
}
