//! Sessions over HTTP: made, listed, changed and deleted.

use serde_json::json;

use crate::support::server::Server;

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
