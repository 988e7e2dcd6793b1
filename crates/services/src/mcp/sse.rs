//! Reaches a server over the older transport of remote servers: one stream of events from it, and a POST for each
//! message to it.

use std::{io, time::Duration};

use futures_util::{Stream, StreamExt};
use reqwest::{
    Client, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap},
};
use rmcp::{
    ErrorData,
    model::{ClientJsonRpcMessage, JsonRpcError, ServerJsonRpcMessage},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::mpsc,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    events::{Piece, Scanner},
    login::LoggedIn,
    pipes::Pipes,
    said,
    session::{SessionEnd, Task, session},
};

/// Bytes on their way between the stream and the session.
const IN_FLIGHT: usize = 64 << 10;
/// Bytes of the address for messages.
const MAX_ADDRESS: usize = 8 << 10;
/// Time that a server may take to accept a message.
const POST_LIMIT: Duration = Duration::from_secs(60);

/// The reason why there is no stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unauthorized,
    /// The server does not speak this transport.
    Other,
}

/// A stream that is open, and the address that it named for messages.
pub(super) struct Opened<S> {
    bytes: S,
    scanner: Scanner,
    /// Messages behind the event with the address, as lines.
    lines: Vec<u8>,
    endpoint: Url,
}

/// Opens the stream and reads the address, within the time limit.
pub(super) async fn open(
    client: &Client,
    url: &Url,
    headers: &HeaderMap,
    limit: Duration,
) -> Result<Opened<impl Stream<Item = reqwest::Result<impl AsRef<[u8]>>> + Unpin>, Refusal> {
    let opened = async {
        let request = client.get(url.clone()).headers(headers.clone()).header(ACCEPT, "text/event-stream");
        let response = request.send().await.map_err(|_| Refusal::Other)?;
        if response.status() == StatusCode::UNAUTHORIZED {
            return Err(Refusal::Unauthorized);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        if !response.status().is_success() || !is_stream {
            return Err(Refusal::Other);
        }
        let mut bytes = Box::pin(response.bytes_stream());
        let (mut scanner, mut lines) = (Scanner::default(), Vec::new());
        let mut first = None;
        let mut address = Vec::new();
        while first.is_none() {
            let chunk = bytes.next().await.and_then(Result::ok).ok_or(Refusal::Other)?;
            scanner.push(chunk.as_ref(), |piece| match (&first, piece) {
                (None, Piece::Data(bytes)) => address.extend_from_slice(bytes),
                (None, Piece::End(fields)) => first = Some(fields).filter(|fields| fields.has_data),
                (Some(_), piece) => line(piece, &mut lines),
            });
            if address.len() > MAX_ADDRESS {
                return Err(Refusal::Other);
            }
        }
        let address = String::from_utf8_lossy(&address);
        let is_address = first.is_some_and(|fields| fields.event.as_deref() == Some("endpoint"));
        let endpoint = url.join(address.trim()).ok().filter(|_| is_address);
        // Messages carry the user's keys, so they go where the stream came from.
        let endpoint = endpoint.filter(|endpoint| endpoint.origin() == url.origin()).ok_or(Refusal::Other)?;
        Ok(Opened { bytes, scanner, lines, endpoint })
    };
    timeout(limit, opened).await.unwrap_or(Err(Refusal::Other))
}

/// Shakes hands over the stream and serves the session until the connection ends.
pub(super) async fn serve<S, B>(
    task: &Task<'_>,
    opened: Opened<S>,
    client: &Client,
    (headers, login): (&HeaderMap, Option<&LoggedIn>),
    cancel: CancellationToken,
) -> SessionEnd
where
    S: Stream<Item = reqwest::Result<B>> + Unpin,
    B: AsRef<[u8]>,
{
    let Opened { bytes, scanner, lines, endpoint } = opened;
    let ((to_us, from_server), (to_server, from_us)) =
        (tokio::io::duplex(IN_FLIGHT), tokio::io::duplex(IN_FLIGHT));
    let name = &task.spec().name;
    let pipes = Pipes::new(from_server, to_server, name.clone(), task.shared.directories.results.clone());
    let (refuse, refused) = mpsc::channel(1);
    let posting = Posting { client, endpoint, headers, login, refuse };
    // The session ends when the stream does.
    let carried = async {
        tokio::select! {
            () = read(bytes, scanner, lines, refused, to_us) => {}
            error = posting.run(from_us) => {
                tracing::warn!(server = name, %error, "an MCP server took no message");
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        end = session(task, pipes, cancel) => end,
        () = carried => SessionEnd::Closed,
    }
}

/// Writes the messages of the stream as lines, until it ends. They may be of any length: pieces go on as they come.
async fn read<S, B>(
    mut bytes: S,
    mut scanner: Scanner,
    mut lines: Vec<u8>,
    mut refused: mpsc::Receiver<String>,
    mut to_us: DuplexStream,
) where
    S: Stream<Item = reqwest::Result<B>> + Unpin,
    B: AsRef<[u8]>,
{
    loop {
        if to_us.write_all(&lines).await.is_err() {
            return;
        }
        lines.clear();
        tokio::select! {
            chunk = bytes.next() => {
                match chunk {
                    Some(Ok(chunk)) => scanner.push(chunk.as_ref(), |piece| line(piece, &mut lines)),
                    Some(Err(_)) => return,
                    None => {
                        // The last event may lack the blank line behind it.
                        scanner.finish(|piece| line(piece, &mut lines));
                        // The session that reads it may have ended.
                        let _ = to_us.write_all(&lines).await;
                        return;
                    }
                }
            }
            Some(line) = refused.recv(), if scanner.is_between() => lines.extend_from_slice(line.as_bytes()),
        }
    }
}

/// Appends a piece of an event to the lines. Events that are no messages become lines that are none.
fn line(piece: Piece<'_>, lines: &mut Vec<u8>) {
    match piece {
        // A line end within JSON is only space.
        Piece::Data(bytes) => {
            lines.extend(bytes.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }))
        }
        Piece::End(fields) if fields.has_data => lines.push(b'\n'),
        Piece::End(_) => {}
    }
}

/// The way of messages to the server.
struct Posting<'a> {
    client: &'a Client,
    endpoint: Url,
    headers: &'a HeaderMap,
    login: Option<&'a LoggedIn>,
    /// Answers to requests that the server did not take.
    refuse: mpsc::Sender<String>,
}

