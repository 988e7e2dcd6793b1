//! The Agent Client Protocol by requests and streams of events, at the address of `windlass serve`.

use reqwest::RequestBuilder;
use serde_json::{Value, json};

use crate::support::{
    llm::Reply,
    server::{Answer, Events, Server, answer, stream},
};

/// A client, and its stream.
struct Client<'a> {
    server: &'a Server,
    id: String,
    stream: Events,
}

fn message(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn post(server: &Server, body: &Value) -> RequestBuilder {
    server.request("POST", "/acp").header("Content-Type", "application/json").body(body.to_string())
}

async fn greet(server: &Server) -> Answer {
    answer(post(server, &message(0, "initialize", json!({"protocolVersion": 1})))).await
}

impl<'a> Client<'a> {
    async fn connect(server: &'a Server) -> Self {
        let greeted = greet(server).await;
        let id = greeted.header("acp-connection-id").unwrap().to_owned();
        assert_eq!(greeted.ok()["result"]["protocolVersion"], 1);
        let stream = stream(server.request("GET", "/acp").header("Acp-Connection-Id", &id)).await;
        Self { server, id, stream }
    }

    async fn say(&self, body: Value) {
        let taken = answer(post(self.server, &body).header("Acp-Connection-Id", &self.id)).await;
        assert_eq!((taken.status.as_u16(), taken.text.as_str()), (202, ""));
    }

    async fn of_session(&self, session: &str) -> Events {
        let request = self.server.request("GET", "/acp").header("Acp-Connection-Id", &self.id);
        stream(request.header("Acp-Session-Id", session)).await
    }

    /// Opens a session, and its stream.
    async fn open(&mut self) -> (String, Events) {
        self.say(message(1, "session/new", json!({"cwd": self.server.scratch.cwd(), "mcpServers": []})))
            .await;
        let opened = until(&mut self.stream, |it| it["id"] == 1).await;
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        let events = self.of_session(&session).await;
        (session, events)
    }
}

/// Returns the next message that is wanted.
async fn until(events: &mut Events, is_wanted: impl Fn(&Value) -> bool) -> Value {
    loop {
        let message = events.next().await;
        if is_wanted(&message) {
            return message;
        }
    }
}

#[tokio::test]
async fn a_conversation_goes_on_by_requests_and_streams() {
    let server = Server::asking("bash").await;
    let mut client = Client::connect(&server).await;
    let (session, mut events) = client.open().await;
    server.llm.reply(Reply::call("call_1", "bash", json!({"command": "echo hi", "description": "Greet"})));
    server.llm.reply(Reply::text("All is done."));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    client.say(message(2, "session/prompt", prompt)).await;
    let asked = until(&mut events, |it| it["method"] == "session/request_permission").await;
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "once"}});
    client.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome})).await;
    until(&mut events, |it| it["params"]["update"]["content"]["text"] == "All is done.").await;
    let ended = until(&mut events, |it| it["id"] == 2).await;
    assert_eq!(ended["result"]["stopReason"], "end_turn");
    let id = client.id.clone();
    let gone = answer(server.request("DELETE", "/acp").header("Acp-Connection-Id", &id)).await;
    assert_eq!(gone.status, 202);
    assert_eq!(client.stream.read().await, None);
    server.finish().await;
}

#[tokio::test]
async fn several_clients_have_their_own_ids_and_sessions() {
    let server = Server::start().await;
    let (mut first, mut second) = (Client::connect(&server).await, Client::connect(&server).await);
    assert_ne!(first.id, second.id);
    let ((one, mut events), (two, _)) = (first.open().await, second.open().await);
    assert_ne!(one, two);
    server.llm.reply(Reply::text("For the first."));
    let prompt = json!({"sessionId": one, "prompt": [{"type": "text", "text": "go"}]});
    first.say(message(2, "session/prompt", prompt.clone())).await;
    let ended = until(&mut events, |it| it["id"] == 2).await;
    assert_eq!(ended["result"]["stopReason"], "end_turn");
    // The second client has not opened it.
    second.say(message(2, "session/prompt", prompt)).await;
    let refused = until(&mut second.stream, |it| it["id"] == 2).await;
    assert_eq!(refused["error"]["code"], -32002);
    server.finish().await;
}

