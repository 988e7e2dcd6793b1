//! Changes and prompts that come while a session works.

use serde_json::json;

use crate::support::{
    llm::{Gate, Reply},
    server::Server,
};

#[tokio::test]
async fn what_is_changed_while_a_turn_runs_is_stored_at_once_and_holds_behind_it() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("done").and_gate(&gate));
    let text = json!([{"type": "text", "text": "go"}]);
    server.post(&format!("/session/{id}/prompt_async"), json!({"parts": text})).await;
    gate.reached().await;
    let rules = json!([{"permission": "edit", "pattern": "*", "action": "deny"}]);
    let path = format!("/session/{id}");
    let change = json!({"permission": rules, "metadata": {"a": 1}, "time": {"archived": 5}});
    let changed = server.send("PATCH", &path, change).await.ok();
    let stored = server.get(&path).await.ok();
    for info in [&changed, &stored] {
        assert_eq!((&info["permission"], &info["metadata"]), (&rules, &json!({"a": 1})));
        assert_eq!(info["time"]["archived"], 5);
    }
    // Of two prompts that wait, the second does not undo the rules of the first.
    for tools in [json!({"webfetch": false}), json!({"bash": false})] {
        server.llm.reply(Reply::text("fine"));
        let body = json!({"parts": text, "tools": tools});
        let accepted = server.post(&format!("/session/{id}/prompt_async"), body).await;
        assert_eq!(accepted.status, 204);
    }
    let rules = json!([
        {"permission": "edit", "pattern": "*", "action": "deny"},
        {"permission": "webfetch", "pattern": "*", "action": "deny"},
        {"permission": "bash", "pattern": "*", "action": "deny"},
    ]);
    assert_eq!(server.get(&path).await.ok()["permission"], rules);
    let mut events = server.events("/event").await;
    gate.open();
    for _ in 0..3 {
        events.until("session.idle").await;
    }
    let request = server.llm.last_request();
    for name in ["bash", "webfetch", "edit", "write"] {
        assert!(!request.tools().iter().any(|tool| tool == name), "{name} is offered");
    }
    let behind = server.get(&path).await.ok();
    assert_eq!((&behind["permission"], &behind["time"]["archived"]), (&rules, &json!(5)));
    let kept = server.send("PATCH", &path, json!({"time": {}})).await.ok();
    assert_eq!(kept["time"]["archived"], 5, "nothing was said of it");
    let active = server.send("PATCH", &path, json!({"time": {"archived": null}})).await.ok();
    assert_eq!(active["time"]["archived"], json!(null));
    assert_eq!(server.get("/experimental/session").await.ok()[0]["id"], id);
    server.finish().await;
}

#[tokio::test]
async fn a_tool_is_on_or_off_and_nothing_else() {
    let server = Server::start().await;
    let id = server.session().await;
    let body = json!({"parts": [{"type": "text", "text": "go"}], "tools": {"bash": "no"}});
    let refused = server.post(&format!("/session/{id}/message"), body).await.refused(400);
    assert!(refused["data"]["message"].as_str().unwrap().contains("bash"), "{refused}");
    assert_eq!(server.get(&format!("/session/{id}")).await.ok()["permission"], json!(null));
    server.finish().await;
}

#[tokio::test]
async fn a_prompt_that_no_longer_fits_is_refused() {
    let server = Server::start().await;
    let id = server.session().await;
    let gate = Gate::new();
    server.llm.reply(Reply::text("done").and_gate(&gate));
    let path = format!("/session/{id}/prompt_async");
    let body = json!({"parts": [{"type": "text", "text": "go"}], "noReply": true});
    let first = json!({"parts": [{"type": "text", "text": "go"}]});
    server.post(&path, first).await;
    gate.reached().await;
    let mut n_accepted = 0;
    let refused = loop {
        let answer = server.post(&path, body.clone()).await;
        if answer.status != 204 {
            break answer.refused(400);
        }
        n_accepted += 1;
        assert!(n_accepted < 1000, "nothing bounds the prompts that wait");
    };
    assert!(refused["data"]["message"].as_str().unwrap().contains("waiting"), "{refused}");
    server.post(&format!("/session/{id}/abort"), json!({})).await.ok();
    gate.open();
    server.finish().await;
}

#[tokio::test]
async fn a_permission_is_answered_by_its_own_session() {
    let server = Server::asking("bash").await;
    let id = server.session().await;
    let other = server.session().await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"})));
    server.llm.reply(Reply::text("done"));
    let mut events = server.events("/event").await;
    let answering = async {
        let asked = events.until("permission.asked").await;
        let permission = asked.last().unwrap()["properties"]["id"].as_str().unwrap().to_owned();
        let body = json!({"response": "once"});
        let path = format!("/session/{other}/permissions/{permission}");
        let refused = server.post(&path, body.clone()).await.refused(404);
        assert_eq!(refused["_tag"], "PermissionNotFoundError");
        let path = format!("/session/{id}/permissions/{permission}");
        assert_eq!(server.post(&path, body).await.ok(), true);
    };
    let (answered, ()) = tokio::join!(server.prompt(&id, "run it"), answering);
    assert_eq!(answered["info"]["finish"], "stop");
    server.finish().await;
}
