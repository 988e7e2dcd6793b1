//! Plan mode entered and left by the model with the user's consent.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    message::tag,
};

async fn planning() -> (Agent, String) {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    (agent, session)
}

/// Returns the modes that updates name, in order.
fn modes(updates: &[Value]) -> Vec<String> {
    let modes = updates.iter().filter(|update| tag(update) == "current_mode_update");
    modes.map(|update| update["currentModeId"].as_str().unwrap().to_owned()).collect()
}

/// Returns the path of the plan file, as the reminder of the last request names it.
fn plan_file(agent: &Agent) -> String {
    let sent = agent.llm.last_request().body["messages"].to_string();
    let (_, rest) = sent.split_once("belongs into the file ").expect(&sent);
    rest.split_once(": the one file").unwrap().0.to_owned()
}

#[tokio::test]
async fn an_approved_plan_is_carried_out_by_build_in_the_same_turn() {
    let (agent, session) = planning().await;
    agent.llm.reply(Reply::text("looking"));
    agent.prompt(&session, "look around").await;
    assert!(agent.llm.last_request().tools().contains(&"plan_exit".to_owned()));
    let plan = plan_file(&agent);
    let name = plan.strip_prefix(agent.scratch.path(".opencode/plans/").as_str()).unwrap();
    assert!(name.ends_with(".md") && !name.contains('/'), "{plan}");

    let write = |path: &str| json!({"filePath": path, "content": "1. do it\n"});
    let not_yet = agent.scratch.path("too_early.txt");
    agent.llm.reply(Reply::call("call_1", "write", write(&plan)).and_call(
        "call_2",
        "write",
        write(&not_yet),
    ));
    agent.llm.reply(Reply::call("call_3", "plan_exit", json!({})));
    agent.llm.reply(Reply::call("call_4", "write", write(&agent.scratch.path("made.txt"))));
    agent.llm.reply(Reply::text("built"));
    let prompt = agent.send_prompt(&session, "plan it");
    let ask = agent.permission().await;
    assert_eq!(ask.call()["toolCallId"], "call_3");
    assert!(ask.call()["title"].as_str().unwrap().contains(&plan), "{}", ask.params);
    agent.choose(&ask, "Yes");
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "built");
    assert_eq!(turn.tool("call_1")["status"], "completed");
    assert_eq!(turn.tool("call_2")["status"], "failed");
    assert_eq!(
        (&turn.tool("call_3")["kind"], &turn.tool("call_3")["status"]),
        (&json!("switch_mode"), &json!("completed"))
    );
    assert!(!agent.scratch.exists("too_early.txt") && agent.scratch.exists("made.txt"));

    assert_eq!(modes(&turn.updates), ["build"]);
    let options = turn.all("config_option_update");
    let mode = options[0]["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "mode").unwrap();
    assert_eq!(mode["currentValue"], "build");
    let sent = agent.llm.last_request().body["messages"].to_string();
    assert!(sent.contains("The plan is approved") && sent.contains("Plan mode has ended"), "{sent}");
    assert!(!sent.contains("Plan mode is active"), "{sent}");

    // The next prompt is answered by build too, and so is the session when it is loaded again.
    agent.llm.reply(Reply::text("still build"));
    agent.prompt(&session, "more").await;
    let tools = agent.llm.last_request().tools();
    assert!(tools.contains(&"write".to_owned()) && !tools.contains(&"plan_exit".to_owned()), "{tools:?}");
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let loaded = agent.request("session/load", params).await.unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "build");
    agent.finish().await;
}

#[tokio::test]
async fn a_plan_that_is_not_approved_stays_a_plan() {
    for answer in ["No", "Dismiss"] {
        let (agent, session) = planning().await;
        agent.llm.reply(Reply::call("call_1", "plan_exit", json!({})));
        let prompt = agent.send_prompt(&session, "plan it");
        let ask = agent.permission().await;
        agent.choose(&ask, answer);
        let turn = prompt.turn().await;
        assert_eq!((turn.stop.as_str(), &turn.tool("call_1")["status"]), ("end_turn", &json!("failed")));
        assert!(modes(&turn.updates).is_empty());
        agent.llm.reply(Reply::text("still planning"));
        agent.prompt(&session, "go on").await;
        assert!(agent.llm.last_request().body["messages"].to_string().contains("Plan mode is active"));
        agent.finish().await;
    }
}

#[tokio::test]
async fn planning_starts_when_the_user_agrees() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"elicitation": {"form": {}}})).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "plan_enter", json!({})));
    agent.llm.reply(Reply::text("planning"));
    let prompt = agent.send_prompt(&session, "rebuild everything");
    let ask = agent.permission().await;
    let schema = &ask.params["requestedSchema"];
    assert_eq!(schema["required"], json!(["question_1"]));
    assert_eq!(schema["properties"].as_object().unwrap().len(), 1, "a yes or a no, nothing else: {schema}");
    agent.fill_in(&ask, json!({"action": "accept", "content": {"question_1": "Yes"}}));
    let turn = prompt.turn().await;
    assert_eq!(modes(&turn.updates), ["plan"]);
    assert!(plan_file(&agent).contains("/.opencode/plans/"));
    let tools = agent.llm.last_request().tools();
    assert!(
        tools.contains(&"plan_exit".to_owned()) && !tools.contains(&"plan_enter".to_owned()),
        "{tools:?}"
    );
    agent.finish().await;
}

