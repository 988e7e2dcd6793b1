//! Subagents: their work, their questions and their end are seen under the task call of the session that started them.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Gate, Reply},
    message::tag,
};

fn task(prompt: &str, agent: &str) -> Value {
    json!({"description": "look around", "prompt": prompt, "subagent_type": agent})
}

/// The id of the child session in a task's result.
fn child_of(result: &str) -> String {
    result.split('"').nth(1).unwrap().to_owned()
}

async fn asking() -> Agent {
    let config = json!({"permission": {"bash": "ask"}});
    Agent::builder().config(config).spawn().await.initialized().await
}

#[tokio::test]
async fn a_subagent_answers_its_task_and_its_calls_are_seen() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(result.contains("state=\"completed\"") && result.contains("found it"), "{result}");
    let child = child_of(&result);
    let call = turn.tool("call_1");
    assert_eq!((&call["kind"], &call["status"]), (&json!("think"), &json!("completed")));
    assert_eq!(call["rawOutput"]["metadata"]["sessionId"], child.as_str());
    let inside = turn.tool(&format!("{child}/call_1"));
    assert_eq!((&inside["title"], &inside["status"]), (&json!("echo inside"), &json!("completed")));
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_question_reaches_the_client() {
    for (answer, status) in [(Answer::AllowOnce, "completed"), (Answer::RejectOnce, "failed")] {
        let agent = asking().await;
        let session = agent.new_session().await;
        agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
        agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
        if status == "completed" {
            agent.llm.reply_to("CHILD", Reply::text("made it"));
        }
        agent.llm.reply_to("go", Reply::text("done"));
        let prompt = agent.send_prompt(&session, "go");
        let ask = agent.permission().await;
        assert_eq!(ask.params["sessionId"], session.as_str());
        assert_eq!(ask.call()["title"], "touch made");
        assert!(ask.call()["toolCallId"].as_str().unwrap().ends_with("/call_9"));
        agent.answer(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!(turn.text(), "done");
        assert_eq!(turn.tool("call_1")["status"], status);
        assert_eq!(agent.scratch.exists("made"), status == "completed");
        agent.finish().await;
    }
}

#[tokio::test]
async fn subagents_of_one_step_work_side_by_side_and_ask_one_by_one() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply_to(
        "go",
        Reply::call("call_1", "task", task("FIRST", "general")).and_call(
            "call_2",
            "task",
            task("SECOND", "general"),
        ),
    );
    for name in ["FIRST", "SECOND"] {
        agent.llm.reply_to(name, Reply::call("call_9", "bash", json!({"command": format!("touch {name}")})));
        agent.llm.reply_to(name, Reply::text("made"));
    }
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    for _ in 0..2 {
        let ask = agent.permission().await;
        agent.answer(&ask, Answer::AllowOnce);
    }
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "done");
    assert!(agent.scratch.exists("FIRST") && agent.scratch.exists("SECOND"));
    agent.finish().await;
}

#[tokio::test]
async fn cancelling_the_turn_ends_its_subagents() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::hang(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.cancel(&session);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    assert_eq!(turn.tool("call_1")["status"], "failed");
    gate.abandoned().await;
    agent.llm.reply_to("again", Reply::text("works"));
    assert_eq!(agent.prompt(&session, "again").await.text(), "works");
    agent.finish().await;
}

#[tokio::test]
async fn a_pending_question_of_a_subagent_is_taken_back_with_the_turn() {
    let agent = asking().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    assert_eq!(prompt.turn().await.stop, "cancelled");
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_may_start_another_only_as_deep_as_configured() {
    for depth in [1, 2] {
        let config = json!({
            "subagent_depth": depth,
            "agent": {"digger": {"mode": "subagent", "permission": {"task": "allow"}}},
        });
        let agent = Agent::builder().config(config).spawn().await.initialized().await;
        let session = agent.new_session().await;
        agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "digger")));
        agent.llm.reply_to("CHILD", Reply::call("call_2", "task", task("GRANDCHILD", "general")));
        if depth == 2 {
            agent.llm.reply_to("GRANDCHILD", Reply::text("deep"));
        }
        agent.llm.reply_to("CHILD", Reply::text("back"));
        agent.llm.reply_to("go", Reply::text("done"));
        assert_eq!(agent.prompt(&session, "go").await.text(), "done");
        let results: Vec<String> =
            agent.llm.requests().iter().map(|request| request.body["messages"].to_string()).collect();
        let wanted = if depth == 2 { "deep" } else { "Subagent depth limit reached (1)" };
        assert!(results.iter().any(|result| result.contains(wanted)), "{results:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn what_a_mode_may_not_do_its_subagents_may_not_either() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let config = json!({"filePath": agent.scratch.path("new.txt"), "content": "x"});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "explore")));
    agent.llm.reply_to("CHILD", Reply::call("call_2", "write", config));
    agent.llm.reply_to("CHILD", Reply::text("could not"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    assert!(!agent.scratch.exists("new.txt"));
    agent.finish().await;
}

#[tokio::test]
async fn a_task_goes_on_with_its_memory() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD one", "general")));
    agent.llm.reply_to("CHILD one", Reply::text("remembered"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let child = child_of(&agent.llm.last_request().tool_result("call_1"));
    let mut more = task("CHILD two", "general");
    more["task_id"] = json!(child);
    agent.llm.reply_to("more", Reply::call("call_2", "task", more));
    agent.llm.reply_to("CHILD two", Reply::text("went on"));
    agent.llm.reply_to("more", Reply::text("done"));
    agent.prompt(&session, "more").await;
    assert_eq!(child_of(&agent.llm.last_request().tool_result("call_2")), child);
    let asked: Vec<String> =
        agent.llm.requests().iter().map(|request| request.body["messages"].to_string()).collect();
    assert!(asked.iter().any(|it| it.contains("CHILD two") && it.contains("remembered")));
    agent.finish().await;
}

#[tokio::test]
async fn a_load_shows_the_subagents_calls_again() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let live = agent.prompt(&session, "go").await.updates;
    let replayed = agent.load(&session).await;
    let calls = |updates: &[Value]| -> Vec<Value> {
        let calls = updates.iter().filter(|update| tag(update) == "tool_call");
        calls.map(|update| update["toolCallId"].clone()).collect()
    };
    assert_eq!(calls(&live), calls(&replayed));
    assert_eq!(calls(&live).len(), 2);
    // Subagents' sessions are not conversations of the user's.
    let listed = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn an_unknown_subagent_is_named_to_the_model() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "nobody")));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let result = agent.llm.last_request().tool_result("call_1");
    assert!(result.contains("Unknown agent type: nobody is not a valid agent type"), "{result}");
    agent.finish().await;
}
