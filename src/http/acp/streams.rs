//! The streams of a connection over HTTP: the one that each line takes, and the lines that wait for its reader.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::timeout,
};
use windlass_base::lock::lock;
use windlass_protocol::rpc::{self, Id, Incoming};

/// Streams of a connection that are read although their session is not open there.
const MAX_STRANGERS: usize = 16;
/// Bytes that a reader takes at once.
const MAX_CHUNK: usize = 64 << 10;

/// Bounds of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that may wait for readers before the protocol waits as well.
    pub unread: usize,
    /// Time for which readers may take nothing of so much.
    pub stall: Duration,
    /// Time for which no stream may have a reader.
    pub unattended: Duration,
}

/// A stream by its session; the connection's own has none.
pub type Key = Option<String>;

/// The streams of one connection.
#[derive(Debug)]
pub struct Streams {
    state: Mutex<State>,
    limits: Limits,
    /// A reader has taken something.
    drained: Notify,
    n_readers: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct State {
    streams: HashMap<Key, Stream>,
    /// Subagents that were announced, and the session with the stream that announced them.
    subagents: HashMap<String, Key>,
    /// Requests of the client that are not answered yet.
    asked: HashMap<Id, Asked>,
    /// Takes the answer to `initialize`, which no stream carries.
    first: Option<oneshot::Sender<First>>,
    /// Bytes of all lines that wait.
    weight: usize,
    is_closed: bool,
}

/// Lines on their way to one reader.
#[derive(Debug, Default)]
struct Stream {
    frames: VecDeque<Bytes>,
    is_read: bool,
    /// The client has opened the session, or is opening it.
    is_open: bool,
    arrived: Arc<Notify>,
}

/// A request that the client has made.
#[derive(Debug)]
struct Asked {
    session: Key,
    effect: Effect,
}

/// Effect of a request on the sessions that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    None,
    /// The answer names a session that is open from then on.
    Makes,
    /// The request's session is open unless the answer is an error.
    Opens,
    /// The request's session is closed unless the answer is an error.
    Closes,
}

/// The answer to `initialize`.
#[derive(Debug)]
pub struct First {
    pub line: String,
    pub is_error: bool,
}

/// Reason that a stream cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// Another request reads it.
    Taken,
    /// Too many streams of sessions that are not open are read.
    Stranger,
    /// The connection has ended.
    Closed,
}

impl Effect {
    pub fn of(method: &str) -> Self {
        match method {
            "session/new" | "session/fork" => Self::Makes,
            "session/load" | "session/resume" => Self::Opens,
            "session/close" | "session/delete" | "session/archive" => Self::Closes,
            _ => Self::None,
        }
    }
}

impl Streams {
    /// Makes the streams of a connection. Its first line answers `initialize`, by way of the receiver.
    pub fn new(limits: Limits) -> (Arc<Self>, oneshot::Receiver<First>) {
        let (first, answered) = oneshot::channel();
        let mut state = State { first: Some(first), ..State::default() };
        state.streams.insert(None, Stream { is_open: true, ..Stream::default() });
        let n_readers = watch::Sender::new(0);
        let state = Mutex::new(state);
        (Arc::new(Self { state, limits, drained: Notify::new(), n_readers }), answered)
    }

    /// Notes a request before the protocol gets it.
    pub fn note_request(&self, id: Id, session: Key, effect: Effect) {
        let mut state = lock(&self.state);
        if effect == Effect::Opens {
            // A load shows its history before it is answered.
            state.streams.entry(session.clone()).or_default().is_open = true;
        }
        state.asked.insert(id, Asked { session, effect });
    }

    /// Puts a line of the protocol into its stream. Waits while too much is unread, and returns false if nothing is
    /// read for too long.
    pub async fn route(&self, line: String) -> bool {
        self.push(line);
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Registers before the check, so that a reader in between is not missed.
            drained.as_mut().enable();
            if lock(&self.state).weight < self.limits.unread {
                return true;
            }
            if timeout(self.limits.stall, drained).await.is_err() {
                return false;
            }
        }
    }

    fn push(&self, line: String) {
        let mut state = lock(&self.state);
        let Some(key) = state.key_of(&line) else {
            let is_error =
                matches!(rpc::parse(line.as_bytes()), Some(Ok(Incoming::Response { result: Err(_), .. })));
            if let Some(first) = state.first.take() {
                // The client has left; the connection ends without a reader.
                let _ = first.send(First { line, is_error });
            }
            return;
        };
        let frame = Bytes::from(format!("data: {line}\n\n"));
        state.weight += frame.len();
        let stream = state.streams.entry(key).or_default();
        stream.frames.push_back(frame);
        stream.arrived.notify_one();
    }

    /// Lets a request read a stream.
    pub fn read(self: &Arc<Self>, key: Key) -> Result<Reader, Unreadable> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(Unreadable::Closed);
        }
        let n_strangers = state.streams.values().filter(|stream| !stream.is_open).count();
        let stream = match state.streams.get_mut(&key) {
            Some(stream) if stream.is_read => return Err(Unreadable::Taken),
            Some(stream) => stream,
            None if n_strangers >= MAX_STRANGERS => return Err(Unreadable::Stranger),
            None => state.streams.entry(key.clone()).or_default(),
        };
        stream.is_read = true;
        let arrived = stream.arrived.clone();
        drop(state);
        self.n_readers.send_modify(|n| *n += 1);
        Ok(Reader { streams: self.clone(), key, arrived })
    }

    /// Returns once no stream has been read for too long.
    pub async fn unattended(&self) {
        let mut n_readers = self.n_readers.subscribe();
        loop {
            // The sender lives as long as this.
            let _ = n_readers.wait_for(|n| *n == 0).await;
            if timeout(self.limits.unattended, n_readers.wait_for(|n| *n > 0)).await.is_err() {
                return;
            }
        }
    }

    /// Ends all streams behind the lines that wait.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.is_closed = true;
        state.first = None;
        for stream in state.streams.values() {
            stream.arrived.notify_one();
        }
    }
}

