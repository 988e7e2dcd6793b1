//! Terminals below `/api`: those of the other routes, in the envelopes of OpenCode's newer clients.

use axum::{
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use windlass_protocol::opencode::pty::{PtyCreate, PtyUpdate};

use super::{
    api::{Envelope, envelope},
    body::{Answer, Payload},
    error::Failure,
    here::Here,
    pty,
    routes::{Routes, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/pty", get(list).post(create))
        .route("/api/pty/{id}", get(read).put(update).delete(remove))
        .route("/api/pty/{id}/connect-token", post(issue_ticket))
        .route("/api/pty/{id}/connect", get(pty::connect))
}

/// The id of a terminal in a path.
struct PtyId(String);

impl FromRequestParts<Shared> for PtyId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, server: &Shared) -> Result<Self, Failure> {
        let path = Path::<String>::from_request_parts(parts, server).await;
        let id = path.map(|Path(id)| id).unwrap_or_default();
        if id.starts_with("pty") {
            return Ok(Self(id));
        }
        let fields = json!({"message": format!("Invalid terminal ID {id:?}"), "field": "ptyID"});
        Err(Failure::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", fields))
    }
}

async fn list(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let terminals = server.engine.terminals().list(workspace.directory());
    envelope(&server, &workspace, json!(terminals)).await
}

async fn create(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(body): Payload<PtyCreate>,
) -> Result<Answer<Envelope>, Failure> {
    let opened = pty::open(&server, &workspace, body).await?;
    envelope(&server, &workspace, json!(opened)).await
}

async fn read(
    State(server): State<Shared>,
    Here(workspace): Here,
    PtyId(id): PtyId,
) -> Result<Answer<Envelope>, Failure> {
    let terminal = pty::terminal(&server, &id)?.info();
    envelope(&server, &workspace, json!(terminal)).await
}

async fn update(
    State(server): State<Shared>,
    Here(workspace): Here,
    PtyId(id): PtyId,
    Payload(body): Payload<PtyUpdate>,
) -> Result<Answer<Envelope>, Failure> {
    let updated = server.engine.terminals().update(&id, body).await.ok_or_else(|| pty::not_found(&id))?;
    envelope(&server, &workspace, json!(updated)).await
}

async fn remove(State(server): State<Shared>, PtyId(id): PtyId) -> Result<Response, Failure> {
    if server.engine.terminals().remove(&id) {
        Ok(StatusCode::NO_CONTENT.into_response())
    } else {
        Err(pty::not_found(&id))
    }
}

async fn issue_ticket(
    State(server): State<Shared>,
    Here(workspace): Here,
    PtyId(id): PtyId,
    headers: HeaderMap,
) -> Result<Answer<Envelope>, Failure> {
    let ticket: Value = json!(pty::ticket(&server, &id, &headers)?);
    envelope(&server, &workspace, ticket).await
}
