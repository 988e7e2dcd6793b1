//! Both ends of a connection, with the server's part written by the test.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use windlass_base::rpc_peer::framing::Decoder;

use super::*;

/// The server's end of a connection: the messages that it reads, and those that it sends.
struct Server {
    pipe: DuplexStream,
    decoder: Decoder,
}

impl Server {
    async fn read(&mut self) -> Value {
        let mut chunk = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return message;
            }
            let n_bytes = self.pipe.read(&mut chunk).await.unwrap();
            assert_ne!(n_bytes, 0, "the client closed the connection");
            self.decoder.push(&chunk[..n_bytes]);
        }
    }

    async fn write(&mut self, message: Value) {
        self.pipe.write_all(&Framing::ContentLength.encode(&message)).await.unwrap();
    }
}

/// Returns a connection that is served until it ends.
fn connected() -> (Arc<Connection>, Server) {
    let connection = Arc::new(Connection::new("file:///p".to_owned(), json!({"a": 1})));
    let (ours, theirs) = duplex(64);
    let serving = connection.clone();
    tokio::spawn(async move {
        let (stdout, stdin) = tokio::io::split(ours);
        // The test sees the end at its own side.
        let _ = serving.serve(stdout, stdin).await;
    });
    (connection, Server { pipe: theirs, decoder: Decoder::new(Framing::ContentLength) })
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

#[test]
fn a_server_that_is_busy_is_asked_again() {
    let refused = |code| CallError::Refused { code, message: "busy".to_owned() };
    assert!(is_passing(&refused(CONTENT_MODIFIED)) && is_passing(&refused(SERVER_CANCELLED)));
    assert!(!is_passing(&refused(METHOD_NOT_FOUND)) && !is_passing(&CallError::Ended(String::new())));
}
