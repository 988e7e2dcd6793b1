//! Keys of providers below `/api`, where a provider is an integration and its key a credential of the same id.

use std::collections::{BTreeMap, BTreeSet};

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::accounts::{logins, plugin_logins::Login};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    api::{Envelope, envelope},
    body::{Answer, Payload},
    error::Failure,
    here::Here,
    routes::{Routes, delete, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/integration", get(list))
        .route("/api/integration/{id}", get(read))
        .route("/api/integration/{id}/connect/key", post(store))
        .route("/api/credential/{id}", delete(remove))
}

/// Shows a provider with the ways to log in and to give it a key. A plugin's ways take the place of ours.
fn view(id: &str, of_plugins: &[Login], connections: &[(String, Value)]) -> Value {
    let methods: Vec<Value> = match of_plugins.iter().find(|login| login.provider == id) {
        Some(login) => {
            let methods = login.methods.iter().enumerate();
            methods
                .map(|(number, method)| match method.kind.as_str() {
                    "oauth" => json!({
                        "id": number.to_string(), "type": "oauth", "label": method.label, "prompts": method.prompts,
                    }),
                    _ => json!({"type": "key", "label": method.label}),
                })
                .collect()
        }
        None => {
            let methods = logins::methods(id).into_iter();
            let methods = methods.map(|it| json!({"id": it.id, "type": "oauth", "label": it.title}));
            methods.chain([json!({"type": "key"})]).collect()
        }
    };
    let connections = connections.iter().filter(|(provider, _)| provider == id);
    let connections: Vec<&Value> = connections.map(|(_, connection)| connection).collect();
    json!({"id": id, "name": id, "methods": methods, "connections": connections})
}

/// Lists the known providers with the ways to log in and to give them a key.
async fn list(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Envelope>, Failure> {
    let of_plugins = server.engine.accounts().plugin_logins(workspace.directory()).await?;
    let connections = workspace.loaded().connections().await;
    let mut known = workspace.loaded().catalog.known();
    known.extend(of_plugins.iter().map(|login| login.provider.clone()));
    let known: BTreeSet<String> = known.into_iter().collect();
    envelope(&server, &workspace, known.iter().map(|id| view(id, &of_plugins, &connections)).collect()).await
}

async fn read(
    State(server): State<Shared>,
    Here(workspace): Here,
    Path(id): Path<String>,
) -> Result<Answer<Envelope>, Failure> {
    let of_plugins = server.engine.accounts().plugin_logins(workspace.directory()).await?;
    let is_of_plugin = of_plugins.iter().any(|login| login.provider == id);
    if !is_of_plugin && !workspace.loaded().catalog.known().contains(&id) {
        return Err(invalid(&format!("There is no integration {id:?}."), "integrationID"));
    }
    let connections = workspace.loaded().connections().await;
    envelope(&server, &workspace, view(&id, &of_plugins, &connections)).await
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KeyBody {
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
    server.engine.accounts().store(&id, entry).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    server.engine.accounts().remove(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Refuses a request, and names the field that is wrong.
pub fn invalid(message: &str, field: &str) -> Failure {
    let fields = json!({"message": message, "field": field});
    Failure::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", fields)
}
