//! JSON-RPC with one language server over a pair of pipes: our requests by their ids, its own answered, its work noted.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    io,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, oneshot, watch},
};

use super::{
    framing::{Decoder, FramingError, frame},
    reply::reply,
};
use crate::base::{lock::lock, queue::Queue, stderr::MAX_LOG_BYTES, text};

/// Bytes of answers that wait to be read by the server before no more of its own requests are taken.
const HIGH_WATER: usize = 4 << 20;
const READ_BYTES: usize = 64 << 10;
/// Pieces of work that a server may have announced at once; more are not waited for.
const MAX_TOKENS: usize = 256;
/// Bytes of a name of such a piece.
const MAX_TOKEN: usize = 256;

/// JSON-RPC's and the protocol's own numbers.
pub const METHOD_NOT_FOUND: i64 = -32601;
const CONTENT_MODIFIED: i64 = -32801;
const SERVER_CANCELLED: i64 = -32802;

/// Why a request brought nothing. What it is about stands before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("refused: {message} ({code})")]
    Refused { code: i64, message: String },
    #[error("did not answer {method} within {limit:?}")]
    Silent { method: &'static str, limit: Duration },
    /// The connection is over, for this reason.
    #[error("{0}")]
    Ended(String),
}

impl CallError {
    /// Whether the same request may well be answered in a moment: the server was busy reading files.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Refused { code: CONTENT_MODIFIED | SERVER_CANCELLED, .. })
    }
}

/// What a server has told of its work.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// It has told what it found in a file, or has come to the end of something it did.
    pub has_looked: bool,
    /// What it is doing now.
    pub tokens: BTreeSet<String>,
}

type Outcome = Result<Value, CallError>;

/// Why a connection is over that the server has not closed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// Who waits for it would wait for ever.
    #[error("did not read what it was asked")]
    Deaf,
}

#[derive(Default)]
struct Pending {
    last_id: i64,
    waiting: HashMap<i64, oneshot::Sender<Outcome>>,
    /// Why nothing more will be answered.
    end: Option<String>,
}

/// Both ends of the conversation; [`Connection::serve`] carries it.
pub struct Connection {
    outgoing: Queue<Vec<u8>>,
    /// Bytes that were ever to be sent, and those that were.
    n_queued: AtomicU64,
    n_written: AtomicU64,
    /// A request ended unanswered that the server had not even read.
    deaf: Notify,
    pending: Mutex<Pending>,
    work: watch::Sender<Work>,
    /// The root's URL.
    root: String,
    /// What the server is told when it asks for its configuration.
    settings: Value,
}

impl Connection {
    pub fn new(root: String, settings: Value) -> Self {
        let outgoing = Queue::new(HIGH_WATER);
        Self {
            outgoing,
            n_queued: AtomicU64::default(),
            n_written: AtomicU64::default(),
            deaf: Notify::new(),
            pending: Mutex::default(),
            work: watch::Sender::default(),
            root,
            settings,
        }
    }

    /// What the server has told of its work, now and as it changes.
    pub fn work(&self) -> watch::Receiver<Work> {
        self.work.subscribe()
    }

