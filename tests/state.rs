//! State that a daemon stores and reads again: keys, the model used last, and the wire it traced.

use serde_json::{Value, json};

use crate::support::agent::Agent;
use crate::support::llm::Reply;

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