#[tokio::test]
async fn a_no_to_planning_goes_on_without() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "plan_enter", json!({})));
    agent.llm.reply(Reply::text("at once"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.choose(&ask, "No");
    let turn = prompt.turn().await;
    assert_eq!(turn.text(), "at once");
    assert!(agent.llm.last_request().tool_result("call_1").contains("wants no plan"));
    assert!(modes(&turn.updates).is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn an_answer_that_was_never_offered_is_no_yes() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"elicitation": {"form": {}}})).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    for content in [json!({"question_1": "maybe"}), json!({}), json!({"question_1_other": "Yes"})] {
        agent.llm.reply(Reply::call("call_1", "plan_exit", json!({})));
        let prompt = agent.send_prompt(&session, "plan it");
        let ask = agent.permission().await;
        agent.fill_in(&ask, json!({"action": "accept", "content": content}));
        let ask = agent.permission().await;
        assert_eq!(ask.method, "session/request_permission", "{content}");
        agent.choose(&ask, "No");
        assert!(modes(&prompt.turn().await.updates).is_empty());
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_waits_follows_the_switch() {
    let (agent, session) = planning().await;
    agent.llm.reply(Reply::call("call_1", "plan_exit", json!({})));
    agent.llm.reply_to("later", Reply::text("by build"));
    agent.llm.reply(Reply::text("built"));
    let first = agent.send_prompt(&session, "plan it");
    let ask = agent.permission().await;
    let second = agent.send_prompt(&session, "later");
    agent.choose(&ask, "Yes");
    first.turn().await;
    assert!(second.turn().await.text().ends_with("by build"));
    assert!(!agent.llm.last_request().tools().contains(&"plan_exit".to_owned()));
    agent.finish().await;
}

#[tokio::test]
async fn a_yes_and_a_refusal_in_one_step_switch_and_end_the_turn() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    agent.llm.reply(Reply::call("call_1", "plan_exit", json!({})).and_call(
        "call_2",
        "bash",
        json!({"command": "touch made"}),
    ));
    let prompt = agent.send_prompt(&session, "plan it");
    // The bash call may be the one that asks first.
    for _ in 0..2 {
        let ask = agent.permission().await;
        match ask.call()["toolCallId"].as_str() {
            Some("call_1") => agent.choose(&ask, "Yes"),
            _ => agent.answer(&ask, Answer::RejectOnce),
        }
    }
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), modes(&turn.updates)), ("end_turn", vec!["build".to_owned()]));
    assert!(!agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_takes_the_question_back_and_the_mode_stays() {
    let (agent, session) = planning().await;
    agent.llm.reply(Reply::call("call_1", "plan_exit", json!({})));
    let prompt = agent.send_prompt(&session, "plan it");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), modes(&turn.updates).len()), ("cancelled", 0));
    agent.llm.reply(Reply::text("plan"));
    agent.prompt(&session, "go on").await;
    assert!(agent.llm.last_request().body["messages"].to_string().contains("Plan mode is active"));
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_shows_plans_is_shown_the_plan_until_it_is_over() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"plan": {}})).await;
    let session = agent.new_session().await;
    agent.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    agent.llm.reply(Reply::text("looking"));
    agent.prompt(&session, "look around").await;
    let plan = plan_file(&agent);
    agent.llm.reply(Reply::call("call_1", "write", json!({"filePath": plan, "content": "1. do it\n"})));
    agent.llm.reply(Reply::text("planned"));
    let turn = agent.prompt(&session, "plan it").await;
    let id = plan.rsplit('/').next().unwrap().strip_suffix(".md").unwrap();
    let shown = |text: &str| {
        let shown = json!({"type": "markdown", "planId": id, "content": text, "path": plan});
        json!({"sessionUpdate": "plan_update", "plan": shown})
    };
    assert_eq!(turn.all("plan_update"), [&shown("1. do it\n")]);

    let edit = json!({"filePath": plan, "oldString": "1. do it", "newString": "1. do it well"});
    agent.llm.reply(Reply::call("call_2", "edit", edit));
    agent.llm.reply(Reply::call("call_3", "plan_exit", json!({})));
    agent.llm.reply(Reply::text("built"));
    let prompt = agent.send_prompt(&session, "better");
    let ask = agent.permission().await;
    agent.choose(&ask, "Yes");
    let turn = prompt.turn().await;
    assert_eq!(turn.all("plan_update"), [&shown("1. do it well\n")]);
    let over = json!({"sessionUpdate": "plan_removed", "planId": id});
    assert_eq!(turn.all("plan_removed"), [&over]);

    let loaded = agent.load(&session).await;
    let plans: Vec<&Value> = loaded.iter().filter(|it| tag(it).starts_with("plan_")).collect();
    assert_eq!(plans, [&shown("1. do it\n"), &shown("1. do it well\n"), &over]);
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_shows_plans_is_shown_the_tasks_as_one_of_them() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"plan": {}})).await;
    let session = agent.new_session().await;
    let todos = json!({"todos": [
        {"content": "edit it", "status": "in_progress", "priority": "high"},
        {"content": "forget it", "status": "cancelled", "priority": "low"},
    ]});
    agent.llm.reply(Reply::call("call_1", "todowrite", todos));
    agent.llm.reply(Reply::text("listed"));
    let turn = agent.prompt(&session, "make a list").await;
    let entries = json!([{"content": "edit it", "status": "in_progress", "priority": "high"}]);
    let shown = json!({"type": "items", "planId": "todos", "entries": entries});
    assert_eq!(turn.all("plan_update")[0]["plan"], shown);
    assert!(turn.all("plan").is_empty());
    let loaded = agent.load(&session).await;
    let last = loaded.iter().rfind(|update| tag(update) == "plan_update").unwrap();
    assert_eq!(last["plan"], shown);
    agent.finish().await;
}
