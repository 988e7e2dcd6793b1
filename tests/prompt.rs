//! Turns: streaming, order, stop reasons, parallel sessions, queued prompts, provider errors.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::support::{
    agent::Agent,
    llm::{Finish, Gate, Reply, Wire},
    message::{self, tag},
};

#[tokio::test]
async fn text_streams_in_order_under_one_message_id() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        let gate = Gate::new();
        agent.llm.reply(Reply::text("Hello ").and_gate(&gate).and_text("wide ").and_text("world."));
        let prompt = agent.send_prompt(&session, "hello");
        agent.wait_text(&session, "Hello ").await;
        assert!(!prompt.is_answered(), "the first words must be shown while the model still speaks");
        gate.open();
        let turn = prompt.turn().await;
        assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("Hello wide world.", "end_turn"));
        let ids: HashSet<&Value> =
            turn.all("agent_message_chunk").into_iter().map(|update| &update["messageId"]).collect();
        assert_eq!(ids.len(), 1);
        assert!(ids.iter().all(|id| id.as_str().is_some_and(|id| id.starts_with("msg_"))), "{ids:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn each_step_speaks_under_its_own_message_id() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one").and_call(
        "call_1",
        "read",
        json!({"filePath": agent.scratch.path("a.txt")}),
    ));
    agent.llm.reply(Reply::text("two"));
    let turn = agent.prompt(&session, "go").await;
    let ids: Vec<&Value> =
        turn.all("agent_message_chunk").into_iter().map(|update| &update["messageId"]).collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
    agent.finish().await;
}

#[tokio::test]
async fn thoughts_are_kept_apart_from_text() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::reasoning("hm ").and_reasoning("well").and_text("answer"));
        let turn = agent.prompt(&session, "think").await;
        assert_eq!((turn.thoughts().as_str(), turn.text().as_str()), ("hm well", "answer"));
        let said: Vec<&str> = turn.tags().into_iter().filter(|tag| tag.ends_with("_chunk")).collect();
        let said: Vec<&str> = said.into_iter().filter(|tag| *tag != "user_message_chunk").collect();
        assert_eq!(said, ["agent_thought_chunk", "agent_message_chunk"]);
        let id = turn.all("agent_thought_chunk")[0]["messageId"].as_str();
        assert!(id.is_some(), "a thought needs a message id too");
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_context_in_use_is_told() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    let turn = agent.prompt(&session, "hello").await;
    let usage = turn.all("usage_update");
    let last = usage.last().unwrap_or_else(|| panic!("no usage_update in {:?}", turn.tags()));
    assert_eq!(last["size"], 200_000);
    assert!(last["used"].as_u64().is_some_and(|used| (100..=110).contains(&used)), "{last}");
    agent.finish().await;
}

#[tokio::test]
async fn sessions_run_in_parallel() {
    let agent = Agent::start().await;
    let (first, second) = (agent.new_session().await, agent.new_session().await);
    let (gate_1, gate_2) = (Gate::new(), Gate::new());
    agent.llm.reply_to("alpha", Reply::text("a1 ").and_gate(&gate_1).and_text("a2"));
    agent.llm.reply_to("beta", Reply::text("b1 ").and_gate(&gate_2).and_text("b2"));
    let prompt_1 = agent.send_prompt(&first, "alpha");
    gate_1.reached().await;
    let prompt_2 = agent.send_prompt(&second, "beta");
    gate_2.reached().await;
    gate_2.open();
    assert_eq!(prompt_2.turn().await.text(), "b1 b2");
    assert!(!prompt_1.is_answered());
    gate_1.open();
    assert_eq!(prompt_1.turn().await.text(), "a1 a2");
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_to_a_busy_session_is_queued_and_answered() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("first ").and_gate(&gate));
    agent.llm.reply_to("and this", Reply::text("second"));
    let prompt_1 = agent.send_prompt(&session, "do that");
    gate.reached().await;
    let prompt_2 = agent.send_prompt(&session, "and this");
    gate.open();
    assert_eq!(prompt_1.turn().await.stop, "end_turn");
    assert_eq!(prompt_2.turn().await.stop, "end_turn");
    let said = crate::support::message::text(&agent.updates(&session), "agent_message_chunk");
    assert_eq!(said, "first second");
    agent.finish().await;
}

#[tokio::test]
async fn a_prompt_that_comes_as_a_turn_ends_is_answered() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for n in 0..20 {
        let (first, second) = (format!("first {n}"), format!("second {n}"));
        agent.llm.reply(Reply::text(&first));
        agent.llm.reply(Reply::text(&second));
        let ending = agent.send_prompt(&session, &first);
        agent.wait_text(&session, &first).await;
        let late = agent.send_prompt(&session, &second);
        assert_eq!((ending.turn().await.stop.as_str(), late.turn().await.text()), ("end_turn", second));
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_new_session_opens_while_another_turn_runs() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let gate = Gate::new();
    agent.llm.reply(Reply::text("busy").and_gate(&gate));
    let prompt = agent.send_prompt(&session, "go");
    gate.reached().await;
    agent.new_session().await;
    agent.request("session/list", json!({})).await.unwrap();
    gate.open();
    assert_eq!(prompt.turn().await.stop, "end_turn");
    agent.finish().await;
}

