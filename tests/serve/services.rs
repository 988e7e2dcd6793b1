//! Files, versions, terminals, servers and settings of a directory, over HTTP.

use std::{fs, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Semaphore,
};

use crate::lsp::server as toy;
use crate::support::{
    agent::DEADLINE,
    llm::Reply,
    server::{Server, answer},
    web::{Page, Web},
};

fn git(server: &Server, args: &[&str]) {
    let identity = ["-c", "user.name=u", "-c", "user.email=e"];
    let status = std::process::Command::new("git")
        .args(identity)
        .args(args)
        .current_dir(&server.scratch.work)
        .status()
        .unwrap();
    assert!(status.success());
}

async fn with_repository() -> Server {
    let server = Server::start().await;
    git(&server, &["init", "-q", "-b", "main"]);
    fs::write(server.scratch.work.join("a.txt"), "one\ntwo\n").unwrap();
    git(&server, &["add", "-A"]);
    git(&server, &["commit", "-qm", "first"]);
    fs::write(server.scratch.work.join("a.txt"), "one\nTWO\n").unwrap();
    server
}

#[tokio::test]
async fn files_and_versions_are_shown_and_refusals_have_words() {
    let server = with_repository().await;
    let nodes = server.get("/file?path=.").await.ok();
    assert!(nodes.as_array().unwrap().iter().any(|node| node["path"] == "a.txt"), "{nodes}");
    let content = server.get("/file/content?path=a.txt").await.ok();
    assert_eq!((&content["type"], &content["content"]), (&json!("text"), &json!("one\nTWO")));
    assert_eq!(server.get("/file/status").await.ok()[0]["path"], "a.txt");
    assert_eq!(server.get("/find?pattern=TW.").await.ok()[0]["submatches"][0]["match"]["text"], "TWO");
    assert_eq!(server.get("/find/file?query=a").await.ok()[0], "a.txt");
    assert_eq!(server.get("/find/symbol?query=a").await.ok(), json!([]));
    assert_eq!(server.get("/vcs").await.ok(), json!({"branch": "main", "default_branch": "main"}));
    let diff = server.get("/vcs/diff?mode=git").await.ok();
    assert!(diff[0]["patch"].as_str().unwrap().starts_with("diff --git a/a.txt b/a.txt"), "{diff}");
    let raw = server.get("/vcs/diff/raw").await;
    assert_eq!(raw.header("content-type"), Some("text/x-diff; charset=utf-8"));
    let project = server.get("/project/current").await.ok();
    assert_eq!(project["worktree"], server.get("/path").await.ok()["worktree"]);
    let missing = server.get("/find").await.refused(400);
    assert_eq!(
        missing,
        json!({"name": "BadRequest", "data": {"message": "Missing key\n  at [\"pattern\"]", "kind": "Query"}})
    );
    for (path, status) in [
        ("/file/content?path=/etc/passwd", 400),
        ("/file/content?path=none", 404),
        ("/file?path=none", 404),
        ("/find?pattern=(", 400),
        ("/find/file?query=a&limit=0", 400),
        ("/vcs/diff?mode=none", 400),
        ("/pty/pty_none", 404),
        ("/pty/none", 400),
    ] {
        let refusal = server.get(path).await.refused(status);
        let message = refusal["data"]["message"].as_str().or(refusal["message"].as_str());
        assert!(message.is_some_and(|message| !message.is_empty()), "{path}: {refusal}");
    }
    let refusal = server.post("/vcs/apply", json!({"patch": "zzz"})).await.refused(400);
    assert_eq!(
        (&refusal["name"], &refusal["data"]["reason"]),
        (&json!("VcsApplyError"), &json!("not-clean"))
    );
    let unknown = server.send("PATCH", "/project/none", json!({"name": "n"})).await.refused(404);
    assert_eq!(unknown["_tag"], "ProjectNotFoundError");
    server.finish().await;
}

