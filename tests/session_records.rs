//! A client's operations on a session as a whole: its title, the archive, and where it stands.

use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply, scratch::Scratch};

async fn listed(agent: &Agent, filter: Value) -> Vec<(String, Value)> {
    let params = json!({"cwd": agent.scratch.cwd(), "archived": filter});
    let answer = agent.request("session/list", params).await.unwrap();
    let rows = answer["sessions"].as_array().unwrap().iter();
    rows.map(|row| (row["sessionId"].as_str().unwrap().to_owned(), row["archived"].clone())).collect()
}

#[tokio::test]
async fn an_archived_session_is_closed_and_hidden_until_it_is_taken_out() {
    let agent = Agent::start().await;
    let (kept, session) = (agent.new_session().await, agent.new_session().await);
    let id = json!({"sessionId": session});
    let status = async || agent.request("session/status", id.clone()).await.unwrap()["status"].clone();
    assert_eq!(status().await, "open");
    for _ in 0..2 {
        agent.request("session/archive", id.clone()).await.unwrap();
    }
    assert_eq!(status().await, "saved");
    let refused =
        agent.request("session/prompt", json!({"sessionId": session, "prompt": []})).await.unwrap_err();
    assert_eq!(refused.code, -32002);
    assert_eq!(listed(&agent, Value::Null).await, [(kept.clone(), json!(false))]);
    assert_eq!(listed(&agent, json!("only")).await, [(session.clone(), json!(true))]);
    assert_eq!(listed(&agent, json!("include")).await.len(), 2);
    for _ in 0..2 {
        agent.request("session/unarchive", id.clone()).await.unwrap();
    }
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let closed = agent.request("session/prompt", prompt).await.unwrap_err();
    assert!(closed.code == -32002 && closed.message.contains("open it with `session/load`"), "{closed:?}");
    assert_eq!(listed(&agent, json!("exclude")).await.len(), 2);
    let wrong = json!({"archived": "some"});
    assert_eq!(agent.request("session/list", wrong).await.unwrap_err().code, -32602);
    for method in ["session/archive", "session/unarchive", "session/status"] {
        let unknown = json!({"sessionId": "ses_0000000000000000000000"});
        assert_eq!(agent.request(method, unknown).await.unwrap_err().code, -32002, "{method}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn a_title_that_was_set_stays() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let params = |title: &str| json!({"sessionId": session, "title": title});
    let answer = agent.request("session/set_title", params("  Find the   leak ")).await.unwrap();
    assert_eq!(answer["title"], "Find the leak");
    agent.llm.reply(Reply::text("done"));
    agent.prompt(&session, "something else").await;
    let rows = agent.request("session/list", json!({})).await.unwrap();
    assert_eq!(rows["sessions"][0]["title"], "Find the leak");
    assert_eq!(agent.request("session/set_title", params(" ")).await.unwrap_err().code, -32602);
    agent.finish().await;
}

#[tokio::test]
async fn a_session_whose_directory_is_gone_can_be_read() {
    let scratch = Scratch::new();
    let gone = scratch.root().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let agent = Agent::builder().scratch(&scratch).start().await;
    let params = json!({"cwd": gone, "mcpServers": []});
    let session = agent.request("session/new", params).await.unwrap()["sessionId"].clone();
    let id = session.as_str().unwrap();
    agent.llm.reply(Reply::text("It is here."));
    agent.prompt(id, "where").await;
    agent.finish().await;
    std::fs::remove_dir(&gone).unwrap();

    let agent = Agent::builder().scratch(&scratch).start().await;
    let load = |cwd: &std::path::Path| json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
    agent.request("session/load", load(&gone)).await.unwrap();
    let shown = agent.updates(id).iter().any(|it| it["content"]["text"] == "It is here.");
    assert!(shown, "{:?}", agent.updates(id));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    let refused = agent.request("session/prompt", prompt).await.unwrap_err();
    assert!(refused.message.contains("is gone"), "{refused:?}");
    // Another directory that is not there is a mistake as before.
    let wrong = agent.request("session/load", load(&scratch.root().join("nowhere"))).await.unwrap_err();
    assert!(wrong.message.contains("does not exist"), "{wrong:?}");
    agent.request("session/load", load(&scratch.work)).await.unwrap();
    agent.llm.reply(Reply::text("Again."));
    agent.prompt(id, "again").await;
    agent.finish().await;
}

#[tokio::test]
async fn the_names_of_the_large_adapters_mean_the_same() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    let named = |title: &str| json!({"sessionId": session, "title": title});
    agent.request("_session/rename", named("Mine")).await.unwrap();
    let blank = agent.request("_session/rename", named(" ")).await.unwrap_err();
    assert_eq!(blank.code, -32602, "{}", blank.message);
    agent.request("_session/archive", json!({"sessionId": session})).await.unwrap();
    let only = || agent.request("session/list", json!({"archived": "only"}));
    assert_eq!(only().await.unwrap()["sessions"][0]["title"], "Mine");
    agent.request("_session/unarchive", json!({"sessionId": session})).await.unwrap();
    assert_eq!(only().await.unwrap()["sessions"], json!([]));
    agent.finish().await;
}