#[tokio::test]
async fn the_steps_limit_ends_the_turn_with_its_own_reason() {
    let config = json!({"agent": {"build": {"steps": 2}}});
    let agent = Agent::start_with(config).await;
    let session = agent.new_session().await;
    let read = |id: &str| Reply::call(id, "read", json!({"filePath": agent.scratch.path("a.txt")}));
    agent.llm.reply(read("call_1"));
    agent.llm.reply(Reply::text("this is how far I came"));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!(turn.stop, "max_turn_requests");
    assert_eq!(agent.llm.requests().len(), 2);
    agent.finish().await;
}

#[tokio::test]
async fn the_models_own_reasons_are_passed_on() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        for (finish, stop) in [(Finish::Length, "max_tokens"), (Finish::Filter, "refusal")] {
            let agent = Agent::builder().wire(wire).start().await;
            let session = agent.new_session().await;
            agent.llm.reply(Reply::text("so far").finish(finish));
            let turn = agent.prompt(&session, "go").await;
            assert_eq!((turn.stop.as_str(), turn.text().as_str()), (stop, "so far"), "{wire:?}");
            agent.finish().await;
        }
    }
}

#[tokio::test]
async fn a_model_that_pauses_is_asked_to_go_on_but_not_for_ever() {
    let agent = Agent::builder().wire(Wire::Anthropic).start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("I search").finish(Finish::Pause));
    agent.llm.reply(Reply::text(" and found it."));
    let turn = agent.prompt(&session, "go").await;
    assert_eq!((turn.text().as_str(), turn.stop.as_str()), ("I search and found it.", "end_turn"));
    // Its own words come last, so that it goes on behind them.
    let last = agent.llm.last_request().messages().pop().unwrap();
    assert_eq!((&last["role"], &last["content"][0]["text"]), (&json!("assistant"), &json!("I search")));
    let n_requests = agent.llm.requests().len();
    agent.llm.answer_with(|_| Reply::text("still ").finish(Finish::Pause));
    assert_eq!(agent.prompt(&session, "go on").await.stop, "end_turn");
    assert_eq!(agent.llm.requests().len() - n_requests, 21);
    agent.finish().await;
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off_and_the_session_goes_on() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let config = json!({"windlass": {"max_answer_bytes": 100_000}});
        let agent = Agent::builder().wire(wire).config(config).start().await;
        let session = agent.new_session().await;
        let piece = "0123456789".repeat(1_000);
        let endless = Reply::call("call_1", "read", json!({"filePath": "a.txt"})).and_reasoning(&piece);
        let endless = (0..20).fold(endless, |reply, _| reply.and_text(&piece));
        agent.llm.reply(endless);
        let turn = agent.prompt(&session, "go").await;
        assert_eq!(turn.stop, "max_tokens", "{wire:?}");
        let word = "The answer was cut off: it is larger than 100000 bytes (`windlass.max_answer_bytes`).";
        assert!(turn.text().contains(word), "{} bytes", turn.text().len());
        assert_eq!(turn.tool("call_1")["status"], "failed");
        assert!(turn.text().len() < 100_000);
        let loaded = agent.load(&session).await;
        assert!(message::text(&loaded, "agent_message_chunk").contains(word));
        agent.llm.reply(Reply::text("short"));
        assert_eq!(agent.prompt(&session, "shorter").await.text(), "short");
        let sent = agent.llm.last_request().body.to_string();
        assert!(sent.len() < 50_000 && !sent.contains(word), "{} bytes", sent.len());
        agent.finish().await;
    }
}

#[tokio::test]
async fn refused_credentials_name_the_provider_and_the_remedy() {
    for wire in [Wire::OpenAi, Wire::Anthropic] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::status(401).body(json!({"error": {"message": "bad key", "type": "auth"}})));
        let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
        assert_eq!(error.code, -32000, "{error:?}");
        assert!(error.message.to_lowercase().contains("mock"), "{error:?}");
        assert!(error.message.contains("key"), "{error:?}");
        assert!(!format!("{error:?}").contains("Bearer"), "a credential leaked: {error:?}");
        agent.llm.reply(Reply::text("now"));
        assert_eq!(agent.prompt(&session, "again").await.text(), "now");
        agent.finish().await;
    }
}

#[tokio::test]
async fn another_provider_error_says_what_failed() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let body = json!({"error": {"message": "the moon is full", "type": "invalid_request_error"}});
    agent.llm.reply(Reply::status(400).body(body));
    let error = agent.send_prompt(&session, "go").answer().await.unwrap_err();
    assert_eq!(error.code, -32603, "{error:?}");
    assert!(error.message.contains("the moon is full"), "{error:?}");
    agent.finish().await;
}

