//! Messages as lines on the pipes of a server: bounded, and answers only to requests that were made.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ClientNotification, NumberOrString, ServerJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use windlass_base::lock::lock;

use super::{
    body::MAX_MESSAGE,
    large::{Asked, Large},
};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The transport of a local server.
pub(super) struct Pipes<R, W> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// A message that turned out too long while it was being read.
    large: Option<Large>,
    writer: Arc<tokio::sync::Mutex<Option<W>>>,
    pending: Pending,
    server: String,
    /// The directory of results that are too long.
    results: PathBuf,
}

impl<R: AsyncRead, W> Pipes<R, W> {
    pub(super) fn new(reader: R, writer: W, server: String, results: PathBuf) -> Self {
        Self {
            reader: BufReader::with_capacity(CHUNK, reader),
            line: Vec::new(),
            large: None,
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            pending: Pending::default(),
            server,
            results,
        }
    }
}

impl<R, W> Transport<RoleClient> for Pipes<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.pending.sent(&item);
        let writer = self.writer.clone();
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let writer = writer.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    // May be dropped at any moment: all that was taken from the pipe is kept in `self`.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let chunk = match self.reader.fill_buf().await {
                Ok([]) => return None,
                Ok(chunk) => chunk,
                Err(error) => {
                    tracing::warn!(server = self.server, %error, "the MCP server's output cannot be read");
                    return None;
                }
            };
            let end = memchr::memchr(b'\n', chunk);
            let piece = &chunk[..end.unwrap_or(chunk.len())];
            match &mut self.large {
                Some(large) => large.feed(piece),
                None if self.line.len() + piece.len() <= MAX_MESSAGE => self.line.extend_from_slice(piece),
                None => {
                    let mut large = Large::new(&self.results);
                    large.feed(&std::mem::take(&mut self.line));
                    large.feed(piece);
                    self.large = Some(large);
                }
            }
            let n_read = end.map_or(chunk.len(), |end| end + 1);
            self.reader.consume(n_read);
            if end.is_none() {
                continue;
            }
            let message = match self.large.take() {
                Some(large) => self.pending.answered_at_length(large, &self.server),
                None => {
                    let message = self.pending.received(&self.line, &self.server);
                    self.line.clear();
                    // A server that once said much does not keep the memory for it.
                    self.line.shrink_to(CHUNK);
                    message
                }
            };
            if message.is_some() {
                return message;
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.writer.lock().await.take());
        Ok(())
    }
}

/// Requests that wait for their answers.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<HashMap<NumberOrString, Asked>>);

impl Pending {
    /// Notes a message that is sent.
    pub(super) fn sent(&self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                lock(&self.0).insert(request.id.clone(), Asked::of(&request.request));
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    lock(&self.0).remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
    }

    /// Reads a message; `None` for one that is noise, and for an answer that nobody waits for.
    pub(super) fn received(&self, line: &[u8], server: &str) -> Option<ServerJsonRpcMessage> {
        let message = match serde_json::from_slice::<ServerJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => {
                tracing::debug!(server, %error, "a line of an MCP server is no message");
                return self.malformed(line);
            }
        };
        match &message {
            ServerJsonRpcMessage::Response(response) => self.take(&response.id, server)?,
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) => self.take(id, server)?,
                None => return None,
            },
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => return Some(message),
        };
        Some(message)
    }

    /// Returns an error for the request that a malformed message answers, so that it does not wait in vain.
    fn malformed(&self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let fields: Value = serde_json::from_slice(line).ok()?;
        if fields.get("method").is_some() {
            return None;
        }
        let id: NumberOrString = serde_json::from_value(fields.get("id")?.clone()).ok()?;
        self.remove(&id)?;
        let error = json!({"code": -32603, "message": "the answer is malformed"});
        serde_json::from_value(json!({"jsonrpc": "2.0", "id": id, "error": error})).ok()
    }

    fn answered_at_length(&self, large: Large, server: &str) -> Option<ServerJsonRpcMessage> {
        let id = large.id().and_then(|id| serde_json::from_value::<NumberOrString>(id).ok());
        let asked = id.and_then(|id| self.take(&id, server));
        let Some(asked) = asked else {
            tracing::warn!(
                server,
                "a message of an MCP server is too long and answers nothing; it is left out"
            );
            large.discard();
            return None;
        };
        serde_json::from_value(large.shortened(&asked)).ok()
    }

    fn take(&self, id: &NumberOrString, server: &str) -> Option<Asked> {
        let asked = self.remove(id);
        if asked.is_none() {
            tracing::debug!(server, %id, "an MCP server answers what was not asked");
        }
        asked
    }

    fn remove(&self, id: &NumberOrString) -> Option<Asked> {
        let mut pending = lock(&self.0);
        let found = pending.remove(id);
        // Some servers make texts of numbers.
        found.or_else(|| match id {
            NumberOrString::String(text) => pending.remove(&NumberOrString::Number(text.parse().ok()?)),
            NumberOrString::Number(_) => None,
        })
    }
}
