//! Reads of OpenCode's younger interface.

use serde_json::json;

use crate::support::{
    llm::{Gate, Reply},
    server::Server,
};

#[tokio::test]
async fn its_sessions_are_those_of_the_older_one() {
    let server = Server::start().await;
    let id = server.session().await;
    let sessions = server.get(&format!("/api/session?directory={}", server.scratch.cwd())).await.ok();
    assert_eq!(sessions["data"][0]["id"], id);
    assert_eq!(sessions["data"][0]["location"]["directory"], server.scratch.cwd());
    assert_eq!(server.get(&format!("/api/session/{id}")).await.ok()["data"]["id"], id);
    assert_eq!(server.get("/api/session/active").await.ok(), json!({"data": {}}));
    let gone = server.get("/api/session/ses_nope").await.refused(404);
    assert_eq!((&gone["_tag"], &gone["sessionID"]), (&json!("SessionNotFoundError"), &json!("ses_nope")));
    let bad = server.get("/api/session/xyz").await.refused(400);
    assert_eq!((&bad["_tag"], &bad["field"]), (&json!("InvalidRequestError"), &json!("sessionID")));
    server.finish().await;
}

#[tokio::test]
async fn a_session_is_made_prompted_answered_and_undone_by_it() {
    let server = Server::asking("bash").await;
    let new = json!({"agent": "build", "location": {"directory": server.scratch.cwd()}});
    let made = server.post("/api/session", new).await.ok();
    let id = made["data"]["id"].as_str().unwrap().to_owned();
    assert_eq!(made["data"]["location"]["directory"], server.scratch.cwd());
    let call = json!({"command": "echo out", "description": "prints"});
    server.llm.reply(Reply::call("call_1", "bash", call));
    server.llm.reply(Reply::text("done"));
    let mut events = server.events("/event").await;
    let prompt = json!({"prompt": {"text": "run it", "agents": [], "files": []}});
    let admitted = server.post(&format!("/api/session/{id}/prompt"), prompt).await.ok();
    let message = admitted["data"]["id"].as_str().unwrap().to_owned();
    // It is stored before it is answered.
    let stored = server.get(&format!("/api/session/{id}/message/{message}")).await.ok();
    assert_eq!((&stored["data"]["type"], &stored["data"]["text"]), (&json!("user"), &json!("run it")));
    events.until("permission.asked").await;
    let waiting = server.get(&format!("/api/session/{id}/permission")).await.ok();
    let asked = &waiting["data"][0];
    assert_eq!((&asked["action"], &asked["resources"]), (&json!("bash"), &json!(["echo out"])));
    assert_eq!(asked["source"]["type"], "tool");
    let path = format!("/api/session/{id}/permission/{}", asked["id"].as_str().unwrap());
    assert_eq!(server.get(&path).await.ok()["data"], *asked);
    assert_eq!(server.post(&format!("{path}/reply"), json!({"reply": "once"})).await.status, 204);
    events.until("session.idle").await;
    server.post(&format!("{path}/reply"), json!({"reply": "once"})).await.refused(404);
    let messages = server.get(&format!("/api/session/{id}/message")).await.ok();
    let kinds: Vec<_> = messages["data"].as_array().unwrap().iter().map(|it| it["type"].clone()).collect();
    assert_eq!(kinds, ["user", "assistant", "assistant"]);
    let call = &messages["data"][1]["content"][0];
    assert_eq!((&call["name"], &call["state"]["status"]), (&json!("bash"), &json!("completed")));
    assert!(call["state"]["content"][0]["text"].as_str().unwrap().contains("out"), "{call}");
    assert_eq!(messages["data"][2]["content"][0]["text"], "done");
    assert_eq!(server.get(&format!("/api/session/{id}/context")).await.ok()["data"], messages["data"]);
    let newest = server.get(&format!("/api/session/{id}/message?limit=2&order=desc")).await.ok();
    assert_eq!(newest["data"][0], messages["data"][2]);
    let stage = server.post(&format!("/api/session/{id}/revert/stage"), json!({"messageID": message})).await;
    assert_eq!(stage.ok()["data"]["messageID"], message.as_str());
    assert_eq!(server.post(&format!("/api/session/{id}/revert/clear"), json!({})).await.status, 204);
    server.finish().await;
}

#[tokio::test]
async fn its_choices_hold_and_its_turns_are_interrupted() {
    let server = Server::start().await;
    let id = server.session().await;
    let path = format!("/api/session/{id}");
    assert_eq!(server.post(&format!("{path}/agent"), json!({"agent": "plan"})).await.status, 204);
    server.post(&format!("{path}/agent"), json!({"agent": "nobody"})).await.refused(400);
    assert_eq!(server.get(&path).await.ok()["data"]["agent"], "plan");
    let gate = Gate::new();
    server.llm.reply(Reply::hang(&gate));
    let mut events = server.events("/event").await;
    server.post(&format!("{path}/prompt"), json!({"prompt": {"text": "go"}})).await.ok();
    server.llm.asked(1).await;
    assert_eq!(server.post(&format!("{path}/interrupt"), json!({})).await.status, 204);
    events.until("session.idle").await;
    let wait = server.post(&format!("{path}/wait"), json!({})).await.refused(503);
    assert_eq!(wait["_tag"], "ServiceUnavailableError");
    gate.open();
    server.finish().await;
}
