//! One end of JSON-RPC over a pair of pipes: our requests by their ids, the other's handed to the caller that
//! serves them.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io::{self, Write},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Notify, oneshot},
};

use self::framing::{Decoder, Framing, FramingError};
use super::{lock::lock, queue::Queue, stderr::MAX_LOG_BYTES, text};

pub mod framing;

/// Bytes of answers that wait to be read by the other before no more of its own requests are taken.
const HIGH_WATER: usize = 4 << 20;
const READ_BYTES: usize = 64 << 10;

/// JSON-RPC's own number.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// Reason why a request brought nothing. The sentence goes on after the other's name.
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

pub type Outcome = Result<Value, CallError>;

/// A request or notification of the other side.
#[derive(Debug)]
pub enum Incoming {
    /// A request, which needs one [`Peer::answer`].
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
}

/// Reason why a connection ended that the other has not closed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The other no longer reads our requests, so no answer can come.
    #[error("did not read what it was asked")]
    Unresponsive,
}

#[derive(Default)]
struct Pending {
    last_id: i64,
    waiting: HashMap<i64, oneshot::Sender<Outcome>>,
    /// Reason why nothing more will be answered.
    end: Option<String>,
}

/// Our end of the conversation; [`Peer::serve`] carries it.
pub struct Peer {
    framing: Framing,
    /// The notification that cancels a request at the other; its `id` is the request's.
    cancel: &'static str,
    outgoing: Queue<Vec<u8>>,
    /// The pipe itself, where messages are written at once while none is queued.
    direct: Mutex<Option<File>>,
    /// Bytes that were ever to be sent, and those that were.
    n_queued: AtomicU64,
    n_written: AtomicU64,
    /// A request ended unanswered that the other had not even read.
    deaf: Notify,
    pending: Mutex<Pending>,
}

impl Peer {
    pub fn new(framing: Framing, cancel: &'static str) -> Self {
        Self {
            framing,
            cancel,
            outgoing: Queue::new(HIGH_WATER),
            direct: Mutex::default(),
            n_queued: AtomicU64::default(),
            n_written: AtomicU64::default(),
            deaf: Notify::new(),
            pending: Mutex::default(),
        }
    }

