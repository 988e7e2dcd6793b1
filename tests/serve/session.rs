//! Sessions over HTTP: made, listed, changed and deleted.

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{agent::Agent, llm::Reply, server::Server};

#[tokio::test]
async fn a_session_is_made_listed_changed_and_deleted() {
    let server = Server::start().await;
    let health = server.get("/global/health").await.ok();
    assert_eq!(health, json!({"healthy": true, "version": env!("CARGO_PKG_VERSION")}));
    let rules = json!([{"permission": "bash", "pattern": "*", "action": "ask"}]);
    let made =
        server.post("/session", json!({"title": "demo", "permission": rules, "unknown": 1})).await.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!(made["title"], "demo");
    assert_eq!(made["permission"], rules);
    assert_eq!(made["directory"], server.scratch.cwd());
    assert_eq!(made["path"], "");
    assert_eq!(server.get(&format!("/session/{id}/")).await.ok()["id"], id);
    let child = server.post("/session", json!({"parentID": id})).await.ok();
    assert!(child["title"].as_str().unwrap().starts_with("Child session - 20"), "{child}");
    let listed = server.get("/session").await.ok();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["id"], child["id"], "the newest comes first");
    let roots = server.get("/session?roots=true&limit=bad").await.ok();
    assert_eq!(roots.as_array().unwrap().len(), 1);
    assert_eq!(server.get(&format!("/session/{id}/children")).await.ok()[0]["id"], child["id"]);
    for (query, n_listed) in [("path=", 2), ("scope=project", 2), ("path=nowhere", 0)] {
        let listed = server.get(&format!("/session?{query}")).await.ok();
        assert_eq!(listed.as_array().unwrap().len(), n_listed, "{query}");
    }
    let none = server.get("/session?directory=/tmp").await.ok();
    assert_eq!(none, json!([]));
    let change = json!({"title": "other", "time": {"archived": 5}, "metadata": {"a": 1}});
    let changed = server.send("PATCH", &format!("/session/{id}"), change).await.ok();
    assert_eq!((&changed["title"], &changed["time"]["archived"]), (&json!("other"), &json!(5)));
    let active = server.get("/experimental/session?limit=1").await.ok();
    assert_eq!(active[0]["id"], child["id"], "an archived one takes no place");
    assert_eq!(server.get("/session?search=OTH").await.ok()[0]["metadata"], json!({"a": 1}));
    assert_eq!(server.send("DELETE", &format!("/session/{id}"), json!({})).await.ok(), true);
    let gone = server.get(&format!("/session/{id}")).await.refused(404);
    assert_eq!(
        gone,
        json!({"name": "NotFoundError", "data": {"message": format!("Session not found: {id}")}})
    );
    assert_eq!(server.get("/session").await.ok(), json!([]), "its children go with it");
    server.finish().await;
}

#[tokio::test]
async fn a_list_has_each_session_as_it_is_read_alone() {
    let server = Server::start().await;
    let titled = server.post("/session", json!({"title": "with \"quotes\""})).await.ok();
    let untitled = server.session().await;
    server.llm.reply(Reply::text("done"));
    server.prompt(&untitled, "the first words").await;
    let changed = server.post("/session", json!({"title": "first"})).await.ok();
    let change = json!({"title": "second", "time": {"archived": 5}, "metadata": {"title": "none"}});
    server.send("PATCH", &format!("/session/{}", changed["id"].as_str().unwrap()), change).await.ok();
    server.post("/session", json!({"parentID": titled["id"]})).await.ok();
    for list in ["/session", "/session?scope=project", "/experimental/session?archived=true"] {
        let listed = server.get(list).await.ok();
        assert_eq!(listed.as_array().unwrap().len(), 4, "{list}");
        for session in listed.as_array().unwrap() {
            let path = format!("/session/{}", session["id"].as_str().unwrap());
            assert_eq!(*session, server.get(&path).await.ok(), "{list}");
        }
    }
    server.finish().await;
}

#[tokio::test]
async fn messages_of_a_session_that_another_process_has_in_memory_are_not_changed() {
    let server = Server::start().await;
    let session = server.session().await;
    server.llm.reply(Reply::text("first"));
    let answer = server.prompt(&session, "go").await;
    let (message, part) = (&answer["info"]["id"], &answer["parts"][0]);
    let of_message = format!("/session/{session}/message/{}", message.as_str().unwrap());
    let of_part = format!("{of_message}/part/{}", part["id"].as_str().unwrap());
    let mut agent = Agent::builder().scratch(&server.scratch).llm(&server.llm).start().await;
    agent.load(&session).await;
    agent.llm.reply(Reply::text("second"));
    agent.prompt(&session, "on").await;
    for (method, path) in [("DELETE", &of_message), ("DELETE", &of_part), ("PATCH", &of_part)] {
        let refused = server.send(method, path, part.clone()).await.refused(409);
        let told =
            format!("another windlass has the session {session} open; change it there, or close it there");
        assert_eq!(refused["message"], told, "{method} {path}: {refused}");
    }
    agent.request("session/close", json!({"sessionId": session})).await.unwrap();
    assert_eq!(server.send("DELETE", &of_message, json!({})).await.ok(), true);
    agent.signal(Signal::SIGTERM);
    agent.wait_exit().await;
    agent.output_read().await;
    agent.forget().await;
    server.finish().await;
}

#[tokio::test]
async fn bad_requests_are_refused_with_words() {
    let server = Server::start().await;
    for (method, path, body, status, name, words) in [
        ("GET", "/session/xyz", "", 400, "BadRequest", "starting with"),
        ("GET", "/session/ses_nope", "", 404, "NotFoundError", "Session not found: ses_nope"),
        ("GET", "/session?roots=1", "", 400, "BadRequest", "roots"),
        ("POST", "/session", "{bad", 400, "BadRequest", "body"),
        ("POST", "/session", r#"{"parentID":"ses_nope"}"#, 404, "NotFoundError", "ses_nope"),
        ("POST", "/session?directory=/nope", "", 400, "BadRequest", "/nope"),
        ("DELETE", "/session/ses_nope", "", 404, "NotFoundError", "ses_nope"),
        ("PATCH", "/session/ses_nope", "{}", 404, "NotFoundError", "ses_nope"),
        ("GET", "/nowhere", "", 404, "NotFoundError", "/nowhere"),
        ("PUT", "/session", "", 405, "BadRequest", "PUT"),
    ] {
        let request = server.request(method, path).body(body);
        let refused = crate::support::server::answer(request).await.refused(status);
        assert_eq!(refused["name"], name, "{method} {path}: {refused}");
        let message = refused["data"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{method} {path}: {message}");
    }
    server.finish().await;
}