#[tokio::test]
async fn what_is_no_message_of_a_connection_is_refused_with_the_reason() {
    let server = Server::start().await;
    let list = message(1, "session/list", json!({}));
    assert!(answer(post(&server, &list)).await.refused(400).to_string().contains("Acp-Connection-Id"));
    let unknown = post(&server, &list).header("Acp-Connection-Id", "nothing");
    assert!(answer(unknown).await.refused(404).to_string().contains("initialize"));
    answer(post(&server, &json!([list]))).await.refused(501);
    answer(server.request("POST", "/acp").header("Content-Type", "text/plain").body("{}")).await.refused(415);
    let broken = server.request("POST", "/acp").header("Content-Type", "application/json").body("{");
    answer(broken).await.refused(400);
    answer(server.request("GET", "/acp").header("Accept", "text/html")).await.refused(406);
    answer(server.request("GET", "/acp")).await.refused(400);
    answer(server.request("DELETE", "/acp").header("Acp-Connection-Id", "nothing")).await.refused(404);

    let client = Client::connect(&server).await;
    let again = server.request("GET", "/acp").header("Acp-Connection-Id", &client.id);
    answer(again).await.refused(409);
    let two_sessions = message(1, "session/close", json!({"sessionId": "ses_1"}));
    let two_sessions = post(&server, &two_sessions).header("Acp-Connection-Id", &client.id);
    answer(two_sessions.header("Acp-Session-Id", "ses_2")).await.refused(400);
    // An `initialize` that is refused begins no connection.
    let refused = answer(post(&server, &message(0, "initialize", json!({"protocolVersion": []})))).await;
    assert_eq!(refused.header("acp-connection-id"), None);
    assert_eq!(refused.ok()["error"]["code"], -32602);
    server.finish().await;
}

#[tokio::test]
async fn a_load_shows_its_history_in_the_sessions_stream() {
    let server = Server::start().await;
    let mut client = Client::connect(&server).await;
    let (session, mut events) = client.open().await;
    server.llm.reply(Reply::text("Remember me."));
    let prompt = json!({"sessionId": session, "prompt": [{"type": "text", "text": "go"}]});
    client.say(message(2, "session/prompt", prompt)).await;
    until(&mut events, |it| it["id"] == 2).await;

    let other = Client::connect(&server).await;
    let mut shown = other.of_session(&session).await;
    let place = json!({"sessionId": session, "cwd": server.scratch.cwd(), "mcpServers": []});
    other.say(message(1, "session/load", place)).await;
    until(&mut shown, |it| it["params"]["update"]["content"]["text"] == "Remember me.").await;
    until(&mut shown, |it| it["id"] == 1).await;
    server.finish().await;
}

#[tokio::test]
async fn the_servers_password_is_wanted_and_a_websocket_names_its_connection() {
    let server = Server::builder().env("OPENCODE_SERVER_PASSWORD", "secret").start().await;
    assert_eq!(greet(&server).await.status, 401);
    let hello = post(&server, &message(0, "initialize", json!({"protocolVersion": 1})));
    let greeted = answer(hello.basic_auth("opencode", Some("secret"))).await;
    assert!(greeted.header("acp-connection-id").is_some());
    let upgrade = server.request("GET", "/acp").basic_auth("opencode", Some("secret"));
    let upgrade = upgrade
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
    let switched = upgrade.send().await.unwrap();
    assert_eq!(switched.status(), 101);
    assert!(switched.headers().contains_key("acp-connection-id"));
    drop(switched);
    server.finish().await;
}