#[tokio::test]
async fn a_prompt_says_which_files_its_turn_changed() {
    let server = with_repository().await;
    let id = server.session().await;
    for (name, text) in [("b.txt", "new\n"), ("c.txt", "more\n")] {
        let written = json!({"filePath": server.scratch.path(name), "content": text});
        server.llm.reply(Reply::call("call_1", "write", written));
        server.llm.reply(Reply::text("done"));
        server.prompt(&id, name).await;
    }
    let messages = server.get(&format!("/session/{id}/message")).await.ok();
    let prompts: Vec<&Value> = messages.as_array().unwrap().iter().map(|it| &it["info"]).collect();
    let prompts = prompts.into_iter().filter(|info| info["role"] == "user");
    for (info, name) in prompts.zip(["b.txt", "c.txt"]) {
        let diffs = info["summary"]["diffs"].as_array().unwrap();
        assert_eq!(diffs.len(), 1, "{info}");
        assert_eq!((&diffs[0]["file"], &diffs[0]["status"]), (&json!(name), &json!("added")));
        assert!(diffs[0]["patch"].as_str().unwrap().contains("@@ -0,0 +1 @@"), "{info}");
    }
    assert_eq!(server.get(&format!("/session/{id}")).await.ok()["summary"]["files"], 2);
    server.finish().await;
}

#[tokio::test]
async fn the_screen_is_driven_by_events() {
    let server = Server::start().await;
    let mut events = server.events("/event").await;
    assert_eq!(server.post("/tui/append-prompt", json!({"text": "hi"})).await.ok(), true);
    let seen = events.until("tui.prompt.append").await;
    assert_eq!(seen.last().unwrap()["properties"], json!({"text": "hi"}));
    server.post("/tui/execute-command", json!({"command": "agent_cycle"})).await.ok();
    let seen = events.until("tui.command.execute").await;
    assert_eq!(seen.last().unwrap()["properties"], json!({"command": "agent.cycle"}));
    server.post("/tui/show-toast", json!({"message": "m", "variant": "info"})).await.ok();
    let seen = events.until("tui.toast.show").await;
    let toast = json!({"message": "m", "variant": "info", "duration": 5000});
    assert_eq!(seen.last().unwrap()["properties"], toast);
    server.post("/tui/select-session", json!({"sessionID": "ses_none"})).await.refused(404);
    server.post("/tui/show-toast", json!({"message": "m", "variant": "none"})).await.refused(400);
    drop(events);
    server.finish().await;
}

#[tokio::test]
async fn settings_are_written_where_they_are_read_and_hold() {
    let server = Server::start().await;
    let file = server.scratch.work.join("opencode.jsonc");
    fs::write(&file, "{\n  // mine\n  \"username\": \"one\"\n}\n").unwrap();
    assert_eq!(server.get("/config").await.ok()["username"], "one");
    let patched = server.send("PATCH", "/config", json!({"username": "two"})).await.ok();
    assert_eq!(patched["username"], "two");
    assert_eq!(fs::read_to_string(&file).unwrap(), "{\n  // mine\n  \"username\": \"two\"\n}\n");
    let refusal = server.send("PATCH", "/config", json!({"model": 3})).await.refused(400);
    assert!(refusal["data"]["message"].as_str().unwrap().contains("model"), "{refusal}");
    server.finish().await;
}

#[tokio::test]
async fn the_catalog_is_sent_once_and_named_by_a_tag() {
    let server = Server::start().await;
    let first = server.get("/provider").await;
    let tag = first.header("etag").unwrap().to_owned();
    let catalog = first.ok();
    assert!(catalog["all"].as_array().unwrap().len() > 100);
    let known = answer(server.request("GET", "/provider").header("if-none-match", &tag)).await;
    assert_eq!((known.status.as_u16(), known.text.as_str()), (304, ""));
    let usable = server.get("/config/providers").await.ok();
    let default = usable["default"].as_object().unwrap();
    assert_eq!(usable["providers"].as_array().unwrap().len(), default.len());
    server.finish().await;
}

#[tokio::test]
async fn servers_are_added_and_switched_by_name() {
    let server = Server::start().await;
    let config = json!({"type": "local", "command": ["no-such-program"]});
    let states = server.post("/mcp", json!({"name": "m", "config": config})).await.ok();
    assert_eq!(states["m"]["status"], "failed");
    assert_eq!(server.post("/mcp/m/disconnect", Value::Null).await.ok(), true);
    assert_eq!(server.get("/mcp").await.ok(), json!({"m": {"status": "disabled"}}));
    let refusal = server.post("/mcp/none/connect", Value::Null).await.refused(404);
    assert_eq!(refusal["_tag"], "McpServerNotFoundError");
    assert_eq!(server.send("DELETE", "/mcp/m", Value::Null).await.ok(), true);
    assert_eq!(server.get("/mcp").await.ok(), json!({}));
    server.send("DELETE", "/mcp/m", Value::Null).await.refused(404);
    server.finish().await;
}

