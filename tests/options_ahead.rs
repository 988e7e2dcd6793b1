//! Options of a session before there is one, and with the request that opens it.

use serde_json::{Value, json};

use crate::support::agent::Agent;

fn current<'a>(answer: &'a Value, option: &str) -> &'a Value {
    let options = answer["configOptions"].as_array().unwrap();
    &options.iter().find(|it| it["id"] == option).unwrap()["currentValue"]
}

fn with(agent: &Agent, options: Value) -> Value {
    let mut params = agent.session_params();
    params["configOptions"] = options;
    params
}

#[tokio::test]
async fn options_are_listed_before_there_is_a_session_and_nothing_is_begun_for_it() {
    let config = json!({"mcp": {"never": {"type": "local", "command": ["touch", "begun"]}}});
    let agent = Agent::start_with(config).await;
    let cwd = agent.session_params()["cwd"].clone();
    let ahead = agent.request("session/options", json!({"cwd": cwd})).await.unwrap();
    assert!(!agent.scratch.exists("begun"));
    assert_eq!(agent.request("session/list", json!({})).await.unwrap()["sessions"], json!([]));
    let opened = agent.request("session/new", agent.session_params()).await.unwrap();
    assert_eq!((&ahead["modes"], &ahead["configOptions"]), (&opened["modes"], &opened["configOptions"]));
    agent.finish().await;
}

#[tokio::test]
async fn options_of_a_stored_session_are_its_own() {
    let agent = Agent::start().await;
    let opened =
        agent.request("session/new", with(&agent, json!([{"configId": "mode", "value": "plan"}]))).await;
    let session = opened.unwrap()["sessionId"].clone();
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    let cwd = agent.session_params()["cwd"].clone();
    let ahead = agent.request("session/options", json!({"cwd": cwd, "sessionId": session})).await.unwrap();
    assert_eq!((current(&ahead, "mode"), &ahead["modes"]["currentModeId"]), (&json!("plan"), &json!("plan")));
    let unknown = json!({"cwd": cwd, "sessionId": "ses_00000000000000000000000000"});
    assert_eq!(agent.request("session/options", unknown).await.unwrap_err().code, -32002);
    for bad in [json!({}), json!({"cwd": "here"}), json!({"cwd": cwd, "sessionId": 7})] {
        assert_eq!(agent.request("session/options", bad.clone()).await.unwrap_err().code, -32602, "{bad}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_session_begins_with_the_options_that_its_client_names() {
    let agent = Agent::start().await;
    let wanted = json!([
        {"configId": "mode", "value": "plan"},
        {"configId": "mood", "value": "good"},
        {"configId": "model", "value": "no/model"},
    ]);
    let opened = agent.request("session/new", with(&agent, wanted)).await.unwrap();
    assert_eq!(
        (current(&opened, "mode"), &opened["modes"]["currentModeId"]),
        (&json!("plan"), &json!("plan"))
    );
    let session = opened["sessionId"].as_str().unwrap();
    let updates = agent.updates(session);
    assert!(updates.iter().all(|it| it["sessionUpdate"] != "config_option_update"), "{updates:?}");
    // It is stored, and changed by the next request that opens the session.
    let mut load = agent.session_params();
    load["sessionId"] = session.into();
    assert_eq!(current(&agent.request("session/load", load.clone()).await.unwrap(), "mode"), "plan");
    load["configOptions"] = json!([{"configId": "mode", "value": "build"}]);
    for method in ["session/resume", "session/load", "session/fork"] {
        assert_eq!(current(&agent.request(method, load.clone()).await.unwrap(), "mode"), "build", "{method}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn malformed_options_make_no_session() {
    let agent = Agent::start().await;
    for bad in [
        json!({"mode": "plan"}),
        json!([{"value": "plan"}]),
        json!([{"configId": "mode"}]),
        json!([{"configId": "mode", "value": true}]),
        json!([{"configId": "accept_edits", "type": "boolean", "value": "yes"}]),
        json!([{"configId": "mode", "value": "plan"}, {"configId": "mode", "value": "build"}]),
    ] {
        let refused = agent.request("session/new", with(&agent, bad.clone())).await.unwrap_err();
        assert_eq!(refused.code, -32602, "{bad}");
    }
    assert_eq!(agent.request("session/list", json!({})).await.unwrap()["sessions"], json!([]));
    agent.finish().await;
}
