//! Both ends of a connection, with the server's part written by the test.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// The server's end of a connection: what it reads, and what it says.
struct Server {
    pipe: DuplexStream,
    decoder: Decoder,
}

impl Server {
    async fn read(&mut self) -> Value {
        let mut chunk = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next().unwrap() {
                return message;
            }
            let n_bytes = self.pipe.read(&mut chunk).await.unwrap();
            assert_ne!(n_bytes, 0, "the client closed the connection");
            self.decoder.push(&chunk[..n_bytes]);
        }
    }

    async fn write(&mut self, message: Value) {
        self.pipe.write_all(&frame(&message)).await.unwrap();
    }
}

/// A connection that is served until it ends, and then ended for the reason.
fn connected() -> (Arc<Connection>, Server) {
    let connection = Arc::new(Connection::new("file:///p".to_owned(), json!({"a": 1})));
    let (ours, theirs) = duplex(64);
    let serving = connection.clone();
    tokio::spawn(async move {
        let (stdout, stdin) = tokio::io::split(ours);
        let end = serving.serve(stdout, stdin).await;
        serving.end(&end.map_or_else(|error| error.to_string(), |()| "closed".to_owned()));
    });
    (connection, Server { pipe: theirs, decoder: Decoder::default() })
}

fn asked(
    connection: &Arc<Connection>,
    method: &'static str,
    limit: Duration,
) -> tokio::task::JoinHandle<Outcome> {
    let connection = connection.clone();
    tokio::spawn(async move { connection.request(method, json!({}), limit).await })
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let (connection, mut server) = connected();
    let (one, two) = (asked(&connection, "one", LONG), asked(&connection, "two", LONG));
    let (first, second) = (server.read().await, server.read().await);
    let id_of =
        |method| [&first, &second].into_iter().find(|it| it["method"] == method).unwrap()["id"].clone();
    server.write(json!({"id": 77, "result": "nobody asked"})).await;
    server.write(json!({"id": id_of("two"), "error": {"code": -32801, "message": "busy"}})).await;
    server.write(json!({"id": id_of("one"), "result": [1]})).await;
    assert_eq!(one.await.unwrap(), Ok(json!([1])));
    let error = two.await.unwrap().unwrap_err();
    assert!(error.is_passing(), "{error}");
    assert_eq!(error.to_string(), "refused: busy (-32801)");
}

#[tokio::test]
async fn what_the_server_asks_is_answered() {
    let (_connection, mut server) = connected();
    server
        .write(
            json!({"id": "a", "method": "workspace/configuration", "params": {"items": [{"section": "a"}]}}),
        )
        .await;
    assert_eq!(server.read().await, json!({"jsonrpc": "2.0", "id": "a", "result": [1]}));
    server.write(json!({"id": 5, "method": "workspace/applyEdit", "params": {}})).await;
    let refused = server.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(METHOD_NOT_FOUND)));
}

#[tokio::test]
async fn a_server_hears_that_nobody_waits_any_more() {
    let (connection, mut server) = connected();
    let silent = asked(&connection, "slow", Duration::from_millis(20));
    let id = server.read().await["id"].clone();
    let limit = Duration::from_millis(20);
    assert_eq!(silent.await.unwrap(), Err(CallError::Silent { method: "slow", limit }));
    let told = server.read().await;
    assert_eq!((&told["method"], &told["params"]["id"]), (&json!("$/cancelRequest"), &id));
    let dropped = asked(&connection, "dropped", LONG);
    let id = server.read().await["id"].clone();
    dropped.abort();
    assert_eq!(server.read().await["params"]["id"], id);
}

#[tokio::test]
async fn every_request_fails_with_the_reason_of_the_end() {
    let (connection, mut server) = connected();
    let waiting = asked(&connection, "waiting", LONG);
    server.read().await;
    server.pipe.write_all(b"panic: no\n").await.unwrap();
    let reason =
        "wrote something to its standard output that is not the language server protocol: \"panic: no\\n\"";
    let ended = Err(CallError::Ended(reason.to_owned()));
    assert_eq!(waiting.await.unwrap(), ended);
    assert_eq!(connection.request("later", json!({}), LONG).await, ended);
    let (connection, server) = connected();
    let waiting = asked(&connection, "waiting", LONG);
    drop(server);
    assert_eq!(waiting.await.unwrap(), Err(CallError::Ended("closed".to_owned())));
}

#[tokio::test]
async fn what_the_server_works_at_is_known() {
    let (connection, mut server) = connected();
    let mut work = connection.work();
    let progress = |token: Value, kind: &str| json!({"method": "$/progress", "params": {"token": token, "value": {"kind": kind}}});
    server.write(progress(json!("index"), "begin")).await;
    server.write(progress(json!("index"), "report")).await;
    for no_name in [json!("x".repeat(MAX_TOKEN + 1)), json!({"deep": 1}), Value::Null] {
        server.write(progress(no_name, "begin")).await;
    }
    server.write(progress(json!(2), "begin")).await;
    server.write(json!({"method": "textDocument/publishDiagnostics", "params": {}})).await;
    let seen = work.wait_for(|it| it.has_looked).await.unwrap().clone();
    assert_eq!(seen.tokens, ["\"index\"".to_owned(), "2".to_owned()].into());
    server.write(progress(json!(2), "end")).await;
    server.write(progress(json!("index"), "end")).await;
    assert!(work.wait_for(|it| it.tokens.is_empty()).await.unwrap().has_looked);
}

#[tokio::test]
async fn a_server_may_write_before_it_reads_however_much_it_is_told() {
    let (connection, mut server) = connected();
    let text = "x".repeat(HIGH_WATER + 1);
    connection.notify("textDocument/didOpen", json!({ "text": text }));
    server.write(json!({"method": "$/progress", "params": {"token": 1, "value": {"kind": "begin"}}})).await;
    connection.work().wait_for(|it| !it.tokens.is_empty()).await.unwrap();
    assert_eq!(server.read().await["method"], "textDocument/didOpen");
}

#[tokio::test]
async fn a_server_that_does_not_read_what_it_is_asked_is_given_up() {
    let (connection, _server) = connected();
    let other = asked(&connection, "other", LONG);
    let limit = Duration::from_millis(20);
    let silent = connection.request("deaf", json!({ "text": "x".repeat(READ_BYTES) }), limit).await;
    assert_eq!(silent, Err(CallError::Silent { method: "deaf", limit }));
    assert_eq!(other.await.unwrap(), Err(CallError::Ended("did not read what it was asked".to_owned())));
}