    /// Says something that is not answered.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }), Weight::Ours);
    }

    /// Asks, and waits for the answer. The server is told when nobody waits any more.
    pub async fn request(&self, method: &'static str, params: Value, limit: Duration) -> Outcome {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut pending = lock(&self.pending);
            if let Some(reason) = &pending.end {
                return Err(CallError::Ended(reason.clone()));
            }
            pending.last_id += 1;
            let id = pending.last_id;
            pending.waiting.insert(id, sender);
            id
        };
        let _abandon_on_drop = Abandon { connection: self, id };
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let end = self.send(&request, Weight::Ours);
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(outcome)) => outcome,
            // The sender is only dropped with an answer sent, or by `end`, which sends one.
            Ok(Err(_)) => Err(CallError::Ended("ended".to_owned())),
            Err(_) => {
                if self.n_written.load(Ordering::Relaxed) < end {
                    self.deaf.notify_one();
                }
                Err(CallError::Silent { method, limit })
            }
        }
    }

    /// Reads and writes until the server closes a pipe, has written what cannot be read, or reads nothing.
    pub async fn serve(
        &self,
        stdout: impl AsyncRead + Unpin,
        stdin: impl AsyncWrite + Unpin,
    ) -> Result<(), ServeError> {
        tokio::select! {
            end = self.read(stdout) => Ok(end?),
            _ = self.write(stdin) => Ok(()),
            () = self.deaf.notified() => Err(ServeError::Deaf),
        }
    }

    /// Lets every request that waits, and every later one, fail for this reason.
    pub fn end(&self, reason: &str) {
        self.outgoing.close();
        let waiting = {
            let mut pending = lock(&self.pending);
            pending.end.get_or_insert_with(|| reason.to_owned());
            std::mem::take(&mut pending.waiting)
        };
        for sender in waiting.into_values() {
            // Nobody may wait any more.
            let _ = sender.send(Err(CallError::Ended(reason.to_owned())));
        }
    }

    /// Queues a message; how many bytes have to be written until it is.
    fn send(&self, message: &Value, weight: Weight) -> u64 {
        let bytes = frame(message);
        let n_bytes = bytes.len();
        let weight = match weight {
            Weight::Reply => n_bytes,
            Weight::Ours => 0,
        };
        let end = self.n_queued.fetch_add(n_bytes as u64, Ordering::Relaxed) + n_bytes as u64;
        self.outgoing.push(bytes, weight);
        end
    }

    async fn write(&self, mut stdin: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = VecDeque::new();
        while self.outgoing.next_batch(&mut batch).await {
            for bytes in batch.drain(..) {
                stdin.write_all(&bytes).await?;
                self.n_written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            stdin.flush().await?;
        }
        Ok(())
    }

    async fn read(&self, mut stdout: impl AsyncRead + Unpin) -> Result<(), FramingError> {
        let mut decoder = Decoder::default();
        let mut chunk = vec![0; READ_BYTES];
        loop {
            // A server that asks and does not read what it is answered is not listened to.
            self.outgoing.room().await;
            match stdout.read(&mut chunk).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(n_bytes) => decoder.push(&chunk[..n_bytes]),
            }
            while let Some(message) = decoder.next()? {
                self.receive(message);
            }
        }
    }

    fn receive(&self, mut message: Value) {
        let params = message.get("params").unwrap_or(&Value::Null);
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some(method), Some(id)) => {
                let mut answer = json!({ "jsonrpc": "2.0", "id": id });
                match reply(method, params, &self.root, &self.settings) {
                    Some(result) => answer["result"] = result,
                    None => {
                        let message = format!("windlass does not know {method}");
                        answer["error"] = json!({ "code": METHOD_NOT_FOUND, "message": message });
                    }
                }
                self.send(&answer, Weight::Reply);
            }
            (Some(method), None) => self.note(method, params),
            (None, _) => {
                let id = message.get("id").and_then(Value::as_i64);
                let sender = id.and_then(|id| lock(&self.pending).waiting.remove(&id));
                let Some(sender) = sender else { return };
                let outcome = match message.get("error") {
                    Some(error) => Err(refusal(error)),
                    None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
                };
                // Nobody may wait any more.
                let _ = sender.send(outcome);
            }
        }
    }

    fn note(&self, method: &str, params: &Value) {
        match method {
            "textDocument/publishDiagnostics" => {
                self.work.send_if_modified(|work| !std::mem::replace(&mut work.has_looked, true));
            }
            "$/progress" => {
                let kind = params.get("value").and_then(|it| it.get("kind")).and_then(Value::as_str);
                let token = params.get("token").filter(|it| match it {
                    Value::String(name) => name.len() <= MAX_TOKEN,
                    Value::Number(_) => true,
                    Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
                });
                let Some(token) = token.map(Value::to_string) else { return };
                self.work.send_if_modified(|work| match kind {
                    Some("begin") if work.tokens.len() < MAX_TOKENS => work.tokens.insert(token),
                    Some("end") => {
                        let was_known = work.tokens.remove(&token);
                        work.has_looked |= was_known;
                        was_known
                    }
                    Some(_) | None => false,
                });
            }
            "window/logMessage" | "window/showMessage" => {
                let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
                tracing::debug!(root = self.root, "{}", text::head(message, MAX_LOG_BYTES));
            }
            _ => {}
        }
    }
}

/// What holds up the reading of what the server says.
///
/// Only what its own requests bring about does: what we say may wait because the server writes first, and must be read.
enum Weight {
    Reply,
    Ours,
}

fn refusal(error: &Value) -> CallError {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    CallError::Refused {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: text::head(message, MAX_LOG_BYTES).to_owned(),
    }
}

/// Tells the server, when it is dropped, that nobody waits for the answer, unless that has come.
struct Abandon<'a> {
    connection: &'a Connection,
    id: i64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        let was_waiting = lock(&self.connection.pending).waiting.remove(&self.id).is_some();
        if was_waiting {
            self.connection.notify("$/cancelRequest", json!({ "id": self.id }));
        }
    }
}

#[cfg(test)]
mod tests;
