//! Every shape of refusal that OpenCode's clients read, and words where OpenCode has none.

use serde_json::{Value, json};

use crate::support::{
    llm::Reply,
    server::{Answer, Server, answer},
};

/// The shape of a refusal: the keys of its outermost object, and its name or tag.
fn shape(refusal: &Value) -> (Vec<&str>, &str) {
    let keys = refusal.as_object().unwrap().keys().map(String::as_str).collect();
    (keys, refusal["_tag"].as_str().or(refusal["name"].as_str()).unwrap_or_default())
}

/// Returns the words that the SDK shows of a refusal.
fn words(refusal: &Value) -> &str {
    let message = refusal["data"]["message"].as_str().or(refusal["message"].as_str());
    message.filter(|message| !message.is_empty()).unwrap_or_else(|| panic!("no words: {refusal}"))
}

async fn ask(server: &Server, method: &str, path: &str, body: &str) -> Answer {
    answer(server.request(method, path).body(body.to_owned())).await
}

#[tokio::test]
async fn every_shape_of_refusal_is_opencodes() {
    let server = Server::start().await;
    let id = server.session().await;
    let own = |path: &str| path.replace("$ID", &id);
    let config = json!({"type": "local", "command": ["no-such-program-of-windlass"]});
    server.post("/mcp", json!({"name": "m", "config": config})).await.ok();
    let named = vec!["name", "data"];
    for (method, path, body, status, keys, name) in [
        ("POST", "/session/$ID/message", "{}", 400, named.clone(), "BadRequest"),
        ("GET", "/find", "", 400, named.clone(), "BadRequest"),
        ("GET", "/session/xyz", "", 400, named.clone(), "BadRequest"),
        ("POST", "/session/$ID/fork", "{bad", 400, named.clone(), "BadRequest"),
        ("GET", "/session/$ID/message?limit=1&before=bad!", "", 400, named.clone(), "BadRequest"),
        ("GET", "/session/ses_nope", "", 404, named.clone(), "NotFoundError"),
        ("GET", "/session/$ID/message/msg_nope", "", 404, named.clone(), "NotFoundError"),
        (
            "POST",
            "/permission/per_nope/reply",
            r#"{"reply":"once"}"#,
            404,
            vec!["_tag", "requestID", "message"],
            "PermissionNotFoundError",
        ),
        (
            "POST",
            "/question/que_nope/reply",
            r#"{"answers":[]}"#,
            404,
            vec!["_tag", "requestID", "message"],
            "QuestionNotFoundError",
        ),
        ("GET", "/pty/pty_nope", "", 404, vec!["_tag", "ptyID", "message"], "PtyNotFoundError"),
        ("POST", "/mcp/none/connect", "", 404, vec!["_tag", "name", "message"], "McpServerNotFoundError"),
        ("PATCH", "/project/none", "{}", 404, vec!["_tag", "projectID", "message"], "ProjectNotFoundError"),
        (
            "POST",
            "/provider/none/oauth/callback",
            r#"{"method":0}"#,
            400,
            named.clone(),
            "ProviderAuthOauthMissing",
        ),
        ("POST", "/vcs/apply", r#"{"patch":"zzz"}"#, 400, named.clone(), "VcsApplyError"),
        ("POST", "/mcp/m/auth", "{}", 400, vec!["error", "message"], ""),
    ] {
        let refusal = ask(&server, method, &own(path), body).await.refused(status);
        let mut seen = shape(&refusal);
        let mut keys = keys;
        seen.0.sort_unstable();
        keys.sort_unstable();
        assert_eq!(seen, (keys, name), "{method} {path}: {refusal}");
        words(&refusal);
    }
    for (path, status, tag) in [
        ("/api/session/ses_nope", 404, "SessionNotFoundError"),
        ("/api/session/xyz", 400, "InvalidRequestError"),
    ] {
        let refusal = server.get(path).await.refused(status);
        assert_eq!(refusal["_tag"], tag, "{refusal}");
        words(&refusal);
    }
    server.finish().await;
}

#[tokio::test]
async fn a_session_that_works_refuses_what_would_change_its_past() {
    let server = Server::asking("bash").await;
    let id = server.session().await;
    server.llm.reply(Reply::text("first"));
    let first = server.prompt(&id, "go").await;
    let message = first["info"]["id"].as_str().unwrap().to_owned();
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo out", "description": "prints"})));
    let mut events = server.events("/event").await;
    let other = async {
        events.until("permission.asked").await;
        for (method, path, body) in [
            ("POST", "shell", json!({"agent": "build", "command": "echo 1"})),
            ("POST", "revert", json!({"messageID": message})),
            ("POST", "unrevert", json!({})),
            ("DELETE", &format!("message/{message}"), json!({})),
        ] {
            let busy = server.send(method, &format!("/session/{id}/{path}"), body).await.refused(409);
            let expected = json!({
                "_tag": "SessionBusyError", "sessionID": id, "message": format!("Session is busy: {id}"),
            });
            assert_eq!(busy, expected, "{method} {path}");
        }
        assert_eq!(server.post(&format!("/session/{id}/abort"), json!({})).await.ok(), true);
    };
    tokio::join!(server.prompt(&id, "run it"), other);
    server.finish().await;
}

/// Each of these is a 500 without a reason, or a 200, at OpenCode.
#[tokio::test]
async fn what_opencode_fails_at_or_accepts_is_refused_with_words() {
    let server = Server::start().await;
    let id = server.session().await;
    for (method, path, body, status, said) in [
        ("POST", "/session/$ID/prompt_async", "{bad", 400, "body"),
        ("PATCH", "/config", "{bad", 400, "body"),
        (
            "POST",
            "/session/$ID/message",
            r#"{"parts":[{"type":"text","text":"x"}],"agent":"none"}"#,
            400,
            "none",
        ),
        ("POST", "/session/$ID/command", r#"{"command":"none","arguments":""}"#, 400, "none"),
        ("POST", "/session/$ID/share", "", 400, "windlass.share.directory"),
        (
            "PATCH",
            "/session/$ID/message/msg_x/part/prt_x",
            r#"{"id":"prt_x","messageID":"msg_x","sessionID":"$ID","type":"text","text":"t"}"#,
            404,
            "msg_x",
        ),
        ("GET", "/file?path=none", "", 404, "none"),
        ("GET", "/file?path=../..", "", 400, ".."),
        ("GET", "/file/content?path=none", "", 404, "none"),
        ("GET", "/file/content?path=/etc/passwd", "", 400, "/etc/passwd"),
        ("POST", "/pty", r#"{"command":"no-such-program"}"#, 400, "no-such-program"),
        ("POST", "/session/ses_nope/abort", "", 404, "ses_nope"),
        ("DELETE", "/session/$ID/message/msg_nope", "", 404, "msg_nope"),
        ("POST", "/session/$ID/revert", r#"{"messageID":"msg_nope"}"#, 404, "msg_nope"),
        ("GET", "/session/ses_nope/diff", "", 404, "ses_nope"),
        ("POST", "/session", r#"{"parentID":"ses_nope"}"#, 404, "ses_nope"),
        ("POST", "/nope", "", 404, "/nope"),
    ] {
        let (path, body) = (path.replace("$ID", &id), body.replace("$ID", &id));
        let refusal = ask(&server, method, &path, &body).await.refused(status);
        assert!(words(&refusal).contains(said), "{method} {path}: {refusal}");
    }
    server.finish().await;
}
