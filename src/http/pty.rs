//! Routes of terminals: opening, changing and ending them, and the WebSocket that carries one.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Bytes,
    extract::{
        FromRequestParts, Path, Request, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_engine::{Terminal, TerminalReader, Workspace};
use windlass_files::{FilesError, terminals};
use windlass_protocol::opencode::pty::{Pty, PtyCreate, PtyTicket, PtyUpdate, Shell};

use super::{
    body::{Answer, Params, Payload},
    by::By,
    error::{Failure, Piece},
    here::Here,
    routes::{Routes, get, post},
    selection::Selected,
    server::Shared,
    ticket,
};

/// Header by which a page shows that it is not just a link to us.
const TICKET_HEADER: &str = "x-opencode-ticket";
/// Time that a client may take to accept a piece of output.
const SEND_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of one message of input.
const MAX_INPUT: usize = 1 << 20;

pub fn routes() -> Routes {
    Routes::new()
        .route("/pty", get(list).post(create))
        .route("/pty/shells", get(list_shells))
        .route("/pty/{id}", get(read).put(update).delete(remove))
        .route("/pty/{id}/connect-token", post(issue_ticket))
        .route("/pty/{id}/connect", get(connect))
}

async fn list(State(server): State<Shared>, Selected(directory): Selected) -> Answer<Vec<Pty>> {
    Answer(server.engine.terminals().list(&directory))
}

async fn create(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(body): Payload<PtyCreate>,
) -> Result<Answer<Pty>, Failure> {
    open(&server, &workspace, body).await.map(Answer)
}

/// Opens a terminal in a directory.
pub async fn open(server: &Shared, workspace: &Workspace, body: PtyCreate) -> Result<Pty, Failure> {
    terminals::open(&server.engine, workspace, body).await.map_err(|error| match error {
        FilesError::Invalid(message) => Failure::bad_request(Piece::Payload, message),
        FilesError::NotFound(_) | FilesError::Failed(_) => error.into(),
    })
}

async fn list_shells() -> Answer<Vec<Shell>> {
    Answer(terminals::shells().await)
}

async fn read(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Pty>, Failure> {
    Ok(Answer(terminal(&server, &id)?.info()))
}

async fn update(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<PtyUpdate>,
) -> Result<Answer<Pty>, Failure> {
    terminal(&server, &id)?;
    server.engine.terminals().update(&id, body).await.map(Answer).ok_or_else(|| not_found(&id))
}

async fn remove(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<bool>, Failure> {
    terminal(&server, &id)?;
    if server.engine.terminals().remove(&id) { Ok(Answer(true)) } else { Err(not_found(&id)) }
}

pub fn terminal(server: &Shared, id: &str) -> Result<Arc<Terminal>, Failure> {
    if !id.starts_with("pty") {
        let message = format!("Expected a string starting with \"pty\", got {id:?}\n  at [\"ptyID\"]");
        return Err(Failure::bad_request(Piece::Params, message));
    }
    server.engine.terminals().get(id).ok_or_else(|| not_found(id))
}

pub fn not_found(id: &str) -> Failure {
    let fields = json!({"ptyID": id, "message": format!("PTY session not found: {id}")});
    Failure::tagged(StatusCode::NOT_FOUND, "PtyNotFoundError", fields)
}

async fn issue_ticket(
    State(server): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Answer<PtyTicket>, Failure> {
    ticket(&server, &id, &headers).map(Answer)
}

/// Makes a ticket for a request that shows that it is not just a link to us.
pub fn ticket(server: &Shared, id: &str, headers: &HeaderMap) -> Result<PtyTicket, Failure> {
    if headers.get(TICKET_HEADER).is_none_or(|value| value != "1") {
        let message = format!("Send the header {TICKET_HEADER}: 1.");
        return Err(Failure::tagged(StatusCode::FORBIDDEN, "PtyForbiddenError", json!({"message": message})));
    }
    terminal(server, id)?;
    let ticket = server.options.access.tickets.issue(id);
    Ok(PtyTicket { ticket, expires_in: ticket::LIFETIME.as_secs() })
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConnectParams {
    cursor: Option<String>,
    ticket: Option<String>,
}

pub async fn connect(
    State(server): State<Shared>,
    by: By,
    Path(id): Path<String>,
    params: Result<Params<ConnectParams>, Failure>,
    request: Request,
) -> Response {
    // A ticket is looked at first: without the password, nobody learns which terminals there are.
    let ticket = params.as_ref().ok().and_then(|params| params.0.ticket.as_deref());
    if ticket.is_some_and(|ticket| !server.options.access.tickets.take(ticket, &id)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    // A socket's client reads no body.
    let Some(terminal) = server.engine.terminals().get(&id) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(Params(params)) = params else { return StatusCode::BAD_REQUEST.into_response() };
    let (mut parts, _) = request.into_parts();
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &server).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let cursor = params.cursor.and_then(|cursor| cursor.parse::<i64>().ok()).unwrap_or_default();
    let reader = terminal.read((cursor != -1).then_some(u64::try_from(cursor).unwrap_or_default()));
    let stop = server.stop.clone();
    let ended = Box::pin(async move { by.ended().await });
    let upgrade = upgrade.max_message_size(MAX_INPUT);
    upgrade.on_upgrade(move |socket| Connection { socket, terminal, reader, ended, stop }.run())
}

/// A client of a terminal.
struct Connection {
    socket: WebSocket,
    terminal: Arc<Terminal>,
    reader: TerminalReader,
    /// Ends when its account changes.
    ended: BoxFuture<'static, ()>,
    stop: CancellationToken,
}

impl Connection {
    /// Sends the output that is kept, then the cursor, then new output; the client's bytes are typed.
    async fn run(mut self) {
        // Output that comes meanwhile is not part of it, or a program that never stops would hold up the rest.
        let kept = self.reader.take_kept();
        let cursor = self.reader.cursor();
        for piece in kept {
            if !self.send(Message::text(piece)).await {
                return;
            }
        }
        let mut mark = vec![0];
        mark.extend_from_slice(json!({"cursor": cursor}).to_string().as_bytes());
        if !self.send(Message::binary(mark)).await {
            return;
        }
        let mut typed: Option<Bytes> = None;
        loop {
            tokio::select! {
                // A program that does not read holds up its input, not its output.
                () = self.terminal.write(typed.clone().unwrap_or_default()), if typed.is_some() => typed = None,
                piece = self.reader.next() => match piece {
                    Some(piece) => {
                        if !self.send(Message::text(piece)).await {
                            return;
                        }
                    }
                    None => return self.close(close_code::NORMAL).await,
                },
                message = self.socket.recv(), if typed.is_none() => match message {
                    Some(Ok(Message::Text(text))) => typed = Some(text.into()),
                    Some(Ok(Message::Binary(bytes))) => typed = Some(bytes),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                },
                () = self.stop.cancelled() => return self.close(close_code::AWAY).await,
                () = &mut self.ended => return self.close(close_code::POLICY).await,
            }
        }
    }

    /// Sends a message; false if the client is gone or takes nothing.
    async fn send(&mut self, message: Message) -> bool {
        matches!(tokio::time::timeout(SEND_LIMIT, self.socket.send(message)).await, Ok(Ok(())))
    }

    async fn close(mut self, code: u16) {
        let frame = CloseFrame { code, reason: "".into() };
        self.send(Message::Close(Some(frame))).await;
    }
}