impl Posting<'_> {
    /// Sends each line as a message, one after another; returns the reason for which the server cannot be reached.
    async fn run(self, from_us: DuplexStream) -> io::Error {
        let mut lines = BufReader::new(from_us).lines();
        loop {
            let line = match lines.next_line().await {
                Ok(Some(line)) => line,
                Ok(None) => return io::ErrorKind::UnexpectedEof.into(),
                Err(error) => return error,
            };
            let mut request = self.client.post(self.endpoint.clone()).headers(self.headers.clone());
            if let Some(login) = self.login
                && let Some(token) = login.token().await
            {
                request = request.bearer_auth(token);
            }
            let request = request.timeout(POST_LIMIT).header(CONTENT_TYPE, "application/json");
            match request.body(line.clone()).send().await {
                Ok(response) => {
                    let status = response.status();
                    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
                    // A message that was taken is answered on the stream; some servers refuse it with a status of success.
                    if status.is_success() && !kind.is_some_and(|kind| kind.starts_with("application/json")) {
                        continue;
                    }
                    let body = said::start(response).await;
                    if !status.is_success() {
                        tracing::warn!(%status, "an MCP server refused a message");
                    }
                    if let Some(refusal) = refusal(&line, status, &body) {
                        // The reader ends with the session.
                        let _ = self.refuse.send(refusal).await;
                    }
                }
                Err(error) => return io::Error::other(error.without_url()),
            }
        }
    }
}

/// Returns the answer to a request that the server refused; `None` for one that it took, and for other messages.
fn refusal(line: &str, status: StatusCode, body: &[u8]) -> Option<String> {
    let Ok(ClientJsonRpcMessage::Request(request)) = serde_json::from_str(line) else { return None };
    let error = match serde_json::from_slice(body) {
        Ok(JsonRpcError { error, .. }) => error,
        Err(_) if status.is_success() => return None,
        Err(_) => {
            ErrorData::internal_error(format!("the server answered {}", said::refusal(status, body)), None)
        }
    };
    let refusal = ServerJsonRpcMessage::error(error, Some(request.id));
    serde_json::to_string(&refusal).ok().map(|line| line + "\n")
}
