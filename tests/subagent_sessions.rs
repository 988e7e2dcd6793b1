//! Subagents as sessions of their own, for a client that shows such.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Reply, task},
    message::tag,
};

/// Returns the client's view of a subagent: each kind of update in its order, chunks of one kind as one.
fn kinds(updates: &[Value]) -> Vec<String> {
    let mut kinds: Vec<String> = updates.iter().map(|update| tag(update).to_owned()).collect();
    kinds.dedup();
    kinds
}

async fn open(permission: Value) -> (Agent, String) {
    let agent = Agent::builder().config(json!({ "permission": permission })).spawn().await;
    agent.initialize_with(json!({"subagents": {}})).await;
    let session = agent.new_session().await;
    (agent, session)
}

fn announced(updates: &[Value]) -> Vec<&Value> {
    updates.iter().filter(|update| tag(update) == "subagent_update").collect()
}

#[tokio::test]
async fn a_subagent_is_announced_before_its_updates_which_a_load_shows_again() {
    let (agent, session) = open(json!({})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    let told = announced(&turn.updates);
    let child = told[0]["sessionId"].as_str().unwrap();
    assert_eq!(told[0]["state"]["state"], "running");
    assert!(told[0]["title"].as_str().unwrap().ends_with("(@general subagent)"));
    assert_eq!(told.last().unwrap()["state"]["state"], "idle");
    // Its calls keep their ids and are not shown above.
    assert_eq!(turn.all("tool_call").len(), 1);
    let live = agent.updates(child);
    assert_eq!(
        kinds(&live),
        [
            "user_message_chunk",
            "tool_call",
            "tool_call_update",
            "usage_update",
            "agent_message_chunk",
            "usage_update"
        ]
    );
    assert!(live.iter().any(|update| update["toolCallId"] == "call_1" && update["status"] == "completed"));
    let lines = agent.lines();
    let first = lines.iter().position(|line| line.message["params"]["sessionId"] == child).unwrap();
    let told =
        lines.iter().position(|line| tag(&line.message["params"]["update"]) == "subagent_update").unwrap();
    assert!(told < first, "{told} {first}");

    let again = agent.successor().spawn().await;
    again.initialize_with(json!({"subagents": {}})).await;
    let loaded = again.load(&session).await;
    let told = announced(&loaded);
    assert_eq!((told.len(), &told[0]["sessionId"]), (1, &json!(child)));
    assert_eq!((&told[0]["title"], &told[0]["state"]["state"]), (&turn_title(&turn.updates), &json!("idle")));
    let text = |updates: &[Value]| {
        let chunks = updates.iter().filter(|update| tag(update) == "agent_message_chunk");
        chunks.map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!(text(&again.updates(child)), text(&live));
    again.finish_beside(&agent).await;
    agent.finish().await;
}

fn turn_title(updates: &[Value]) -> Value {
    announced(updates)[0]["title"].clone()
}

#[tokio::test]
async fn a_subagent_asks_in_its_own_session() {
    let (agent, session) = open(json!({"bash": "ask"})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_ne!(ask.params["sessionId"], json!(session));
    assert_eq!((&ask.call()["toolCallId"], &ask.call()["title"]), (&json!("call_9"), &json!("touch made")));
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    assert!(agent.scratch.exists("made"));
    // Its cost is the user's, its window is its own.
    let child = ask.params["sessionId"].as_str().unwrap();
    assert!(agent.updates(child).iter().any(|update| tag(update) == "usage_update"));
    agent.finish().await;
}
