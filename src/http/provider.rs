//! Routes of providers, their models and their keys. The whole catalog is written once and served as it is.

use std::collections::BTreeMap;

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post, put},
};
use serde_json::{Value, json};
use windlass_protocol::opencode::{config::AuthEntry, provider::UsableProviders};

use super::{
    body::{Answer, Payload, raw_json},
    error::Failure,
    here::Here,
    server::Shared,
};

pub fn routes() -> Router<Shared> {
    Router::new()
        .route("/config/providers", get(usable))
        .route("/provider", get(all))
        .route("/provider/auth", get(methods))
        .route("/provider/{id}/oauth/authorize", post(oauth))
        .route("/provider/{id}/oauth/callback", post(oauth))
        .route("/auth/{id}", put(store).delete(remove))
}

async fn usable(Here(workspace): Here) -> Answer<UsableProviders> {
    Answer(workspace.loaded().usable_providers().await)
}

async fn all(State(server): State<Shared>, Here(workspace): Here, headers: HeaderMap) -> Response {
    let written = server.catalogs.get(&workspace.loaded()).await;
    let text =
        |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
    let tag = HeaderValue::from_str(&written.tag);
    let is_known =
        text(header::IF_NONE_MATCH).split(',').any(|it| it.trim().trim_start_matches("W/") == written.tag);
    let takes_packed = text(header::ACCEPT_ENCODING).contains("gzip") && !written.packed.is_empty();
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else if takes_packed {
        let mut response = raw_json(StatusCode::OK, written.packed.clone());
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        raw_json(StatusCode::OK, written.plain.clone())
    };
    if let Ok(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response.headers_mut().append(header::VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// Returns the ways to log in to each known provider: by a key.
async fn methods(Here(workspace): Here) -> Answer<BTreeMap<String, Value>> {
    let known = workspace.loaded().catalog.known();
    let key = json!([{"type": "api", "label": "API key"}]);
    Answer(known.into_iter().map(|id| (id, key.clone())).collect())
}

async fn oauth(Path(id): Path<String>) -> Failure {
    let data = json!({
        "providerID": id,
        "message": format!("No login by browser is under way for {id}; `windlass auth login` begins one in a terminal."),
    });
    Failure::named(StatusCode::BAD_REQUEST, "ProviderAuthOauthMissing", data)
}

async fn store(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(entry): Payload<AuthEntry>,
) -> Result<Answer<bool>, Failure> {
    server.engine.store_credential(&id, entry).await?;
    Ok(Answer(true))
}

async fn remove(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<bool>, Failure> {
    server.engine.remove_key(&id).await?;
    Ok(Answer(true))
}