#[tokio::test]
async fn the_page_runs_its_own_script_alone_and_draws_a_session_as_its_export() {
    let server = Server::start().await;
    server.llm.reply(Reply::text("a <b>bold</b> answer"));
    let id = server.session().await;
    server.prompt(&id, "hello").await;
    let page = server.get("/").await;
    let policy = page.header("content-security-policy").unwrap().to_owned();
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'nonce-"), "{policy}");
    let nonce = policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(page.text.contains(&format!("<script nonce=\"{nonce}\">")));
    assert!(!page.text.contains("{{"), "a gap of the page was left open");
    let drawn = server.get(&format!("/page/session/{id}")).await;
    assert!(drawn.status.is_success());
    assert!(drawn.text.contains("hello") && !drawn.text.contains("<b>bold</b>"));
    server.get("/page/session/ses_none").await.refused(404);
    server.finish().await;
}

/// A client's end of a WebSocket.
struct Socket(TcpStream);

impl Socket {
    /// Connects, and returns the status instead where the server refuses.
    async fn open(server: &Server, path: &str) -> Result<Self, u16> {
        let address = server.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let status = String::from_utf8(head).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        if status == 101 { Ok(Self(stream)) } else { Err(status) }
    }

    /// Reads a frame: its kind and content.
    async fn read(&mut self) -> (u8, Vec<u8>) {
        let kind = self.0.read_u8().await.unwrap() & 0x0f;
        let size = match self.0.read_u8().await.unwrap() & 0x7f {
            126 => usize::from(self.0.read_u16().await.unwrap()),
            127 => usize::try_from(self.0.read_u64().await.unwrap()).unwrap(),
            size => usize::from(size),
        };
        let mut content = vec![0; size];
        self.0.read_exact(&mut content).await.unwrap();
        (kind, content)
    }

    /// Reads text up to this one.
    async fn read_until(&mut self, wanted: &str) -> String {
        let mut text = String::new();
        while !text.contains(wanted) {
            let (kind, content) = self.read().await;
            if kind == 1 {
                text.push_str(str::from_utf8(&content).unwrap());
            }
        }
        text
    }

    /// Sends a short text; a mask of zeros leaves it as it is.
    async fn send(&mut self, text: &str) {
        let mut frame = vec![0x81, 0x80 | u8::try_from(text.len()).unwrap(), 0, 0, 0, 0];
        frame.extend_from_slice(text.as_bytes());
        self.0.write_all(&frame).await.unwrap();
    }
}

#[tokio::test]
async fn a_terminal_is_typed_into_and_replayed_from_a_cursor() {
    let server = Server::start().await;
    let mut events = server.events("/event").await;
    let body = json!({"command": "sh", "args": ["-c", "echo hello; read line; echo got $line; exit 3"]});
    let pty = server.post("/pty", body).await.ok();
    events.until("pty.created").await;
    let id = pty["id"].as_str().unwrap();
    assert_eq!(server.get("/pty").await.ok()[0]["id"], pty["id"]);
    let mut first = Socket::open(&server, &format!("/pty/{id}/connect")).await.ok().unwrap();
    first.read_until("hello\r\n").await;
    let mut second = Socket::open(&server, &format!("/pty/{id}/connect?cursor=5")).await.ok().unwrap();
    assert_eq!(second.read().await, (1, b"\r\n".to_vec()));
    assert_eq!(second.read().await, (2, b"\0{\"cursor\":7}".to_vec()));
    first.send("world\n").await;
    for socket in [&mut first, &mut second] {
        socket.read_until("got world\r\n").await;
        assert_eq!(socket.read().await, (8, 1000_u16.to_be_bytes().to_vec()));
    }
    let exited = events.until("pty.exited").await;
    assert_eq!(exited.last().unwrap()["properties"], json!({"id": id, "exitCode": 3}));
    // The output stays for a client that was away.
    let mut late = Socket::open(&server, &format!("/pty/{id}/connect")).await.ok().unwrap();
    late.read_until("got world\r\n").await;
    server.send("PUT", &format!("/pty/{id}"), json!({"size": {"rows": 0, "cols": 5}})).await.refused(400);
    server.send("DELETE", &format!("/pty/{id}"), Value::Null).await.ok();
    server.get(&format!("/pty/{id}")).await.refused(404);
    server.post("/pty", json!({"command": "no-such-program"})).await.refused(400);
    drop(events);
    server.finish().await;
}

