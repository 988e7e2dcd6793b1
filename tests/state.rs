//! State that a daemon stores and reads again: keys, the model used last, and the wire it traced.

use serde_json::{Value, json};

use crate::{
    cli::Machine,
    support::{agent::Agent, llm::Reply},
};

fn models(answer: &Value) -> Value {
    answer["configOptions"].as_array().unwrap().iter().find(|it| it["id"] == "model").unwrap().clone()
}

#[tokio::test]
async fn authenticating_reads_the_keys_again_and_a_logout_forgets_them() {
    let agent = Agent::builder().without_provider().start().await;
    let before = agent.request("session/new", agent.session_params()).await.unwrap();
    assert!(!models(&before).to_string().contains("anthropic/"));
    let data = agent.scratch.home.join(".local/share/windlass");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("auth.json"), r#"{"anthropic": {"type": "api", "key": "k"}}"#).unwrap();
    agent.request("authenticate", json!({"methodId": "windlass-key"})).await.unwrap();
    let after = agent.request("session/new", agent.session_params()).await.unwrap();
    assert!(models(&after)["currentValue"].as_str().unwrap().starts_with("anthropic/"));
    agent.request("logout", json!({})).await.unwrap();
    let refused = agent.request("session/new", agent.session_params()).await.unwrap_err();
    assert_eq!(refused.code, -32000);
    agent.request("authenticate", json!({"methodId": "windlass-key"})).await.unwrap();
    let forgotten = agent.request("session/new", agent.session_params()).await.unwrap();
    assert!(!models(&forgotten).to_string().contains("anthropic/"));
    agent.finish().await;
}

#[tokio::test]
async fn the_model_chosen_last_is_the_next_daemons_default() {
    let agent = Agent::start_with(json!({"model": null})).await;
    let session = agent.new_session().await;
    let choice = json!({"sessionId": session, "configId": "model", "value": "mock/other"});
    agent.request("session/set_config_option", choice).await.unwrap();
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let next = agent.successor().config(json!({"model": null}));
    agent.finish().await;
    let next = next.start().await;
    let (_, answer) = next.open().await;
    assert_eq!(models(&answer)["currentValue"], "mock/other");
    next.finish().await;
}

#[tokio::test]
async fn the_wire_trace_holds_both_directions() {
    let agent = Agent::builder().env("WINDLASS_TRACE", "/dev/stderr").start().await;
    agent.new_session().await;
    agent.wait_stderr("-> {\"").await;
    agent.wait_stderr("<- {\"jsonrpc\":\"2.0\",\"id\":").await;
    agent.finish().await;
}

#[tokio::test]
async fn a_recorded_trace_is_shown_a_row_for_each_message() {
    let machine = Machine::new().await;
    let trace = machine.scratch.path("windlass.trace");
    let agent = Agent::builder().env("WINDLASS_TRACE", &trace).start().await;
    agent.llm.reply(Reply::text("Hello ").and_text("world."));
    let session = agent.new_session().await;
    agent.prompt(&session, "hello").await;
    agent.finish().await;
    let shown = machine.run(&["trace", "view", &trace]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let end = &session[session.len() - 6..];
    for row in ["->        initialize #", "answered (session/new)", "  \"Hello world.\""] {
        assert!(shown.stdout.contains(row), "{row}: {}", shown.stdout);
    }
    assert!(shown.stdout.contains(&format!("-> {end} session/prompt #")), "{}", shown.stdout);
    let shown = machine.run(&["trace", "view", "missing.trace"]).await;
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(1), ""));
    assert!(shown.stderr.starts_with("missing.trace cannot be read: No such file"), "{shown:?}");
    let shown = machine.pipe(&["trace", "view", "-"], "not a trace\n").await;
    assert_eq!(shown.code, Some(1));
    assert!(shown.stderr.starts_with("Standard input holds no message of the protocol;"), "{shown:?}");
}