    /// Has messages written at once as far as the pipe takes them, which must not block, until the guard is dropped:
    /// that spares the writer's task a turn for each.
    pub fn write_at_once(&self, pipe: File) -> impl Drop + use<'_> {
        *lock(&self.direct) = Some(pipe);
        EndDirect(&self.direct)
    }

    /// Says something that is not answered.
    pub fn notify(&self, method: &str, params: Value) {
        self.send(&message([("method", method.into()), ("params", params)]), Weight::Ours);
    }

    /// Sends a request and waits for the answer. Dropped, it cancels the request at the other.
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
        let _abandon_on_drop = Abandon { peer: self, id };
        let request = message([("id", id.into()), ("method", method.into()), ("params", params)]);
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

    /// Answers a request of the other's: a result, or the number and the words of an error.
    pub fn answer(&self, id: &Value, result: Result<Value, (i64, String)>) {
        let answer = match result {
            Ok(result) => message([("id", id.clone()), ("result", result)]),
            Err((code, words)) => {
                message([("id", id.clone()), ("error", json!({ "code": code, "message": words }))])
            }
        };
        self.send(&answer, Weight::Reply);
    }

    /// Reads and writes until the other closes a pipe, has written a message that cannot be read, or reads nothing. Its
    /// requests and notifications go to `on_incoming`, in its order.
    pub async fn serve(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
        on_incoming: impl FnMut(Incoming),
    ) -> Result<(), ServeError> {
        tokio::select! {
            end = self.read(reader, on_incoming) => Ok(end?),
            _ = self.write(writer) => Ok(()),
            () = self.deaf.notified() => Err(ServeError::Unresponsive),
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

    /// Queues a message, and returns how many bytes have to be written until it is sent.
    fn send(&self, message: &Value, weight: Weight) -> u64 {
        let mut bytes = self.framing.encode(message);
        let n_bytes = bytes.len();
        let direct = lock(&self.direct);
        let n_before = self.n_queued.fetch_add(n_bytes as u64, Ordering::Relaxed);
        if let Some(pipe) = direct.as_ref()
            && self.n_written.load(Ordering::Acquire) == n_before
        {
            // A write that fails now fails in the writer's task too, which ends the connection.
            let n_written = (&*pipe).write(&bytes).unwrap_or(0);
            self.n_written.fetch_add(n_written as u64, Ordering::Release);
            bytes.drain(..n_written);
        }
        if !bytes.is_empty() {
            let weight = match weight {
                Weight::Reply => bytes.len(),
                Weight::Ours => 0,
            };
            self.outgoing.push(bytes, weight);
        }
        n_before + n_bytes as u64
    }

    async fn write(&self, mut writer: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut batch = VecDeque::new();
        while self.outgoing.next_batch(&mut batch).await {
            for bytes in batch.drain(..) {
                writer.write_all(&bytes).await?;
                self.n_written.fetch_add(bytes.len() as u64, Ordering::Release);
            }
            writer.flush().await?;
        }
        Ok(())
    }

    async fn read(
        &self,
        mut reader: impl AsyncRead + Unpin,
        mut on_incoming: impl FnMut(Incoming),
    ) -> Result<(), FramingError> {
        let mut decoder = Decoder::new(self.framing);
        let mut chunk = vec![0; READ_BYTES];
        loop {
            // A peer that asks and does not read the answers is not listened to.
            self.outgoing.room().await;
            match reader.read(&mut chunk).await {
                Ok(0) | Err(_) => return Ok(()),
                Ok(n_bytes) => decoder.push(&chunk[..n_bytes]),
            }
            while let Some(message) = decoder.next_message()? {
                if let Some(incoming) = self.receive(message) {
                    on_incoming(incoming);
                }
            }
        }
    }

    /// Hands an answer to the caller that waits for it, and returns anything else.
    fn receive(&self, mut message: Value) -> Option<Incoming> {
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        match (message.get("method").and_then(Value::as_str), message.get("id")) {
            (Some(method), Some(id)) => {
                Some(Incoming::Request { id: id.clone(), method: method.to_owned(), params })
            }
            (Some(method), None) => Some(Incoming::Notification { method: method.to_owned(), params }),
            (None, _) => {
                let id = message.get("id").and_then(Value::as_i64);
                let sender = id.and_then(|id| lock(&self.pending).waiting.remove(&id))?;
                let outcome = match message.get("error") {
                    Some(error) => Err(refusal(error)),
                    None => Ok(message.get_mut("result").map(Value::take).unwrap_or_default()),
                };
                // Nobody may wait any more.
                let _ = sender.send(outcome);
                None
            }
        }
    }
}

/// Makes a message of its fields, without a copy of them.
fn message<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let version = ("jsonrpc", Value::from("2.0"));
    let fields = std::iter::once(version).chain(fields);
    Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

/// Ends the writing at once, so that the pipe can close.
struct EndDirect<'a>(&'a Mutex<Option<File>>);

impl Drop for EndDirect<'_> {
    fn drop(&mut self) {
        *lock(self.0) = None;
    }
}

/// Kind of message, which decides if it may hold up the reading of the other's messages.
///
/// Only our answers do: our own messages may wait because the other writes first, and must be read.
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

/// Cancels the request at the other when it is dropped, unless the answer has come.
struct Abandon<'a> {
    peer: &'a Peer,
    id: i64,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        let was_waiting = lock(&self.peer.pending).waiting.remove(&self.id).is_some();
        if was_waiting {
            self.peer.notify(self.peer.cancel, json!({ "id": self.id }));
        }
    }
}

#[cfg(test)]
mod tests;
