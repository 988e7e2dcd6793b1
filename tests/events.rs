//! OpenCode's own events as notifications, for clients that ask for them.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    message::tag,
};

async fn listening(wanted: Value) -> Agent {
    let config = json!({"permission": {"bash": "ask"}});
    let agent = Agent::builder().config(config).answering(Answer::AllowOnce).spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": wanted}})).await;
    agent
}

/// Returns a turn with text, a todo list and a command that asks.
async fn turn(agent: &Agent) -> String {
    let session = agent.new_session().await;
    let todos = json!([{"content": "one", "status": "pending", "priority": "high"}]);
    agent.llm.reply(Reply::text("first ").and_call("call_1", "todowrite", json!({"todos": todos})));
    agent.llm.reply(Reply::call("call_2", "bash", json!({"command": "true"})));
    agent.llm.reply(Reply::deltas(["all ", "done"]));
    agent.prompt(&session, "go").await;
    session
}

fn events(agent: &Agent) -> Vec<Value> {
    let lines = agent.lines();
    let is_event = |line: &&crate::support::agent::wire::Line| line.message["method"] == "_windlass/event";
    lines.iter().filter(is_event).map(|line| line.message["params"]["event"].clone()).collect()
}

#[tokio::test]
async fn a_client_that_asks_gets_every_event() {
    let agent = listening(json!(true)).await;
    let session = turn(&agent).await;
    let events = events(&agent);
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    for name in [
        "message.updated",
        "message.part.updated",
        "message.part.delta",
        "session.status",
        "todo.updated",
        "permission.asked",
        "permission.replied",
    ] {
        assert!(names.contains(&name), "`{name}` is missing in {names:?}");
    }
    for event in &events {
        assert_eq!(event["properties"]["sessionID"], session.as_str(), "{event}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_list_of_names_selects() {
    let agent = listening(json!(["permission.asked", "todo.updated", "no.such.event"])).await;
    turn(&agent).await;
    let events = events(&agent);
    let names: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(names, ["todo.updated", "permission.asked"]);
    agent.finish().await;
}

#[tokio::test]
async fn nobody_else_gets_any() {
    for wanted in [json!(false), json!([]), json!("yes"), Value::Null] {
        let agent = listening(wanted).await;
        turn(&agent).await;
        assert_eq!(events(&agent), Vec::<Value>::new());
        agent.finish().await;
    }
}

#[tokio::test]
async fn payloads_are_opencodes() {
    let agent = listening(json!(true)).await;
    let session = turn(&agent).await;
    let events = events(&agent);
    let first = |name: &str| &events.iter().find(|event| event["type"] == name).unwrap()["properties"];

    let delta = first("message.part.delta");
    assert!(delta["messageID"].as_str().unwrap().starts_with("msg_"));
    assert!(delta["partID"].as_str().unwrap().starts_with("prt_"));
    assert_eq!((&delta["field"], &delta["delta"]), (&json!("text"), &json!("first ")));

    let asked = first("permission.asked");
    assert!(asked["id"].as_str().unwrap().starts_with("per_"));
    assert_eq!((&asked["permission"], &asked["patterns"]), (&json!("bash"), &json!(["true"])));
    assert_eq!(asked["tool"]["callID"], "call_2");

    let replied = first("permission.replied");
    assert_eq!((&replied["requestID"], &replied["reply"]), (&asked["id"], &json!("once")));

    let message = first("message.updated");
    assert_eq!((&message["info"]["role"], &message["info"]["sessionID"]), (&json!("user"), &json!(session)));

    let todos = first("todo.updated");
    assert_eq!(todos["todos"][0]["content"], "one");
    agent.finish().await;
}

#[tokio::test]
async fn events_and_updates_come_in_one_order() {
    let agent = listening(json!(["message.part.delta", "permission.asked"])).await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("said").and_call("call_1", "bash", json!({"command": "true"})));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "go").await;
    let mut order: Vec<&str> = Vec::new();
    let lines = agent.lines();
    for line in lines.iter().filter(|line| line.from_agent) {
        let message = &line.message;
        let name = match message["method"].as_str() {
            Some("_windlass/event") => message["params"]["event"]["type"].as_str().unwrap(),
            Some("session/request_permission") => "request",
            Some("session/update") if tag(&message["params"]["update"]) == "agent_message_chunk" => "chunk",
            None if message["result"]["stopReason"].is_string() => "response",
            _ => continue,
        };
        order.push(name);
    }
    let position = |name: &str| order.iter().position(|found| *found == name).unwrap();
    assert_eq!(position("chunk").abs_diff(position("message.part.delta")), 1, "{order:?}");
    assert_eq!(position("permission.asked").abs_diff(position("request")), 1, "{order:?}");
    assert_eq!(order.last(), Some(&"response"), "{order:?}");
    agent.finish().await;
}
