//! Subagents as sessions of their own, for a client that shows such.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer},
    llm::{Gate, Reply, task},
    message::tag,
};

/// Returns the order in which a client hears of a delegation: the session, `P` or `C`, and the update.
fn order(agent: &Agent, parent: &str) -> Vec<String> {
    let mut order = Vec::new();
    for line in agent.lines() {
        let (params, method) = (&line.message["params"], &line.message["method"]);
        let place = if params["sessionId"] == parent { "P" } else { "C" };
        let update = &params["update"];
        let word = match tag(update) {
            "subagent_update" => update["state"]["state"].as_str().unwrap_or("announced").to_owned(),
            "tool_call_update"
                if update["content"][0]["type"] == "session" && update["status"] == "in_progress" =>
            {
                "link".to_owned()
            }
            "tool_call_update" if update["status"] == "completed" => "completed".to_owned(),
            "session_message" if update["recipientSessionId"].is_string() => "sent".to_owned(),
            "session_message" => "received".to_owned(),
            "tool_call" | "agent_message_chunk" => tag(update).to_owned(),
            _ if method == "session/request_permission" => "question".to_owned(),
            _ => continue,
        };
        order.push(format!("{place} {word}"));
    }
    order
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

fn children(agent: &Agent, parent: &str) -> Vec<String> {
    let updates = agent.updates(parent);
    let mut ids: Vec<String> =
        announced(&updates).iter().map(|it| it["sessionId"].as_str().unwrap().to_owned()).collect();
    ids.dedup();
    ids
}

/// The order of a delegation with one command that nobody is asked about.
const DELEGATION: [&str; 13] = [
    "P tool_call",
    "P announced",
    "P running",
    "P link",
    "P sent",
    "C received",
    "C tool_call",
    "C completed",
    "C agent_message_chunk",
    "P received",
    "P idle",
    "P completed",
    "P agent_message_chunk",
];

#[tokio::test]
async fn a_delegation_is_shown_in_its_order_which_a_load_shows_again() {
    let (agent, session) = open(json!({})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_1", "bash", json!({"command": "echo inside"})));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(order(&agent, &session), DELEGATION);
    let child = children(&agent, &session).remove(0);
    let told = announced(&turn.updates);
    assert!(told[0]["title"].as_str().unwrap().ends_with("(@general subagent)"));
    // It may be cancelled while it works.
    assert_eq!((&told[1]["capabilities"], &told[2]["capabilities"]), (&json!({"cancel": {}}), &Value::Null));
    assert_eq!(told[2]["state"], json!({"state": "idle", "stopReason": "end_turn"}));
    let link = json!({"type": "session", "sessionId": child});
    assert_eq!(turn.tool("call_1")["content"][0], link);

    let directed = |updates: &[Value]| -> Vec<Value> {
        updates.iter().filter(|update| tag(update) == "session_message").cloned().collect()
    };
    let (above, below) = (directed(&turn.updates), directed(&agent.updates(&child)));
    let text = |message: &Value| message["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!((text(&above[0]), text(&below[0])), ("CHILD".to_owned(), "CHILD".to_owned()));
    assert_eq!(
        (&above[0]["recipientSessionId"], &below[0]["senderSessionId"]),
        (&json!(child), &json!(session))
    );
    assert_eq!((text(&above[1]), &above[1]["senderSessionId"]), ("found it".to_owned(), &json!(child)));
    // Its calls keep their ids and are not shown above.
    assert_eq!(turn.all("tool_call").len(), 1);
    let live = agent.updates(&child);
    assert!(live.iter().any(|update| update["toolCallId"] == "call_1" && update["status"] == "completed"));
    // Its cost is the user's, its window is its own.
    assert!(live.iter().any(|update| tag(update) == "usage_update"));

    let again = agent.successor().spawn().await;
    again.initialize_with(json!({"subagents": {}})).await;
    let loaded = again.load(&session).await;
    let wanted: Vec<&str> = DELEGATION.into_iter().filter(|it| *it != "P running").collect();
    assert_eq!(order(&again, &session), wanted);
    assert_eq!(directed(&loaded), above);
    assert_eq!(directed(&again.updates(&child)), below);
    // What is over cannot be cancelled.
    assert!(announced(&loaded).iter().all(|told| told.get("capabilities").is_none_or(Value::is_null)));
    again.finish_beside(&agent).await;
    agent.finish().await;
}

#[tokio::test]
async fn a_subagent_asks_in_its_own_session_and_says_that_it_waits() {
    let (agent, session) = open(json!({"bash": "ask"})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    let child = children(&agent, &session).remove(0);
    assert_eq!(ask.params["sessionId"], child.as_str());
    assert_eq!((&ask.call()["toolCallId"], &ask.call()["title"]), (&json!("call_9"), &json!("touch made")));
    agent.answer(&ask, Answer::AllowOnce);
    let turn = prompt.turn().await;
    assert!(agent.scratch.exists("made"));
    let states: Vec<&str> =
        announced(&turn.updates).iter().filter_map(|told| told["state"]["state"].as_str()).collect();
    assert_eq!(states, ["running", "requires_action", "running", "idle"]);
    let order = order(&agent, &session);
    let at = |word: &str| order.iter().position(|it| it == word).unwrap();
    assert!(at("P requires_action") < at("C question"), "{order:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_tools_question_of_a_subagent_carries_its_own_id() {
    let agent = Agent::builder()
        .config(json!({"agent": {"general": {"permission": {"question": "allow"}}}}))
        .spawn()
        .await;
    agent.initialize_with(json!({"subagents": {}, "elicitation": {"form": {}}})).await;
    let session = agent.new_session().await;
    let option = |label: &str| json!({"label": label, "description": "a way"});
    let question = json!({"questions": [
        {"question": "Which way?", "header": "Way", "options": [option("Left"), option("Right")]},
    ]});
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_2", "question", question));
    agent.llm.reply_to("CHILD", Reply::text("left"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.method, "elicitation/create");
    assert_eq!(ask.params["sessionId"], children(&agent, &session).remove(0));
    agent.fill_in(&ask, json!({"action": "accept", "content": {"question_1": "Left"}}));
    assert_eq!(prompt.turn().await.text(), "done");
    agent.finish().await;
}

#[tokio::test]
async fn one_subagent_is_cancelled_and_its_parent_and_its_siblings_go_on() {
    let (agent, session) = open(json!({})).await;
    let gates = [Gate::new(), Gate::new()];
    agent.llm.reply_to(
        "go",
        Reply::call("call_1", "task", task("FIRST", "general")).and_call(
            "call_2",
            "task",
            task("SECOND", "general"),
        ),
    );
    agent.llm.reply_to("FIRST", Reply::hang(&gates[0]));
    agent.llm.reply_to("SECOND", Reply::text("second").and_gate(&gates[1]));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    for gate in &gates {
        gate.reached().await;
    }
    let links = |it: &Value| it["content"][0]["type"] == "session" && it["toolCallId"] == "call_1";
    agent.has_update(&session, "the link", links).await;
    let first = agent.updates(&session).into_iter().find(links).unwrap();
    let first = first["content"][0]["sessionId"].as_str().unwrap().to_owned();
    agent.cancel(&first);
    gates[0].abandoned().await;
    agent
        .has_update(&session, "its end", |it| {
            it["sessionId"] == first.as_str() && it["state"]["state"] == "idle"
        })
        .await;
    gates[1].open();
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), turn.text().as_str()), ("end_turn", "done"));
    assert_eq!(
        (&turn.tool("call_1")["status"], &turn.tool("call_2")["status"]),
        (&json!("failed"), &json!("completed"))
    );
    let ends: Vec<&Value> =
        announced(&turn.updates).into_iter().filter(|it| it["state"]["state"] == "idle").collect();
    assert_eq!(
        (&ends[0]["sessionId"], &ends[0]["state"]["stopReason"]),
        (&json!(first), &json!("cancelled"))
    );
    assert_eq!(ends[1]["state"]["stopReason"], "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn a_failure_of_a_subagent_is_the_reason_of_its_end() {
    let (agent, session) = open(json!({})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::status(400).body(json!({"error": {"message": "no such thing"}})));
    agent.llm.reply_to("go", Reply::text("done"));
    let turn = agent.prompt(&session, "go").await;
    let end = announced(&turn.updates).pop().unwrap().clone();
    assert_eq!(end["state"]["stopReason"], "error");
    assert!(end["state"]["error"]["message"].as_str().unwrap().contains("no such thing"), "{end}");
    agent.finish().await;
}

#[tokio::test]
async fn a_subagents_session_takes_a_cancel_and_no_other_call() {
    let (agent, session) = open(json!({})).await;
    let gate = Gate::new();
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::text("found it").and_gate(&gate));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.has_update(&session, "the announcement", |it| tag(it) == "subagent_update").await;
    let child = children(&agent, &session).remove(0);
    let cwd = agent.scratch.cwd();
    let whole = json!({
        "sessionId": child, "cwd": cwd, "mcpServers": [], "prompt": [{"type": "text", "text": "hi"}],
        "modeId": "plan", "configId": "mode", "value": "plan", "modelId": "mock/mock", "title": "mine",
    });
    for method in [
        "prompt",
        "load",
        "resume",
        "fork",
        "close",
        "delete",
        "archive",
        "unarchive",
        "set_title",
        "set_mode",
        "set_config_option",
        "set_model",
    ] {
        let refused = agent.request(&format!("session/{method}"), whole.clone()).await.unwrap_err();
        assert_eq!(refused.code, -32600, "{method}: {}", refused.message);
        assert!(refused.message.contains("subagent"), "{method}: {}", refused.message);
    }
    agent.request("session/status", json!({"sessionId": child})).await.unwrap();
    gate.open();
    assert_eq!(prompt.turn().await.text(), "done");
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_says_it_shows_subagents_and_knows_none_of_them_is_asked_in_the_session_above() {
    let (agent, session) = open(json!({"bash": "ask"})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::call("call_10", "bash", json!({"command": "touch more"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_ne!(ask.params["sessionId"], session.as_str());
    agent.fail(&ask, -32603);
    for (call, made) in [("/call_9", "made"), ("/call_10", "more")] {
        let ask = agent.permission().await;
        assert_eq!(ask.params["sessionId"], session.as_str());
        assert!(ask.call()["toolCallId"].as_str().unwrap().ends_with(call));
        assert_eq!(ask.call()["title"], format!("general: touch {made}"));
        agent.answer(&ask, Answer::AllowOnce);
    }
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("made") && agent.scratch.exists("more"));
    agent.finish().await;
}

#[tokio::test]
async fn zed_which_reads_an_earlier_draft_sees_subagents_in_the_session_above() {
    let agent = Agent::builder().config(json!({"permission": {"bash": "ask"}})).spawn().await;
    let zed = json!({"protocolVersion": 1, "clientInfo": {"name": "zed", "version": "1.2.3"},
        "clientCapabilities": {"subagents": {}, "elicitation": {"form": {}}}});
    agent.request("initialize", zed).await.unwrap();
    let session = agent.new_session().await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let ask = agent.permission().await;
    assert_eq!(ask.params["sessionId"], session.as_str());
    assert_eq!(ask.call()["_meta"]["claudeCode"]["parentToolUseId"], "call_1");
    agent.answer(&ask, Answer::AllowOnce);
    let turn = prompt.turn().await;
    assert!(announced(&turn.updates).is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_resumes_is_told_of_the_subagent_that_works_and_asked_its_question_again() {
    let (agent, session) = open(json!({"bash": "ask"})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::call("call_9", "bash", json!({"command": "touch made"})));
    agent.llm.reply_to("CHILD", Reply::text("made it"));
    agent.llm.reply_to("go", Reply::text("done"));
    let prompt = agent.send_prompt(&session, "go");
    let first = agent.permission().await;
    let n_before = agent.updates(&session).len();
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    agent.request("session/resume", params).await.unwrap();
    agent.withdrawn(&first).await;
    let again = agent.permission().await;
    assert_eq!(again.params["sessionId"], first.params["sessionId"]);
    let updates = agent.updates(&session).split_off(n_before);
    assert_eq!(announced(&updates)[0]["sessionId"], first.params["sessionId"]);
    agent.answer(&again, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.text(), "done");
    assert!(agent.scratch.exists("made"));
    agent.finish().await;
}

#[tokio::test]
async fn a_copy_of_a_session_says_nothing_in_the_subagents_of_the_other() {
    let (agent, session) = open(json!({})).await;
    agent.llm.reply_to("go", Reply::call("call_1", "task", task("CHILD", "general")));
    agent.llm.reply_to("CHILD", Reply::text("found it"));
    agent.llm.reply_to("go", Reply::text("done"));
    agent.prompt(&session, "go").await;
    let child = children(&agent, &session).remove(0);
    let (n_above, n_below) = (agent.updates(&session).len(), agent.updates(&child).len());
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let forked = agent.request("session/fork", params).await.unwrap();
    let loaded = agent.load(forked["sessionId"].as_str().unwrap()).await;
    assert!(loaded.iter().any(|it| it["toolCallId"] == "call_1" && it["status"] == "completed"));
    assert_eq!((agent.updates(&session).len(), agent.updates(&child).len()), (n_above, n_below));
    agent.finish().await;
}
