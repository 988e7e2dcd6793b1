//! Prompts for a session at work: words for the turn that runs, and prompts that wait, listed, changed and withdrawn.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Answer, requests::Pending},
    llm::{Gate, Reply},
};

fn steer(agent: &Agent, session: &str, text: &str) -> Pending {
    let prompt = json!([{"type": "text", "text": text}]);
    agent.send_request("_session/steering", json!({"sessionId": session, "prompt": prompt}))
}

/// Begins a turn whose first step calls a tool behind the gate.
async fn at_work(agent: &Agent, session: &str) -> (Pending, Gate) {
    let gate = Gate::new();
    agent.llm.reply(Reply::text("working").and_gate(&gate).and_call(
        "call_1",
        "bash",
        json!({"command": "true"}),
    ));
    let prompt = agent.send_prompt(session, "work");
    gate.reached().await;
    (prompt, gate)
}

async fn waiting(agent: &Agent, session: &str) -> Vec<Value> {
    let listed = agent.request("_windlass/queue/list", json!({"sessionId": session})).await.unwrap();
    listed["prompts"].as_array().unwrap().clone()
}

/// Returns the words of the user in the last request, in order.
fn said(agent: &Agent) -> Vec<String> {
    let messages = agent.llm.last_request().messages();
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].to_string()).collect()
}

#[tokio::test]
async fn it_is_advertised() {
    let agent = Agent::builder().spawn().await;
    let answer = agent.initialize().await;
    assert_eq!(answer["_meta"]["steering"], json!({"supported": true}));
    let meta = &answer["agentCapabilities"]["_meta"];
    assert_eq!(
        (&meta["claudeCode"]["promptQueueing"], &meta["windlass/queue"]),
        (&json!(true), &json!(true))
    );
    agent.finish().await;
}

#[tokio::test]
async fn words_for_the_turn_that_runs_enter_at_the_next_step() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let (prompt, gate) = at_work(&agent, &session).await;
    let steers = [steer(&agent, &session, "STEER one"), steer(&agent, &session, "STEER two")];
    assert_eq!(waiting(&agent, &session).await.len(), 2);
    assert!(steers.iter().all(|it| !it.is_answered()));
    agent.llm.reply(Reply::text("as you say"));
    gate.open();
    let turn = prompt.turn().await;
    assert_eq!((turn.stop.as_str(), turn.tool("call_1")["status"].as_str()), ("end_turn", Some("completed")));
    assert!(turn.text().ends_with("as you say"));
    for steer in &steers {
        assert_eq!(steer.answer().await.unwrap(), json!({"outcome": "injected"}));
    }
    // All that waited is read together, behind the result of the tool.
    let said = said(&agent);
    assert!(said.len() == 3 && said[1].contains("STEER one") && said[2].contains("STEER two"), "{said:?}");
    assert_eq!(agent.llm.requests().len(), 2);
    assert!(waiting(&agent, &session).await.is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn words_that_come_with_the_last_step_keep_the_turn_from_ending() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("the end").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "work");
    gate.reached().await;
    let steered = steer(&agent, &session, "not yet");
    waiting(&agent, &session).await;
    agent.llm.reply(Reply::text("more"));
    gate.open();
    assert!(prompt.turn().await.text().ends_with("more"));
    assert_eq!(steered.answer().await.unwrap(), json!({"outcome": "injected"}));
    agent.finish().await;
}

#[tokio::test]
async fn an_idle_session_begins_a_turn_or_says_that_it_needs_a_prompt() {
    let agent = Agent::start().await;
    agent.allow_own_turns();
    let session = agent.new_session().await;
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "hello"}],
        "_meta": {"steering": {"idleBehavior": "promptRequired"}}});
    let answer = agent.request("_session/steering", params).await.unwrap();
    assert_eq!(answer, json!({"outcome": "promptRequired", "reason": "noRunningTurn"}));
    assert!(agent.llm.requests().is_empty());
    agent.llm.reply(Reply::text("hello too"));
    assert_eq!(
        steer(&agent, &session, "hello").answer().await.unwrap(),
        json!({"outcome": "startedNewTurn"})
    );
    agent.wait_text(&session, "hello too").await;
    agent.finish().await;
}

