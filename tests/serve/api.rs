//! Reads of OpenCode's younger interface.

use serde_json::{Value, json};

use crate::support::{
    llm::{Gate, Reply},
    server::{Server, answer},
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

#[tokio::test]
async fn its_events_are_those_of_all_directories_in_its_own_form() {
    let server = Server::start().await;
    let mut events = server.stream("/api/event").await;
    assert_eq!(events.frame().await.as_deref(), Some(": heartbeat"));
    let connected = events.next().await;
    assert_eq!((&connected["type"], &connected["data"]), (&json!("server.connected"), &json!({})));
    let id = server.session().await;
    let created = events.next().await;
    assert_eq!(created["type"], "session.created");
    assert_eq!((&created["data"]["sessionID"], &created["data"]["info"]["id"]), (&json!(id), &json!(id)));
    assert_eq!(created["location"]["directory"], server.scratch.cwd());
    assert!(created["id"].as_str().unwrap().starts_with("evt_"));
    assert_eq!(created.get("properties"), None);
    server.finish().await;
}

#[tokio::test]
async fn its_terminals_are_those_of_the_older_one() {
    let server = Server::start().await;
    let opened = server.post("/api/pty", json!({"command": "cat"})).await.ok();
    let id = opened["data"]["id"].as_str().unwrap();
    let path = format!("/api/pty/{id}");
    assert_eq!(opened["location"]["directory"], server.scratch.cwd());
    assert_eq!(server.get("/pty").await.ok()[0]["id"], id);
    assert_eq!(server.get(&path).await.ok()["data"], server.get(&format!("/pty/{id}")).await.ok());
    let titled = server.send("PUT", &path, json!({"title": "mine"})).await.ok();
    assert_eq!(titled["data"]["title"], "mine");
    let token = format!("{path}/connect-token");
    assert_eq!(server.post(&token, json!({})).await.refused(403)["_tag"], "PtyForbiddenError");
    let ticket = answer(server.request("POST", &token).header("x-opencode-ticket", "1")).await.ok();
    assert_eq!(ticket["data"]["expires_in"], 60);
    assert_eq!(answer(server.request("DELETE", &path)).await.status, 204);
    assert_eq!(server.get(&path).await.refused(404)["_tag"], "PtyNotFoundError");
    assert_eq!(server.get("/api/pty/x").await.refused(400)["_tag"], "InvalidRequestError");
    server.finish().await;
}

#[tokio::test]
async fn its_credentials_are_the_stored_keys() {
    let server = Server::start().await;
    let known = server.get("/api/integration/anthropic").await.ok();
    assert_eq!(known["data"]["id"], "anthropic");
    assert_eq!(server.get("/api/integration/none").await.refused(400)["_tag"], "InvalidRequestError");
    let path = "/api/integration/anthropic/connect/key";
    assert_eq!(server.post(path, json!({"key": ""})).await.refused(400)["field"], "key");
    assert_eq!(server.post(path, json!({"key": "sk-1"})).await.status, 204);
    let connected =
        |providers: &Value| providers["connected"].as_array().unwrap().contains(&json!("anthropic"));
    assert!(connected(&server.get("/provider").await.ok()));
    let connections = async || {
        let shown = server.get("/api/integration/anthropic").await.ok();
        let listed = server.get("/api/integration").await.ok();
        let listed =
            listed["data"].as_array().unwrap().iter().find(|it| it["id"] == "anthropic").unwrap().clone();
        assert_eq!(listed, shown["data"]);
        shown["data"]["connections"].clone()
    };
    let credential = json!([{"type": "credential", "id": "anthropic", "label": "key"}]);
    assert_eq!(connections().await, credential);
    assert_eq!(answer(server.request("DELETE", "/api/credential/anthropic")).await.status, 204);
    assert!(!connected(&server.get("/provider").await.ok()));
    assert_eq!(connections().await, json!([]));
    server.finish().await;
}