#[tokio::test]
async fn credentials_are_sent_the_way_each_wire_wants_them() {
    for (wire, header, value, path) in [
        (Wire::OpenAi, "authorization", "Bearer test", "/v1/chat/completions"),
        (Wire::Anthropic, "x-api-key", "test", "/v1/messages"),
    ] {
        let agent = Agent::builder().wire(wire).start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let request = agent.llm.last_request();
        assert_eq!((request.path.as_str(), request.header(header)), (path, Some(value)));
        agent.finish().await;
    }
}

#[tokio::test]
async fn the_model_is_told_where_it_works_and_what_the_project_says() {
    let agent = Agent::start().await;
    agent.scratch.write("AGENTS.md", "Always whistle.");
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let request = agent.llm.last_request();
    assert!(request.system().contains(agent.scratch.cwd()));
    assert!(request.system().contains("Always whistle."));
    for tool in ["bash", "edit", "glob", "grep", "read", "todowrite", "write"] {
        assert!(request.tools().contains(&tool.to_owned()), "{tool} is not offered: {:?}", request.tools());
    }
    agent.finish().await;
}

#[tokio::test]
async fn every_kind_of_content_reaches_the_model() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    let prompt = json!([
        {"type": "text", "text": "see"},
        {"type": "resource_link", "uri": format!("file://{}", agent.scratch.path("a.txt")), "name": "a.txt"},
        {"type": "resource", "resource": {"uri": "file:///elsewhere/n.txt", "text": "embedded words"}},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]);
    agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    let sent = agent.llm.last_request().body["messages"].to_string();
    for needle in ["see", "two", "embedded words", "iVBORw0KGgo="] {
        assert!(sent.contains(needle), "`{needle}` did not reach the model: {sent}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_variable_says_how_long_an_answer_may_be() {
    let limit = json!({"context": 400_000, "output": 64_000});
    let model = json!({"provider": {"mock": {"models": {"mock": {"limit": limit}}}}});
    for (named, wanted) in
        [(None, 32_000), (Some("50000"), 50_000), (Some("100000"), 64_000), (Some("x"), 32_000)]
    {
        let mut builder = Agent::builder().config(model.clone());
        if let Some(named) = named {
            builder = builder.env("OPENCODE_EXPERIMENTAL_OUTPUT_TOKEN_MAX", named);
        }
        let agent = builder.start().await;
        let session = agent.new_session().await;
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        let body = agent.llm.last_request().body;
        let sent = body.get("max_tokens").or(body.get("max_completion_tokens"));
        assert_eq!(sent, Some(&json!(wanted)), "{named:?}");
        agent.finish().await;
    }
}

#[tokio::test]
async fn updates_of_two_sessions_do_not_mix() {
    let agent = Agent::start().await;
    let (first, second) = (agent.new_session().await, agent.new_session().await);
    agent.llm.reply_to("alpha", Reply::deltas((0..200).map(|n| format!("a{n} "))));
    agent.llm.reply_to("beta", Reply::deltas((0..200).map(|n| format!("b{n} "))));
    let (prompt_1, prompt_2) = (agent.send_prompt(&first, "alpha"), agent.send_prompt(&second, "beta"));
    let expected = |letter: &str| (0..200).map(|n| format!("{letter}{n} ")).collect::<String>();
    assert_eq!(prompt_1.turn().await.text(), expected("a"));
    assert_eq!(prompt_2.turn().await.text(), expected("b"));
    assert!(agent.updates(&first).iter().all(|update| tag(update) != "tool_call"));
    agent.finish().await;
}

#[tokio::test]
async fn a_resource_given_as_data_reaches_the_model_as_text() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("ok"));
    let blob = json!({"uri": "file:///x.txt", "mimeType": "text/plain", "blob": "aGVsbG8gYmxvYg=="});
    let prompt = json!([{"type": "resource", "resource": blob}]);
    agent.request("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    assert!(agent.llm.last_request().body["messages"].to_string().contains("hello blob"));
    let empty = json!({"sessionId": session, "prompt": [{"type": "text", "text": " "}]});
    assert_eq!(agent.request("session/prompt", empty).await.unwrap_err().code, -32602);
    agent.finish().await;
}

#[tokio::test]
async fn audio_is_refused_in_words_and_nothing_of_the_prompt_is_sent() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let audio = json!({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"});
    let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": "listen"}, audio]});
    let refusal = agent.request("session/prompt", params).await.unwrap_err();
    assert_eq!(refusal.code, -32602);
    assert!(refusal.message.starts_with("audio is not supported"), "{refusal:?}");
    assert_eq!(agent.llm.requests().len(), 0);
    agent.finish().await;
}
