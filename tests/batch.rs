//! A batch: each of its calls is seen, asked about and answered by itself.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::Reply,
    message::{Turn, tag},
};

async fn batching(permission: Value) -> (Agent, String) {
    let config = json!({"experimental": {"batch_tool": true}, "permission": permission});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    (agent, session)
}

fn call(tool: &str, parameters: Value) -> Value {
    json!({"tool": tool, "parameters": parameters})
}

fn batch(calls: &[Value]) -> Reply {
    Reply::call("call_1", "batch", json!({"tool_calls": calls}))
}

/// Returns the ids of the calls that the batch made, in order.
fn made(turn: &Turn) -> Vec<String> {
    let calls = turn.updates.iter().filter(|update| tag(update) == "tool_call");
    let ids = calls.map(|update| update["toolCallId"].as_str().unwrap().to_owned());
    ids.filter(|id| id != "call_1").collect()
}

#[tokio::test]
async fn every_call_is_seen_and_answers_by_itself() {
    let (agent, session) = batching(json!({})).await;
    agent.scratch.write("a.txt", "alpha\n");
    agent.llm.reply(batch(&[
        call("read", json!({"filePath": "a.txt"})),
        call("Bash", json!({"command": "echo inside"})),
        call("read", json!({"filePath": "missing.txt"})),
    ]));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.text(), "done");
    let made = made(&turn);
    let seen: Vec<(String, String)> = made
        .iter()
        .map(|id| turn.tool(id))
        .map(|call| (call["kind"].as_str().unwrap().to_owned(), call["status"].as_str().unwrap().to_owned()))
        .collect();
    let wanted = [("read", "completed"), ("execute", "completed"), ("read", "failed")];
    assert_eq!(seen, wanted.map(|(kind, status)| (kind.to_owned(), status.to_owned())));
    assert_eq!(turn.tool("call_1")["title"], "Batch execution (2/3 successful)");
    let request = agent.llm.last_request();
    assert!(request.tool_result("call_1").starts_with("Executed 2/3 tools successfully. 1 failed."));
    assert!(request.tool_result(&made[0]).contains("alpha"));
    assert!(request.tool_result(&made[1]).contains("inside"));
    assert!(request.tool_result(&made[2]).contains("File not found"));
    // A load shows the same calls again.
    let replayed = agent.load(&session).await;
    let again = replayed.iter().filter(|update| tag(update) == "tool_call");
    assert_eq!(again.count(), 4);
    agent.finish().await;
}

#[tokio::test]
async fn the_calls_run_side_by_side() {
    let (agent, session) = batching(json!({})).await;
    // Each waits for the other: one after another they would never end.
    let meet = |mine: &str, other: &str| {
        let wait = format!(
            "mkfifo {mine} {other} 2>/dev/null; (echo x > {mine}) & read _ < {other}; wait; echo met"
        );
        call("bash", json!({"command": wait, "timeout": 10_000}))
    };
    agent.llm.reply(batch(&[meet("one", "two"), meet("two", "one")]));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.tool("call_1")["title"], "Batch execution (2/2 successful)");
    agent.finish().await;
}

#[tokio::test]
async fn each_call_asks_for_itself_and_a_refusal_ends_the_turn() {
    let (agent, session) = batching(json!({"bash": "ask"})).await;
    agent.llm.reply(batch(&[
        call("bash", json!({"command": "touch one"})),
        call("bash", json!({"command": "touch two"})),
    ]));
    let prompt = agent.send_prompt(&session, "go");
    // Either may be the one that asks first.
    let first = agent.permission().await;
    agent.answer(&first, Answer::AllowOnce);
    let second = agent.permission().await;
    agent.answer(&second, Answer::RejectOnce);
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "end_turn");
    let asked = [&first, &second].map(|ask| ask.call()["toolCallId"].as_str().unwrap().to_owned());
    assert_eq!(
        asked.clone().map(|id| turn.tool(&id)["status"].clone()),
        [json!("completed"), json!("failed")]
    );
    assert!(asked[0] != asked[1] && !asked.contains(&"call_1".to_owned()));
    let is_made = [&first, &second].map(|ask| {
        let command = ask.call()["title"].as_str().unwrap();
        agent.scratch.exists(command.strip_prefix("touch ").unwrap())
    });
    assert_eq!(is_made, [true, false]);
    assert_eq!(agent.llm.requests().len(), 1, "the model was asked again after a refusal");
    agent.finish().await;
}

#[tokio::test]
async fn what_a_rule_denies_or_hides_is_denied_in_a_batch_too() {
    let (agent, session) =
        batching(json!({"bash": {"*": "allow", "rm *": "deny"}, "webfetch": "deny"})).await;
    agent.scratch.write("kept.txt", "x");
    agent.llm.reply(batch(&[
        call("bash", json!({"command": "rm kept.txt"})),
        call("webfetch", json!({"url": "http://localhost/"})),
        call("batch", json!({"tool_calls": []})),
        call("nonsense", json!({})),
    ]));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert!(agent.scratch.exists("kept.txt"));
    let request = agent.llm.last_request();
    let told: Vec<String> = made(&turn).iter().map(|id| request.tool_result(id)).collect();
    assert!(told[0].contains("specified a rule which prevents you"), "{told:?}");
    assert!(told[1].contains("Tool 'webfetch' not in registry"), "{told:?}");
    assert!(told[2].contains("Tool 'batch' is not allowed in batch"), "{told:?}");
    assert!(told[3].contains("External tools (MCP, environment) cannot be batched"), "{told:?}");
    assert_eq!(turn.tool("call_1")["title"], "Batch execution (0/4 successful)");
    agent.finish().await;
}

#[tokio::test]
async fn the_eleventh_call_fails_and_does_not_run() {
    let (agent, session) = batching(json!({})).await;
    let calls: Vec<Value> =
        (1..=11).map(|n| call("bash", json!({"command": format!("touch made_{n}")}))).collect();
    agent.llm.reply(batch(&calls));
    agent.llm.reply(Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert!(agent.scratch.exists("made_10") && !agent.scratch.exists("made_11"));
    let made = made(&turn);
    assert_eq!(made.len(), 11);
    assert_eq!(turn.tool(&made[10])["rawOutput"]["error"], "Maximum of 10 tools allowed in batch");
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_every_call_of_a_batch() {
    let (agent, session) = batching(json!({})).await;
    let sleep = call("bash", json!({"command": "touch started; sleep 60"}));
    agent.llm.reply(batch(&[
        sleep,
        call("question", json!({"questions": [{"question": "Q?", "header": "h", "options": []}]})),
    ]));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    agent.cancel(&session);
    agent.withdrawn(&ask).await;
    let turn = prompt.turn().await;
    assert_eq!(turn.stop, "cancelled");
    for id in made(&turn).iter().map(String::as_str).chain(["call_1"]) {
        assert_eq!(turn.tool(id)["status"], "failed", "{id}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn the_same_call_over_and_over_is_asked_about_in_a_batch_too() {
    let (agent, session) = batching(json!({})).await;
    let same = call("bash", json!({"command": "echo again >> log"}));
    agent.llm.reply(batch(&[same.clone(), same.clone(), same]));
    agent.llm.reply(Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert!(ask.call()["title"].as_str().unwrap().starts_with("repeat bash"), "{}", ask.params);
    agent.answer(&ask, Answer::AllowOnce);
    prompt.turn().await;
    assert_eq!(agent.scratch.read("log").lines().count(), 3);
    agent.finish().await;
}