#[tokio::test]
async fn words_wait_for_an_open_question() {
    let agent = Agent::asking("bash").await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "true"})));
    agent.llm.reply(Reply::text("as you say"));
    let prompt = agent.send_prompt(&session, "work");
    let ask = agent.permission().await;
    let steered = steer(&agent, &session, "STEER");
    assert_eq!(waiting(&agent, &session).await[0]["delivery"], "steer");
    assert!(!steered.is_answered());
    agent.answer(&ask, Answer::AllowOnce);
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert_eq!(steered.answer().await.unwrap(), json!({"outcome": "injected"}));
    agent.finish().await;
}

#[tokio::test]
async fn prompts_that_wait_are_listed_changed_and_withdrawn() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let (prompt, gate) = at_work(&agent, &session).await;
    let queued = ["first", "second", "third"].map(|text| agent.send_prompt(&session, text));
    let listed = waiting(&agent, &session).await;
    let texts: Vec<&str> = listed.iter().map(|it| it["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["first", "second", "third"]);
    assert!(listed.iter().all(|it| it["delivery"] == "queue"));
    let named = |idx: usize, change: Value| {
        let mut params = json!({"sessionId": session, "id": listed[idx]["id"]});
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        params
    };
    let words = json!({"prompt": [{"type": "text", "text": "FIRST, better"}]});
    agent.request("_windlass/queue/change", named(0, words)).await.unwrap();
    agent.request("_windlass/queue/withdraw", named(1, json!({}))).await.unwrap();
    assert_eq!(queued[1].turn().await.stop, "cancelled");
    agent.request("_windlass/queue/change", named(2, json!({"delivery": "steer"}))).await.unwrap();
    let texts: Vec<Value> = waiting(&agent, &session).await.iter().map(|it| it["text"].clone()).collect();
    assert_eq!(texts, ["FIRST, better", "third"]);
    agent.request("_windlass/queue/change", named(2, json!({"position": 0}))).await.unwrap();
    let refused = agent.request("_windlass/queue/change", named(2, json!({"position": "up"}))).await;
    assert!(refused.unwrap_err().message.contains("`position` must be a number"));
    let texts: Vec<Value> = waiting(&agent, &session).await.iter().map(|it| it["text"].clone()).collect();
    assert_eq!(texts, ["third", "FIRST, better"]);

    agent.llm.reply(Reply::text("with the third"));
    agent.llm.reply(Reply::text("the first"));
    gate.open();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    assert_eq!(queued[2].turn().await.stop, "end_turn");
    assert_eq!(queued[0].turn().await.stop, "end_turn");
    let said = said(&agent).join("\n");
    let order = ["work", "third", "FIRST, better"].map(|words| said.find(words).unwrap());
    assert!(order.is_sorted() && !said.contains("second"), "{said}");

    for method in ["withdraw", "change"] {
        let change = named(0, json!({"delivery": "queue"}));
        let gone = agent.request(&format!("_windlass/queue/{method}"), change).await.unwrap_err();
        assert!(gone.code == -32002 && gone.message.contains("may have begun"), "{}", gone.message);
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_cancel_ends_the_turn_and_what_waits_for_it() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let (prompt, gate) = at_work(&agent, &session).await;
    let steered = steer(&agent, &session, "STEER");
    waiting(&agent, &session).await;
    agent.cancel(&session);
    assert_eq!(prompt.turn().await.stop, "cancelled");
    assert_eq!(steered.answer().await.unwrap(), json!({"outcome": "failed"}));
    gate.abandoned().await;
    assert!(waiting(&agent, &session).await.is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn what_cannot_be_steered_is_said() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let text = json!([{"type": "text", "text": "hi"}]);
    for (params, code, wanted) in [
        (json!({"sessionId": session, "prompt": []}), -32602, "empty"),
        (json!({"sessionId": session, "prompt": [{"type": "text", "text": " "}]}), -32602, "empty"),
        (json!({"sessionId": session}), -32602, "`prompt`"),
        (json!({"sessionId": "ses_none", "prompt": text}), -32002, "not open"),
        (json!({"sessionId": 7, "prompt": text}), -32602, "expected a string"),
        (
            json!({"sessionId": session, "prompt": text, "_meta": {"steering": {"idleBehavior": "wait"}}}),
            -32602,
            "idleBehavior",
        ),
    ] {
        let refused = agent.request("_session/steering", params.clone()).await.unwrap_err();
        assert!(refused.code == code && refused.message.contains(wanted), "{params}: {}", refused.message);
    }
    for (method, params, code) in [
        ("list", json!({"sessionId": "ses_none"}), -32002),
        ("withdraw", json!({"sessionId": session, "id": "12"}), -32002),
        ("withdraw", json!({"sessionId": session, "id": "what"}), -32602),
        ("change", json!({"sessionId": session, "id": "12"}), -32602),
        ("change", json!({"sessionId": session, "id": "12", "delivery": "now"}), -32602),
    ] {
        let refused = agent.request(&format!("_windlass/queue/{method}"), params.clone()).await.unwrap_err();
        assert_eq!(refused.code, code, "{method} {params}: {}", refused.message);
    }
    assert!(agent.llm.requests().is_empty());
    agent.finish().await;
}

#[tokio::test]
async fn a_thousand_steers_and_their_cancels_leave_nothing_behind() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let (prompt, gate) = at_work(&agent, &session).await;
    for round in 0..10 {
        let steers: Vec<Pending> =
            (0..100).map(|n| steer(&agent, &session, &format!("steer {round} {n}"))).collect();
        assert_eq!(waiting(&agent, &session).await.len(), 100);
        for waits in waiting(&agent, &session).await {
            let params = json!({"sessionId": session, "id": waits["id"]});
            agent.request("_windlass/queue/withdraw", params).await.unwrap();
        }
        for steer in steers {
            assert_eq!(steer.answer().await.unwrap(), json!({"outcome": "failed"}));
        }
    }
    assert!(waiting(&agent, &session).await.is_empty());
    agent.llm.reply(Reply::text("undisturbed"));
    gate.open();
    assert!(prompt.turn().await.text().ends_with("undisturbed"));
    assert_eq!(said(&agent).len(), 1);
    agent.finish().await;
}

#[tokio::test]
async fn a_turn_begun_by_steering_is_answered_by_the_chosen_model_and_its_failure_is_told() {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"_meta": {"windlass/events": ["session.idle"]}})).await;
    agent.allow_own_turns();
    let session = agent.new_session().await;
    let model = json!({"sessionId": session, "configId": "model", "value": "mock/other"});
    agent.request("session/set_config_option", model).await.unwrap();
    agent.llm.reply(Reply::text("from the other"));
    steer(&agent, &session, "hello").answer().await.unwrap();
    agent.wait_text(&session, "from the other").await;
    agent.wait_for("the end", |it| it["params"]["event"]["type"] == "session.idle").await;
    assert_eq!(agent.llm.last_request().body["model"], "other");
    agent.llm.reply(Reply::status(400).body(json!({"error": {"message": "no such thing"}})));
    assert_eq!(
        steer(&agent, &session, "again").answer().await.unwrap(),
        json!({"outcome": "startedNewTurn"})
    );
    agent
        .has_update(&session, "the failure", |it| {
            it["content"]["text"].as_str().is_some_and(|text| text.contains("no such thing"))
        })
        .await;
    agent.finish().await;
}
