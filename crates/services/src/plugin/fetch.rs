//! Requests to providers that a plugin's own function sends: the body goes out and the answer comes back in pieces.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use windlass_base::{lock::lock, rpc_peer::CallError, text};

use super::{fetches::Piece, process::Process};

/// Bytes of a request's body that are handed over at once.
const MAX_PIECE: usize = 1 << 20;
/// Time limit for the start of an answer; the provider's own is shorter.
const LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// The start of an answer, and its body.
pub struct Fetched {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: FetchedBody,
}

/// The reason why there is no answer, as a sentence.
pub enum Unsent {
    /// The provider was not reached, or broke the connection.
    Broken(String),
    /// The plugin refused the request, or does not run.
    Refused(String),
}

/// The body of an answer. Dropped, it ends the request.
pub struct FetchedBody {
    process: Arc<Process>,
    stream: u64,
    pieces: mpsc::UnboundedReceiver<Piece>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Head {
        status: u16,
        headers: Vec<(String, String)>,
    },
    /// The provider was not reached, for this reason.
    Broken {
        broken: String,
    },
}

/// Sends a request by the function that a plugin has for a provider; the inner error says why that was not reached.
pub(super) async fn fetch(
    process: &Arc<Process>,
    provider: &str,
    url: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Result<Result<Fetched, String>, CallError> {
    let fetches = &process.fetches;
    let stream = fetches.last.fetch_add(1, Ordering::Relaxed);
    let (sender, pieces) = mpsc::unbounded_channel();
    lock(&fetches.streams).insert(stream, sender);
    let body_of_answer = FetchedBody { process: process.clone(), stream, pieces };
    let whole = String::from_utf8_lossy(body);
    let mut rest = &*whole;
    while !rest.is_empty() {
        let piece = text::head(rest, MAX_PIECE);
        process.notify("fetch/body", json!({ "stream": stream, "text": piece }));
        rest = &rest[piece.len()..];
    }
    let params = json!({ "provider": provider, "stream": stream, "url": url, "headers": headers });
    let answer = process.request("fetch", params, LIMIT).await?;
    let unreadable =
        |_| CallError::Refused { code: 0, message: "the plugin returned no response".to_owned() };
    match serde_json::from_value(answer).map_err(unreadable)? {
        Answer::Head { status, headers } => Ok(Ok(Fetched { status, headers, body: body_of_answer })),
        Answer::Broken { broken } => Ok(Err(broken)),
    }
}

impl FetchedBody {
    /// Returns the next bytes; `None` behind the last.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, String>> {
        match self.pieces.recv().await {
            Some(Piece::Bytes(id, bytes)) => {
                self.process.answer(&id, Ok(()));
                Some(Ok(bytes))
            }
            Some(Piece::End(None)) => None,
            Some(Piece::End(Some(reason))) => Some(Err(reason)),
            None => Some(Err("the host of plugins has ended".to_owned())),
        }
    }
}

impl Drop for FetchedBody {
    fn drop(&mut self) {
        // Closed bodies are known to be closed there.
        if lock(&self.process.fetches.streams).remove(&self.stream).is_some() {
            self.process.notify("fetch/cancel", json!({ "stream": self.stream }));
        }
    }
}
