//! The conversation with one language server: its requests answered, its work noted.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};
use windlass_base::{
    rpc_peer::{CallError, Incoming, METHOD_NOT_FOUND, Outcome, Peer, ServeError, framing::Framing},
    stderr::MAX_LOG_BYTES,
    text,
};

use super::reply::reply;

/// Pieces of work that a server may have announced at once; more are not waited for.
const MAX_TOKENS: usize = 256;
/// Bytes of a name of such a piece.
const MAX_TOKEN: usize = 256;

/// The protocol's own numbers.
const CONTENT_MODIFIED: i64 = -32801;
const SERVER_CANCELLED: i64 = -32802;

/// Tells whether the same request may well be answered in a moment: the server was busy reading files.
pub fn is_passing(error: &CallError) -> bool {
    matches!(error, CallError::Refused { code: CONTENT_MODIFIED | SERVER_CANCELLED, .. })
}

/// Progress of a server's work, as the server reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// The server has published diagnostics of a file, or has finished a piece of work.
    pub has_looked: bool,
    /// Tokens of the work that goes on now.
    pub tokens: BTreeSet<String>,
}

/// Files with diagnostics that are kept, and diagnostics of each; a server may publish those of a whole project.
pub const MAX_FILES: usize = 1000;
pub const MAX_DIAGNOSTICS: usize = 100;

/// The diagnostics of a file as the server published them last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Published {
    /// Number of times that it has.
    pub n_times: u64,
    /// The version of the text that they are about, where the server says it.
    pub version: Option<u64>,
    pub diagnostics: Vec<Value>,
}

/// Both ends of the conversation; [`Connection::serve`] carries it.
pub struct Connection {
    peer: Peer,
    work: watch::Sender<Work>,
    /// By the files' URLs.
    published: watch::Sender<BTreeMap<String, Published>>,
    /// The root's URL.
    root: String,
    /// Answer to the server's requests for its configuration.
    settings: Value,
}

impl Connection {
    pub fn new(root: String, settings: Value) -> Self {
        let peer = Peer::new(Framing::ContentLength, "$/cancelRequest");
        Self { peer, work: watch::Sender::default(), published: watch::Sender::default(), root, settings }
    }

    /// Returns the server's reports of its work, now and as they change.
    pub fn work(&self) -> watch::Receiver<Work> {
        self.work.subscribe()
    }

    /// Returns the diagnostics that the server has published, now and as they change.
    pub fn published(&self) -> watch::Receiver<BTreeMap<String, Published>> {
        self.published.subscribe()
    }

    /// As [`Peer::notify`].
    pub fn notify(&self, method: &str, params: Value) {
        self.peer.notify(method, params);
    }

    /// As [`Peer::request`].
    pub async fn request(&self, method: &'static str, params: Value, limit: Duration) -> Outcome {
        self.peer.request(method, params, limit).await
    }

    /// As [`Peer::serve`].
    pub async fn serve(
        &self,
        stdout: impl AsyncRead + Unpin,
        stdin: impl AsyncWrite + Unpin,
    ) -> Result<(), ServeError> {
        self.peer.serve(stdout, stdin, |incoming| self.receive(&incoming)).await
    }

    /// As [`Peer::end`].
    pub fn end(&self, reason: &str) {
        self.peer.end(reason);
    }

    fn receive(&self, incoming: &Incoming) {
        match incoming {
            Incoming::Request { id, method, params } => {
                let result = reply(method, params, &self.root, &self.settings);
                let unknown = || (METHOD_NOT_FOUND, format!("windlass does not know {method}"));
                self.peer.answer(id, result.ok_or_else(unknown));
            }
            Incoming::Notification { method, params } => self.note(method, params),
        }
    }

    fn note(&self, method: &str, params: &Value) {
        match method {
            "textDocument/publishDiagnostics" => {
                self.work.send_if_modified(|work| !std::mem::replace(&mut work.has_looked, true));
                self.publish(params);
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

    fn publish(&self, params: &Value) {
        let diagnostics = params.get("diagnostics").and_then(Value::as_array);
        let (Some(uri), Some(diagnostics)) = (params.get("uri").and_then(Value::as_str), diagnostics) else {
            return;
        };
        self.published.send_if_modified(|files| {
            if files.len() >= MAX_FILES && !files.contains_key(uri) {
                return false;
            }
            let file = files.entry(uri.to_owned()).or_default();
            file.n_times += 1;
            file.version = params.get("version").and_then(Value::as_u64);
            file.diagnostics = diagnostics.iter().take(MAX_DIAGNOSTICS).cloned().collect();
            true
        });
    }
}

#[cfg(test)]
mod tests;
