//! Changes of lists of sessions that a client watches.

use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply};

/// Waits for a change of the watched lists.
async fn change(agent: &Agent, what: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let is_change =
        |message: &Value| message["method"] == "_session/list/changes" && is_wanted(&message["params"]);
    agent.wait_for(what, is_change).await["params"].clone()
}

#[tokio::test]
async fn a_client_hears_of_sessions_that_come_change_and_go() {
    let agent = Agent::start().await;
    let cwd = agent.session_params()["cwd"].clone();
    let watched = agent.request("_session/list/subscribe", json!({"cwd": cwd})).await.unwrap();
    let session = agent.new_session().await;
    let come = change(&agent, "the new session", |it| it["sessions"][0]["sessionId"] == session).await;
    assert_eq!((&come["subscriptionId"], &come["removed"]), (&watched["subscriptionId"], &json!([])));
    agent.request("_session/rename", json!({"sessionId": session, "title": "Bees"})).await.unwrap();
    change(&agent, "the new title", |it| it["sessions"][0]["title"] == "Bees").await;
    // A session that this client does not hold any more is in the list as well.
    agent.request("session/archive", json!({"sessionId": session})).await.unwrap();
    change(&agent, "the archived session", |it| it["sessions"][0]["archived"] == true).await;
    agent.request("session/unarchive", json!({"sessionId": session})).await.unwrap();
    agent.load(&session).await;
    // Subagents are in no list.
    agent.llm.reply(Reply::call(
        "call_1",
        "task",
        json!({"description": "Look", "prompt": "look", "subagent_type": "general"}),
    ));
    agent.llm.reply(Reply::text("looked"));
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "have it looked at").await;
    agent.request("session/delete", json!({"sessionId": session})).await.unwrap();
    let gone = change(&agent, "the removal", |it| it["removed"] == json!([session])).await;
    assert_eq!(gone["sessions"], json!([]));
    let others: Vec<Value> = agent
        .lines()
        .into_iter()
        .filter(|line| line.message["method"] == "_session/list/changes")
        .flat_map(|line| line.message["params"]["sessions"].as_array().cloned().unwrap())
        .filter(|row| row["sessionId"] != session)
        .collect();
    assert_eq!(others, Vec::<Value>::new());
    agent.finish().await;
}

#[tokio::test]
async fn a_list_that_is_watched_no_more_and_one_of_another_directory_tell_nothing() {
    let agent = Agent::start().await;
    let cwd = agent.session_params()["cwd"].clone();
    let subscribe = async |cwd: &Value| agent.request("_session/list/subscribe", json!({"cwd": cwd})).await;
    subscribe(&json!("/elsewhere")).await.unwrap();
    let first = subscribe(&cwd).await.unwrap();
    let second = subscribe(&cwd).await.unwrap();
    for _ in 0..2 {
        agent.request("_session/list/unsubscribe", first.clone()).await.unwrap();
    }
    agent.new_session().await;
    let told = change(&agent, "the change", |_| true).await;
    assert_eq!(told["subscriptionId"], second["subscriptionId"]);
    for bad in [json!({}), json!({"cwd": "here"}), json!({"cwd": 7})] {
        assert_eq!(
            agent.request("_session/list/subscribe", bad.clone()).await.unwrap_err().code,
            -32602,
            "{bad}"
        );
    }
    for _ in 2..128 {
        subscribe(&cwd).await.unwrap();
    }
    let refused = subscribe(&cwd).await.unwrap_err();
    assert_eq!((refused.code, &refused.data["reason"]), (-32602, &json!("too_many_subscriptions")));
    agent.finish().await;
}
