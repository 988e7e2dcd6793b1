//! Keys of providers below `/api`, where a provider is an integration and its key a credential of the same id.

use std::collections::BTreeMap;

use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{delete, get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    api::{Envelope, envelope},
    body::{Answer, Payload},
    error::Failure,
    here::Here,
    server::Shared,
};

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/api/integration", get(list))
        .route("/api/integration/{id}", get(read))
        .route("/api/integration/{id}/connect/key", post(store))
        .route("/api/credential/{id}", delete(remove))
}

fn view(id: &str) -> Value {
    json!({"id": id, "name": id, "methods": [{"type": "key"}], "connections": []})
}

/// Lists the known providers with the ways to give them a key.
async fn list(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let known = workspace.loaded().catalog.known();
    envelope(&server, &workspace, known.iter().map(|id| view(id)).collect()).await
}

async fn read(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(id): Path<String>,
) -> Result<Answer<Envelope>, Failure> {
    if !workspace.loaded().catalog.known().contains(&id) {
        return Err(invalid(&format!("There is no integration {id:?}."), "integrationID"));
    }
    envelope(&server, &workspace, view(&id)).await
}

#[derive(Debug, Deserialize)]
struct KeyBody {
    key: String,
}

async fn store(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(body): Payload<KeyBody>,
) -> Result<StatusCode, Failure> {
    if body.key.trim().is_empty() {
        return Err(invalid("The key is empty.", "key"));
    }
    let entry = AuthEntry::Api { key: body.key, metadata: BTreeMap::new() };
    server.engine.store_credential(&id, entry).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    server.engine.remove_key(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn invalid(message: &str, field: &str) -> Failure {
    let fields = json!({"message": message, "field": field});
    Failure::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", fields)
}