impl State {
    /// Returns the stream of a line, and notes the effect of the line on the sessions that are open; `None` for the
    /// answer to `initialize`.
    fn key_of(&mut self, line: &str) -> Option<Key> {
        match rpc::parse(line.as_bytes()) {
            Some(Ok(Incoming::Call { method, params, .. } | Incoming::Notification { method, params })) => {
                Some(if method.starts_with("$/") { None } else { self.key_of_params(params) })
            }
            Some(Ok(Incoming::Response { id, result })) => match self.asked.remove(&id) {
                Some(asked) => Some(self.key_of_answer(asked, result.ok().flatten())),
                None if self.first.is_some() => None,
                None => Some(None),
            },
            Some(Err(_)) | None => Some(None),
        }
    }

    fn key_of_params(&mut self, params: Option<&RawValue>) -> Key {
        let params =
            params.and_then(|raw| serde_json::from_str::<Params>(raw.get()).ok()).unwrap_or_default();
        let session = params.session_id?;
        let key = if self.streams.contains_key(&Some(session.clone())) {
            Some(session)
        } else {
            // Messages about a session that the client has not opened go to the stream that every client reads.
            self.subagents.get(&session).cloned().unwrap_or_default()
        };
        if let Some(Update { kind: Some(kind), session_id: Some(subagent) }) = params.update
            && kind == "subagent_update"
        {
            self.subagents.insert(subagent, key.clone());
        }
        key
    }

    fn key_of_answer(&mut self, asked: Asked, result: Option<&RawValue>) -> Key {
        let Asked { session, effect } = asked;
        let mut key = session.filter(|session| self.streams.contains_key(&Some(session.clone())));
        let made = result.and_then(|raw| serde_json::from_str::<Made>(raw.get()).ok());
        match (effect, made) {
            (Effect::Makes, Some(Made { session_id: Some(made) })) => {
                self.streams.entry(Some(made)).or_default().is_open = true;
            }
            (Effect::Opens, None) | (Effect::Closes, Some(_)) => {
                let is_read = self.leave(&key);
                // The answer would be lost with the stream.
                if !is_read {
                    key = None;
                }
            }
            _ => {}
        }
        key
    }

    /// Forgets a session that is not open any more; returns true if its stream is still read.
    fn leave(&mut self, key: &Key) -> bool {
        let Some(stream) = self.streams.get_mut(key).filter(|_| key.is_some()) else { return false };
        stream.is_open = false;
        let is_read = stream.is_read;
        self.subagents.retain(|_, shown_in| shown_in != key);
        if !is_read {
            self.remove(key);
        }
        is_read
    }

    fn remove(&mut self, key: &Key) {
        if let Some(stream) = self.streams.remove(key) {
            self.weight -= stream.frames.iter().map(Bytes::len).sum::<usize>();
        }
    }
}

/// The names in a message that say which session it is about.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    update: Option<Update>,
}

#[derive(Debug, Default, Deserialize)]
struct Update {
    #[serde(default, rename = "sessionUpdate")]
    kind: Option<String>,
    #[serde(default, rename = "sessionId")]
    session_id: Option<String>,
}

/// An answer that may name a session.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    #[serde(default)]
    session_id: Option<String>,
}

/// The only reader of a stream.
#[derive(Debug)]
pub struct Reader {
    streams: Arc<Streams>,
    key: Key,
    arrived: Arc<Notify>,
}

impl Reader {
    /// Returns the next lines; `None` at the end of the connection.
    pub async fn next(&self) -> Option<Bytes> {
        loop {
            match self.take() {
                Taken::Chunk(chunk) => return Some(chunk),
                Taken::End => return None,
                Taken::Nothing => self.arrived.notified().await,
            }
        }
    }

    fn take(&self) -> Taken {
        let mut state = lock(&self.streams.state);
        let is_closed = state.is_closed;
        let Some(stream) = state.streams.get_mut(&self.key) else { return Taken::End };
        let Some(first) = stream.frames.pop_front() else {
            return if is_closed { Taken::End } else { Taken::Nothing };
        };
        let mut chunk = Vec::from(first);
        while stream.frames.front().is_some_and(|frame| chunk.len() + frame.len() <= MAX_CHUNK)
            && let Some(frame) = stream.frames.pop_front()
        {
            chunk.extend_from_slice(&frame);
        }
        state.weight -= chunk.len();
        drop(state);
        self.streams.drained.notify_waiters();
        Taken::Chunk(chunk.into())
    }
}

/// Lines that a reader finds.
enum Taken {
    Chunk(Bytes),
    Nothing,
    End,
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = lock(&self.streams.state);
        if let Some(stream) = state.streams.get_mut(&self.key) {
            stream.is_read = false;
            if !stream.is_open {
                state.remove(&self.key);
            }
        }
        drop(state);
        self.streams.drained.notify_waiters();
        self.streams.n_readers.send_modify(|n| *n -= 1);
    }
}

#[cfg(test)]
mod tests;
