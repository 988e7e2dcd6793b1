//! The option that chooses how long a model thinks: offered, chosen, kept, and sent to the model.

use serde_json::{Value, json};

use crate::support::{
    agent::{Agent, Builder},
    llm::Reply,
    transcript,
};

fn thinking() -> Builder {
    let variants = json!({"low": {"reasoningEffort": "low"}, "high": {"reasoningEffort": "high"}});
    let models = json!({
        "mock": {"variants": variants},
        "other": {"variants": {"high": {"reasoningEffort": "high"}}},
        "plain": {"name": "Plain"},
    });
    Agent::builder().config(json!({"provider": {"mock": {"models": models}}}))
}

/// Returns the option's current value and its values.
fn level(answer: &Value) -> Option<(String, Vec<String>)> {
    let options = answer["configOptions"].as_array().unwrap();
    let option = options.iter().find(|option| option["id"] == "thought_level")?;
    assert_eq!(option["category"], "thought_level");
    let values = option["options"].as_array().unwrap().iter().map(|it| it["value"].as_str().unwrap());
    Some((option["currentValue"].as_str().unwrap().to_owned(), values.map(str::to_owned).collect()))
}

async fn choose(agent: &Agent, session: &str, option: &str, value: &str) -> Value {
    let params = json!({"sessionId": session, "configId": option, "value": value});
    agent.request("session/set_config_option", params).await.unwrap()
}

#[tokio::test]
async fn a_level_is_offered_where_the_model_has_some_and_reaches_the_model() {
    let agent = thinking().start().await;
    let (session, opened) = agent.open().await;
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let offered = all(&["default", "high", "low"]);
    assert_eq!(level(&opened), Some(("default".to_owned(), offered.clone())));
    let effort = |agent: &Agent| agent.llm.last_request().body["reasoning_effort"].clone();
    for (value, sent) in [("high", json!("high")), ("low", json!("low")), ("default", Value::Null)] {
        let answer = choose(&agent, &session, "thought_level", value).await;
        assert_eq!(level(&answer), Some((value.to_owned(), offered.clone())));
        agent.llm.reply(Reply::text("ok"));
        agent.prompt(&session, "go").await;
        assert_eq!(effort(&agent), sent, "{value}");
    }
    // It holds for another model that has it, and goes with one that has none.
    choose(&agent, &session, "thought_level", "high").await;
    let answer = choose(&agent, &session, "model", "mock/other").await;
    assert_eq!(level(&answer), Some(("high".to_owned(), all(&["default", "high"]))));
    let answer = choose(&agent, &session, "model", "mock/plain").await;
    assert_eq!(level(&answer), None);
    let answer = choose(&agent, &session, "model", "mock/mock").await;
    assert_eq!(level(&answer).unwrap().0, "default");
    for (option, value) in [("thought_level", "hihg"), ("thought_level", "")] {
        let params = json!({"sessionId": session, "configId": option, "value": value});
        let error = agent.request("session/set_config_option", params).await.unwrap_err();
        assert_eq!(error.code, -32602, "{error:?}");
        assert!(error.message.contains("there are default, high, low"), "{error:?}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_loaded_session_has_its_level() {
    let agent = thinking().start().await;
    let session = agent.new_session().await;
    choose(&agent, &session, "thought_level", "high").await;
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "go").await;
    let successor = thinking().scratch(&agent.scratch).llm(&agent.llm);
    agent.finish().await;
    let agent = successor.start().await;
    let params = json!({"sessionId": session, "cwd": agent.scratch.cwd(), "mcpServers": []});
    let loaded = agent.request("session/load", params).await.unwrap();
    assert_eq!(level(&loaded).unwrap().0, "high");
    agent.llm.reply(Reply::text("ok"));
    agent.prompt(&session, "again").await;
    assert_eq!(agent.llm.last_request().body["reasoning_effort"], "high");
    agent.finish().await;
}

#[tokio::test]
async fn a_level_looks_like_this_on_the_wire() {
    let agent = thinking().start().await;
    let session = agent.new_session().await;
    agent.wait_update("available_commands_update").await;
    choose(&agent, &session, "thought_level", "high").await;
    transcript::check("thought_level", &agent.lines(), &agent.scratch);
    agent.finish().await;
}
