//! Cursors: the places at which a client can fork a session.

use serde_json::{Value, json};

use crate::support::{agent::Agent, llm::Reply};

/// Starts a client that knows cursors.
async fn start() -> Agent {
    let agent = Agent::builder().spawn().await;
    agent.initialize_with(json!({"session": {"cursors": {}}})).await;
    agent
}

fn cursors(updates: &[Value]) -> Vec<Value> {
    updates.iter().filter(|it| it["sessionUpdate"] == "cursor_update").cloned().collect()
}

#[tokio::test]
async fn a_cursor_stands_behind_each_answer_that_a_prompt_follows_live_and_on_load() {
    let agent = start().await;
    let session = agent.new_session().await;
    agent.llm.reply(Reply::text("one"));
    // A turn that changes files tells its prompt again.
    agent.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo new > made.txt"})));
    agent.llm.reply(Reply::text("two"));
    agent.llm.reply(Reply::text("three"));
    for prompt in ["a", "b", "c"] {
        agent.prompt(&session, prompt).await;
    }
    let live = cursors(&agent.updates(&session));
    let chunks = agent.updates(&session);
    let chunk =
        |words: &str| chunks.iter().find(|it| it["content"]["text"] == words).unwrap()["messageId"].clone();
    let anchor = |message: Value| json!({"type": "agent_message", "messageId": message, "position": "after"});
    let anchors: Vec<&Value> = live.iter().map(|it| &it["anchor"]).collect();
    assert_eq!(anchors, [&anchor(chunk("one")), &anchor(chunk("two"))]);
    assert_eq!(live[0]["capabilities"], json!({"fork": {}}));
    assert_eq!(cursors(&agent.load(&session).await), live);

    let mut params = agent.session_params();
    params["sessionId"] = session.as_str().into();
    params["cursorId"] = live[0]["cursorId"].clone();
    let forked = agent.request("session/fork", params.clone()).await.unwrap();
    agent.llm.reply(Reply::text("other"));
    agent.prompt(forked["sessionId"].as_str().unwrap(), "go on").await;
    let said = agent.llm.last_request().body["messages"].to_string();
    assert!(said.contains("one") && !said.contains("two"), "{said}");
    for bad in [json!("c7"), json!("msg_0198c0ffee00aaaaaaaaaaaaaa"), json!(7)] {
        params["cursorId"] = bad.clone();
        assert_eq!(agent.request("session/fork", params.clone()).await.unwrap_err().code, -32602, "{bad}");
    }
    agent.finish().await;
}

#[tokio::test]
async fn the_cursor_of_a_prompt_that_is_gone_is_withdrawn() {
    let agent = start().await;
    let session = agent.new_session().await;
    for words in ["one", "two", "three"] {
        agent.llm.reply(Reply::text(words));
    }
    agent.prompt(&session, "a").await;
    agent.prompt(&session, "b").await;
    let first = cursors(&agent.updates(&session))[0]["cursorId"].clone();
    agent.prompt(&session, "/undo").await;
    agent.prompt(&session, "c").await;
    let after = cursors(&agent.updates(&session));
    let withdrawn = after.iter().find(|it| it["cursorId"] == first && it["capabilities"].is_null());
    assert!(withdrawn.is_some(), "{after:?}");
    agent.finish().await;
}

#[tokio::test]
async fn a_client_that_knows_none_gets_none() {
    let agent = Agent::start().await;
    let session = agent.new_session().await;
    for words in ["one", "two"] {
        agent.llm.reply(Reply::text(words));
        agent.prompt(&session, words).await;
    }
    assert_eq!(cursors(&agent.updates(&session)), Vec::<Value>::new());
    agent.finish().await;
}
