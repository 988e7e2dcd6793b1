//! The Agent Client Protocol at one address: on a WebSocket, or by requests that bring messages and streams of events
//! that carry the others away (facts: ACP §4.2). Clients share the server's sessions.

use std::{convert::Infallible, time::Duration};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{
        Request, State,
        ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection},
    },
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::stream;
use serde_json::{json, value::RawValue};
use tokio::time::timeout;
use windlass_base::ids;
use windlass_protocol::rpc::{self, Incoming};
use windlass_protocol_acp::decode;

use self::{
    agent::Agent,
    connections::Begun,
    streams::{Effect, First, Reader, Unreadable},
};
use super::{
    error::{Failure, Piece},
    peers::FromFleet,
    routes::{Routes, get},
    server::Shared,
};
use crate::acp;

mod agent;
pub mod connections;
mod socket;
mod streams;

/// Header that names a connection.
pub const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");
const SESSION_ID: HeaderName = HeaderName::from_static("acp-session-id");
const EVENT_STREAM: &str = "text/event-stream";
/// Pause after which a stream says that it is still there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The one path of all of it.
pub const PATH: &str = "/acp";

pub fn routes() -> Routes {
    Routes::new().route(PATH, get(read).post(take).delete(end))
}

fn agent(server: &Shared, is_of_fleet: bool) -> Agent {
    Agent {
        engine: server.engine.clone(),
        lease: server.lease.clone(),
        login_command: server.options.login_command.clone(),
        is_of_fleet,
        stop: server.stop.child_token(),
    }
}

/// Begins a WebSocket, or a stream of events: the connection's own, or that of a session.
async fn read(
    State(server): State<Shared>,
    headers: HeaderMap,
    from_fleet: Option<Extension<FromFleet>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Failure> {
    if let Ok(upgrade) = upgrade {
        let upgrade = upgrade.max_message_size(acp::MAX_LINE).max_frame_size(acp::MAX_LINE);
        let agent = agent(&server, from_fleet.is_some());
        let response = upgrade.on_upgrade(move |socket| socket::serve(agent, socket));
        return Ok(with_connection(response, &ids::random(32)));
    }
    let accepted = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or("*/*");
    if !accepted.contains(EVENT_STREAM) && !accepted.contains("*/*") {
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, "`/acp` gives `text/event-stream`, or a WebSocket."));
    }
    let id = connection_id(&headers)?;
    let connection = server.acp.get(id).ok_or_else(|| no_connection(id))?;
    let session = text(&headers, &SESSION_ID).map(str::to_owned);
    let reader = connection.streams.read(session).map_err(|unreadable| match unreadable {
        Unreadable::Taken => refusal(StatusCode::CONFLICT, "Another request reads this stream."),
        Unreadable::Stranger => Failure::not_found("The session is not open in this connection."),
        Unreadable::Closed => no_connection(id),
    })?;
    let body = Body::from_stream(stream::unfold(reader, next));
    let headers = [(header::CONTENT_TYPE, EVENT_STREAM), (header::CACHE_CONTROL, "no-cache, no-transform")];
    Ok(with_connection((headers, body).into_response(), id))
}

/// Returns the next bytes of a stream.
async fn next(reader: Reader) -> Option<(Result<Bytes, Infallible>, Reader)> {
    let chunk = match timeout(HEARTBEAT, reader.next()).await {
        Ok(chunk) => chunk?,
        Err(_) => Bytes::from_static(b":\n\n"),
    };
    Some((Ok(chunk), reader))
}

/// Takes a message; `initialize` begins a connection and is answered here, all others by a stream.
async fn take(State(server): State<Shared>, request: Request) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let kind = text(&headers, &header::CONTENT_TYPE).unwrap_or_default();
    if !kind.trim_start().starts_with("application/json") {
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, "A message is `application/json`."));
    }
    let too_long = |_| refusal(StatusCode::PAYLOAD_TOO_LARGE, "The message is too long.");
    let message = axum::body::to_bytes(body, acp::MAX_LINE).await.map_err(too_long)?;
    if message.trim_ascii_start().starts_with(b"[") {
        return Err(refusal(StatusCode::NOT_IMPLEMENTED, "A request brings one message, not a batch."));
    }
    let line = agent::line(&message);
    let bad = |reason: &str| Failure::bad_request(Piece::Payload, reason);
    let incoming = match rpc::parse(&line) {
        Some(Ok(incoming)) => incoming,
        Some(Err(malformed)) => return Err(bad(&malformed.to_string())),
        None => return Err(bad("there is no message")),
    };
    let Some(id) = text(&headers, &CONNECTION_ID) else {
        return match incoming {
            Incoming::Call { method, .. } if method == "initialize" => initialize(&server, line).await,
            _ => Err(no_connection_named()),
        };
    };
    let connection = server.acp.get(id).ok_or_else(|| no_connection(id))?;
    let named = match &incoming {
        Incoming::Call { params, .. } | Incoming::Notification { params, .. } => {
            decode::named_session(params.map(RawValue::get))
        }
        Incoming::Response { .. } => None,
    };
    if let (Some(named), Some(header)) = (&named, text(&headers, &SESSION_ID))
        && named != header
    {
        return Err(bad("`Acp-Session-Id` and `params.sessionId` name two sessions"));
    }
    if let Incoming::Call { id, method, .. } = incoming {
        connection.streams.note_request(id, named, Effect::of(&method));
    }
    if connection.say(line).await { Ok(StatusCode::ACCEPTED.into_response()) } else { Err(no_connection(id)) }
}

/// Begins a connection, unless the protocol refuses it.
async fn initialize(server: &Shared, line: Vec<u8>) -> Result<Response, Failure> {
    let busy = || refusal(StatusCode::SERVICE_UNAVAILABLE, "There are too many connections.");
    let Begun { id, connection, first } = server.acp.begin(agent(server, false)).ok_or_else(busy)?;
    // The client may leave before the answer is there.
    let unanswered = connection.ending();
    let is_said = connection.say(line).await;
    let answered = if is_said { first.await.ok() } else { None };
    let First { line, is_error } =
        answered.ok_or_else(|| refusal(StatusCode::SERVICE_UNAVAILABLE, "The server is ending."))?;
    let response = ([(header::CONTENT_TYPE, "application/json")], line).into_response();
    if is_error {
        return Ok(response);
    }
    unanswered.disarm();
    Ok(with_connection(response, &id))
}

/// Ends a connection.
async fn end(State(server): State<Shared>, headers: HeaderMap) -> Result<StatusCode, Failure> {
    let id = connection_id(&headers)?;
    server.acp.get(id).ok_or_else(|| no_connection(id))?.end();
    Ok(StatusCode::ACCEPTED)
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn connection_id(headers: &HeaderMap) -> Result<&str, Failure> {
    text(headers, &CONNECTION_ID).ok_or_else(no_connection_named)
}

fn no_connection_named() -> Failure {
    Failure::bad_request(Piece::Params, "`Acp-Connection-Id` is missing; `initialize` gives one")
}

fn no_connection(id: &str) -> Failure {
    Failure::not_found(format!("There is no connection {id}; begin one with `initialize`."))
}

fn refusal(status: StatusCode, message: &str) -> Failure {
    Failure::named(status, "AcpError", json!({ "message": message }))
}

fn with_connection(mut response: Response, id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(id) {
        response.headers_mut().insert(CONNECTION_ID, value);
    }
    response
}
