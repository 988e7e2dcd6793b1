//! Both ends of a connection, with the other's part written by the test.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// The other end of a connection: the messages that it reads, and those that it sends.
struct Other {
    pipe: DuplexStream,
    decoder: Decoder,
    framing: Framing,
}

impl Other {
    async fn read(&mut self) -> Value {
        let mut chunk = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return message;
            }
            let n_bytes = self.pipe.read(&mut chunk).await.unwrap();
            assert_ne!(n_bytes, 0, "the peer closed the connection");
            self.decoder.push(&chunk[..n_bytes]);
        }
    }

    async fn write(&mut self, message: Value) {
        self.pipe.write_all(&self.framing.encode(&message)).await.unwrap();
    }
}

/// Returns a peer that is served until it ends, and then ended for the reason. It answers `double` and refuses
/// anything else.
fn connected(framing: Framing) -> (Arc<Peer>, Other) {
    let peer = Arc::new(Peer::new(framing, "cancel"));
    let (ours, theirs) = duplex(64);
    let serving = peer.clone();
    tokio::spawn(async move {
        let (reader, writer) = tokio::io::split(ours);
        let on_incoming = |incoming: Incoming| match incoming {
            Incoming::Request { id, method, params } if method == "double" => {
                serving.answer(&id, Ok(json!([params, params])));
            }
            Incoming::Request { id, .. } => {
                serving.answer(&id, Err((METHOD_NOT_FOUND, "unknown".to_owned())));
            }
            Incoming::Notification { method, params } => serving.notify(&format!("heard {method}"), params),
        };
        let end = serving.serve(reader, writer, on_incoming).await;
        serving.end(&end.map_or_else(|error| error.to_string(), |()| "closed".to_owned()));
    });
    (peer, Other { pipe: theirs, decoder: Decoder::new(framing), framing })
}

fn asked(peer: &Arc<Peer>, method: &'static str, limit: Duration) -> tokio::task::JoinHandle<Outcome> {
    let peer = peer.clone();
    tokio::spawn(async move { peer.request(method, json!({}), limit).await })
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let (peer, mut other) = connected(Framing::ContentLength);
    let (one, two) = (asked(&peer, "one", LONG), asked(&peer, "two", LONG));
    let (first, second) = (other.read().await, other.read().await);
    let id_of =
        |method| [&first, &second].into_iter().find(|it| it["method"] == method).unwrap()["id"].clone();
    other.write(json!({"id": 77, "result": "nobody asked"})).await;
    other.write(json!({"id": id_of("two"), "error": {"code": -32801, "message": "busy"}})).await;
    other.write(json!({"id": id_of("one"), "result": [1]})).await;
    assert_eq!(one.await.unwrap(), Ok(json!([1])));
    let error = two.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "refused: busy (-32801)");
}

#[tokio::test]
async fn what_the_other_asks_is_answered_in_either_framing() {
    for framing in [Framing::ContentLength, Framing::Lines] {
        let (_peer, mut other) = connected(framing);
        other.write(json!({"id": "a", "method": "double", "params": 2})).await;
        assert_eq!(other.read().await, json!({"jsonrpc": "2.0", "id": "a", "result": [2, 2]}));
        other.write(json!({"id": 5, "method": "halve", "params": {}})).await;
        let refused = other.read().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(5), &json!(METHOD_NOT_FOUND)));
        other.write(json!({"method": "news"})).await;
        assert_eq!(other.read().await["method"], "heard news");
    }
}

#[tokio::test]
async fn the_other_hears_that_nobody_waits_any_more() {
    let (peer, mut other) = connected(Framing::ContentLength);
    let silent = asked(&peer, "slow", Duration::from_millis(20));
    let id = other.read().await["id"].clone();
    let limit = Duration::from_millis(20);
    assert_eq!(silent.await.unwrap(), Err(CallError::Silent { method: "slow", limit }));
    let told = other.read().await;
    assert_eq!((&told["method"], &told["params"]["id"]), (&json!("cancel"), &id));
    let dropped = asked(&peer, "dropped", LONG);
    let id = other.read().await["id"].clone();
    dropped.abort();
    assert_eq!(other.read().await["params"]["id"], id);
}

#[tokio::test]
async fn every_request_fails_with_the_reason_of_the_end() {
    let (peer, mut other) = connected(Framing::ContentLength);
    let waiting = asked(&peer, "waiting", LONG);
    other.read().await;
    other.pipe.write_all(b"panic: no\n").await.unwrap();
    let reason = "wrote something to its standard output that is not its protocol: \"panic: no\\n\"";
    let ended = Err(CallError::Ended(reason.to_owned()));
    assert_eq!(waiting.await.unwrap(), ended);
    assert_eq!(peer.request("later", json!({}), LONG).await, ended);
    let (peer, other) = connected(Framing::ContentLength);
    let waiting = asked(&peer, "waiting", LONG);
    drop(other);
    assert_eq!(waiting.await.unwrap(), Err(CallError::Ended("closed".to_owned())));
}

#[tokio::test]
async fn the_other_may_write_before_it_reads_however_much_it_is_told() {
    let (peer, mut other) = connected(Framing::ContentLength);
    let text = "x".repeat(HIGH_WATER + 1);
    peer.notify("first", json!({ "text": text }));
    let waiting = asked(&peer, "second", LONG);
    other.write(json!({"method": "news"})).await;
    assert_eq!(other.read().await["method"], "first");
    let mut seen = [other.read().await, other.read().await];
    seen.sort_by_key(|it| it["method"].to_string());
    assert_eq!(seen[0]["method"], "heard news");
    other.write(json!({"id": seen[1]["id"], "result": 1})).await;
    assert_eq!(waiting.await.unwrap(), Ok(json!(1)));
}

#[tokio::test]
async fn one_that_does_not_read_what_it_is_asked_is_given_up() {
    let (peer, _other) = connected(Framing::ContentLength);
    let other = asked(&peer, "other", LONG);
    let limit = Duration::from_millis(20);
    let silent = peer.request("deaf", json!({ "text": "x".repeat(READ_BYTES) }), limit).await;
    assert_eq!(silent, Err(CallError::Silent { method: "deaf", limit }));
    assert_eq!(other.await.unwrap(), Err(CallError::Ended("did not read what it was asked".to_owned())));
}