#[tokio::test]
async fn a_ticket_connects_once() {
    let server = Server::builder().env("OPENCODE_SERVER_PASSWORD", "secret").start().await;
    let signed =
        |method: &str, path: &str| server.request(method, path).basic_auth("opencode", Some("secret"));
    let pty = answer(signed("POST", "/pty").body(r#"{"command": "cat"}"#)).await.ok();
    let id = pty["id"].as_str().unwrap();
    let path = format!("/pty/{id}/connect");
    assert_eq!(Socket::open(&server, &path).await.err(), Some(401));
    let token = format!("/pty/{id}/connect-token");
    let refusal = answer(signed("POST", &token)).await.refused(403);
    assert_eq!(refusal["_tag"], "PtyForbiddenError");
    let issued = answer(signed("POST", &token).header("x-opencode-ticket", "1")).await.ok();
    assert_eq!(issued["expires_in"], 60);
    let path = format!("{path}?ticket={}", issued["ticket"].as_str().unwrap());
    let mut socket = Socket::open(&server, &path).await.ok().unwrap();
    socket.read().await;
    assert_eq!(Socket::open(&server, &path).await.err(), Some(403));
    answer(signed("DELETE", &format!("/pty/{id}"))).await.ok();
    server.finish().await;
}

/// A server whose logins go to an issuer of the test, which has begun one for each device that asks.
async fn device_logins() -> (Web, Server) {
    let issuer = Web::start().await;
    let server = Server::builder().env("WINDLASS_LOGIN_ISSUER", &issuer.url("")).start().await;
    let begun = json!({
        "device_code": "dev-1", "user_code": "ABCD-1234", "interval": 0, "expires_in": 900,
        "verification_uri": "https://github.com/login/device",
    });
    issuer.page("/login/device/code", Page::new("application/json", begun.to_string()));
    (issuer, server)
}

fn granted_token() -> Page {
    Page::new("application/json", json!({"access_token": "token-1"}).to_string())
}

#[tokio::test]
async fn a_login_is_begun_by_one_request_and_ends_in_another() {
    let (issuer, server) = device_logins().await;
    issuer.page("/login/oauth/access_token", granted_token());
    let ways = server.get("/provider/auth").await.ok();
    assert_eq!(ways["github-copilot"][0]["type"], "oauth");
    assert_eq!(ways["anthropic"], json!([{"type": "api", "label": "API key"}]));
    let path = "/provider/github-copilot/oauth";
    let early = server.post(&format!("{path}/callback"), json!({"method": 0})).await.refused(400);
    assert_eq!(early["name"], "ProviderAuthOauthMissing");
    server.post(&format!("{path}/authorize"), json!({"method": 9})).await.refused(400);
    let login = server.post(&format!("{path}/authorize"), json!({"method": 0})).await.ok();
    assert_eq!(
        (&login["url"], &login["method"]),
        (&json!("https://github.com/login/device"), &json!("auto"))
    );
    assert!(login["instructions"].as_str().unwrap().contains("ABCD-1234"), "{login}");
    assert_eq!(server.post(&format!("{path}/callback"), json!({"method": 0})).await.ok(), true);
    let stored = server.scratch.home.join(".local/share/windlass/auth.json");
    assert!(fs::read_to_string(stored).unwrap().contains("token-1"));
    // The newer routes.
    let shown = server.get("/api/integration/github-copilot").await.ok()["data"]["methods"].clone();
    assert_eq!((&shown[0]["type"], &shown[1]), (&json!("oauth"), &json!({"type": "key"})));
    let connect = "/api/integration/github-copilot/connect/oauth";
    let refused = server.post(connect, json!({"methodID": "none", "inputs": {}})).await.refused(400);
    assert_eq!(refused["field"], "methodID");
    let body = json!({"methodID": shown[0]["id"], "inputs": {}});
    let attempt = server.post(connect, body.clone()).await.ok()["data"].clone();
    assert_eq!(
        (&attempt["url"], &attempt["mode"]),
        (&json!("https://github.com/login/device"), &json!("auto"))
    );
    let attempt = format!("/api/integration/attempt/{}", attempt["attemptID"].as_str().unwrap());
    assert_eq!(server.post(&format!("{attempt}/complete"), json!({})).await.status, 204);
    assert_eq!(server.get(&attempt).await.ok()["data"]["status"], "complete");
    assert_eq!(server.send("DELETE", &attempt, json!({})).await.status, 204);
    assert_eq!(server.get(&attempt).await.refused(400)["field"], "attemptID");
    // One that is still waited for is given up.
    issuer.skip("/login/oauth/access_token");
    let pending = json!({"error": "authorization_pending"}).to_string();
    issuer.page("/login/oauth/access_token", Page::new("application/json", pending));
    let pending =
        server.post(connect, body.clone()).await.ok()["data"]["attemptID"].as_str().unwrap().to_owned();
    let pending = format!("/api/integration/attempt/{pending}");
    assert_eq!(server.get(&pending).await.ok()["data"]["status"], "pending");
    assert_eq!(server.send("DELETE", &pending, json!({})).await.status, 204);
    assert_eq!(server.get(&pending).await.refused(400)["field"], "attemptID");
    // An issuer that refuses.
    issuer.skip("/login/device/code");
    issuer.page("/login/device/code", Page::status(400));
    let refused = server.post(&format!("{path}/authorize"), json!({"method": 0})).await.refused(400);
    assert_eq!(refused["name"], "ProviderAuthOauthCallbackFailed");
    server.finish().await;
}

#[tokio::test]
async fn a_deletion_is_made_whole_although_its_client_leaves() {
    let server = Server::start().await;
    let session = server.session().await;
    let command = "trap 'touch asked' TERM; touch begun; while :; do sleep 1; done";
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": command})));
    let parts = json!([{"type": "text", "text": "go"}]);
    server.post(&format!("/session/{session}/prompt_async"), json!({"parts": parts})).await;
    server.scratch.appears("begun").await;
    let mut events = server.events("/event").await;
    let address = server.url.strip_prefix("http://").unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    let request = format!("DELETE /session/{session} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    // The deletion waits for the command, which does not end at once.
    server.scratch.appears("asked").await;
    drop(client);
    events.until("session.deleted").await;
    server.get(&format!("/session/{session}")).await.refused(404);
    server.finish().await;
}

#[tokio::test]
async fn a_login_that_is_begun_again_ends_as_its_own_page_says() {
    let (issuer, server) = device_logins().await;
    let granted = Arc::new(Semaphore::new(0));
    issuer.page("/login/oauth/access_token", granted_token().behind(&granted));
    let connect = "/api/integration/github-copilot/connect/oauth";
    let shown = server.get("/api/integration/github-copilot").await.ok()["data"]["methods"].clone();
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let begun = server.post(connect, json!({"methodID": shown[0]["id"], "inputs": {}})).await.ok();
        let id = begun["data"]["attemptID"].as_str().unwrap();
        attempts.push(format!("/api/integration/attempt/{id}"));
    }
    let first_ends = async { while server.get(&attempts[0]).await.ok()["data"]["status"] == "pending" {} };
    tokio::time::timeout(DEADLINE, first_ends).await.expect("the first login has ended");
    granted.add_permits(Semaphore::MAX_PERMITS);
    assert_eq!(server.post(&format!("{}/complete", attempts[1]), json!({})).await.status, 204);
    assert_eq!(server.get(&attempts[1]).await.ok()["data"]["status"], "complete");
    server.finish().await;
}

/// The operations of OpenCode's document that are not served, and the reason.
const ABSENT: &[(&str, &str)] = &[
    ("experimental.controlPlane.", "moves sessions between machines of OpenCode's cloud"),
    ("experimental.projectCopy.", "copies of projects belong to remote workspaces"),
    ("experimental.workspace.remove", "remote workspaces are not offered"),
    ("experimental.workspace.warp", "remote workspaces are not offered"),
    ("sync.replay", "the store is not replicated"),
    ("sync.steal", "the store is not replicated"),
    ("v2.credential.update", "credentials have no labels"),
    ("v2.fs.read", "files are read by /file/content"),
    ("v2.permission.saved.remove", "remembered answers are managed by `windlass permission`"),
    ("v2.projectCopy.", "copies of projects belong to remote workspaces"),
    ("v2.provider.get", "the list of providers has all there is"),
    ("v2.session.events", "events come by /event and /global/event"),
    ("v2.session.history", "the store keeps messages, not the events that made them"),
    ("v2.session.permission.create", "permissions are asked for by tools"),
    ("v2.session.revert.commit", "the next prompt removes what is undone"),
];

#[tokio::test]
async fn the_document_has_opencodes_operations_but_for_a_reasoned_list() {
    let server = Server::start().await;
    let document = server.get("/doc").await.ok();
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/http_operations.txt")).unwrap();
    let known: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let mut problems = Vec::new();
    let mut n_served = 0;
    for operation in &known {
        let [method, path, id] = operation[..] else { panic!("{operation:?}") };
        let served = &document["paths"][path][method.to_lowercase()];
        let reason = ABSENT.iter().find(|(prefix, _)| id.starts_with(prefix));
        match (served["operationId"].as_str(), reason) {
            (Some(own), _) if own == id => n_served += 1,
            (Some(own), _) => problems.push(format!("{method} {path} is called {own}, not {id}")),
            (None, Some((_, reason))) => println!("{method} {path} ({id}) is absent: {reason}"),
            (None, None) => problems.push(format!("{method} {path} ({id}) is absent without a reason")),
        }
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let is_known = known.iter().any(|it| it[0].to_lowercase() == *method && it[1] == path);
            // Commands in the background and prompts that wait, which OpenCode has from its second version on only.
            let is_ours = [
                "/experimental/session/{sessionID}/job",
                "/api/session/{sessionID}/inbox",
                "/api/session/{sessionID}/wake",
                "/mcp/{name}",
            ]
            .iter()
            .any(|ours| path.starts_with(ours));
            if !is_known && !is_ours {
                problems.push(format!("{method} {path} ({}) is our own", operation["operationId"]));
            }
            let is_stream =
                ["/event", "/global/event", "/api/event", "/tui/control/next"].contains(&path.as_str());
            if method == "get" && !is_stream {
                // A path of the document leads to a route, with any answer.
                let path = path.replace(['{', '}'], "");
                let answer = server.get(&path).await;
                assert!(!answer.text.contains("There is no route"), "{path}: {}", answer.text);
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(n_served > 100, "{n_served}");
    server.finish().await;
}

#[tokio::test]
async fn language_servers_their_symbols_and_formatters_are_listed_and_changes_are_told() {
    let formatters = json!({"mine": {"command": ["true", "$FILE"], "extensions": ["txt"]},
        "ghost": {"command": ["./no-such-program"], "extensions": [".md"]}});
    let server = Server::builder()
        .config("lsp", json!({"toy": toy("strict", &[".toy"])}))
        .config("formatter", formatters)
        .start()
        .await;
    fs::write(server.scratch.work.join("a.toy"), "one\nfn wanted\nend\n").unwrap();
    assert_eq!(server.get("/lsp").await.ok(), json!([]), "none is started before a file needs it");
    let mut events = server.events("/event").await;
    let id = server.session().await;
    server.llm.reply(Reply::call("call_1", "read", json!({"filePath": server.scratch.path("a.toy")})));
    server.llm.reply(Reply::text("done"));
    server.prompt(&id, "read").await;
    let seen = events.until("lsp.updated").await;
    assert_eq!(seen.last().unwrap()["properties"], json!({}));
    let root = fs::canonicalize(&server.scratch.work).unwrap();
    let expected = json!([{"id": "toy", "name": "toy", "root": root, "status": "connected"}]);
    assert_eq!(server.get("/lsp").await.ok(), expected);
    // It knows the symbols of files that it was told of.
    let edit = json!({"filePath": server.scratch.path("a.toy"), "oldString": "one", "newString": "two"});
    server.llm.reply(Reply::call("call_2", "edit", edit));
    server.llm.reply(Reply::text("done"));
    server.prompt(&id, "edit").await;
    let uri = format!("file://{}", root.join("a.toy").display());
    let range = json!({"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 1}});
    let symbol = json!({"name": "wanted", "kind": 12, "location": {"uri": uri, "range": range}});
    assert_eq!(server.get("/find/symbol?query=want").await.ok(), json!([symbol]));
    assert_eq!(server.get("/find/symbol?query=none").await.ok(), json!([]));
    let states = server.get("/formatter").await.ok();
    let state = |name: &str| states.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap().clone();
    assert_eq!(state("mine"), json!({"name": "mine", "extensions": [".txt"], "enabled": true}));
    assert_eq!(state("ghost"), json!({"name": "ghost", "extensions": [".md"], "enabled": false}));
    assert_eq!(state("gofmt")["extensions"], json!([".go"]));
    drop(events);
    server.finish().await;
}
