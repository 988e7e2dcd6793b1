//! Routes of the servers and programs that work for a directory, and of the log.

use std::collections::BTreeMap;

use axum::{extract::Path, http::StatusCode, response::IntoResponse};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::process::desktop;
use windlass_engine::{LoginError, ServerLoginError, ServerStatus, Workspace};
use windlass_protocol::opencode::config::McpConfig;

use super::{
    body::{Answer, Payload},
    error::{Failure, Piece},
    here::{Here, required},
    routes::{Routes, delete, get, post},
};

/// Bytes of a client's message that the log takes.
const MAX_MESSAGE: usize = 4096;

pub fn routes() -> Routes {
    Routes::new()
        .route("/mcp", get(servers).post(add))
        .route("/mcp/{name}", delete(remove))
        .route("/mcp/{name}/connect", post(connect))
        .route("/mcp/{name}/disconnect", post(disconnect))
        .route("/mcp/{name}/auth", post(begin_login).delete(logout))
        .route("/mcp/{name}/auth/callback", post(complete_login))
        .route("/mcp/{name}/auth/authenticate", post(log_in))
        .route("/lsp", get(language_servers))
        .route("/formatter", get(formatters))
        .route("/log", post(log))
}

async fn servers(Here(workspace): Here) -> Answer<BTreeMap<String, Value>> {
    Answer(states(&workspace).await)
}

async fn states(workspace: &Workspace) -> BTreeMap<String, Value> {
    let states = workspace.server_states().await;
    let shown = states.into_iter().map(|(name, status)| {
        let status = match status {
            None | Some(ServerStatus::Disabled) => json!({"status": "disabled"}),
            Some(ServerStatus::Connected) => json!({"status": "connected"}),
            Some(ServerStatus::Connecting) => json!({"status": "failed", "error": "It is still connecting."}),
            Some(ServerStatus::Failed { error }) => json!({"status": "failed", "error": error}),
            Some(ServerStatus::NeedsAuth) => json!({"status": "needs_auth"}),
            Some(ServerStatus::NeedsClientRegistration { error }) => {
                json!({"status": "needs_client_registration", "error": error})
            }
        };
        (name, status)
    });
    shown.collect()
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AddBody {
    #[cfg_attr(test, schemars(required))]
    name: Option<String>,
    #[cfg_attr(test, schemars(required))]
    config: Option<McpConfig>,
}

async fn add(
    Here(workspace): Here,
    Payload(body): Payload<AddBody>,
) -> Result<Answer<BTreeMap<String, Value>>, Failure> {
    let name = required(body.name.filter(|name| !name.is_empty()), Piece::Payload, "name")?;
    let config = required(body.config, Piece::Payload, "config")?;
    workspace.add_server(&name, config);
    Ok(Answer(states(&workspace).await))
}

/// Takes away a server that a client has added.
async fn remove(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<bool>, Failure> {
    if workspace.remove_server(&name) {
        Ok(Answer(true))
    } else if workspace.has_server(&name) {
        let message =
            format!("MCP server {name} is in the configuration; disconnect it, or take it out there.");
        Err(Failure::bad_request(Piece::Params, message))
    } else {
        Err(no_server(&name))
    }
}

async fn connect(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<bool>, Failure> {
    if workspace.connect_server(&name) { Ok(Answer(true)) } else { Err(no_server(&name)) }
}

async fn disconnect(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<bool>, Failure> {
    if workspace.disconnect_server(&name) { Ok(Answer(true)) } else { Err(no_server(&name)) }
}

fn no_server(name: &str) -> Failure {
    let fields = json!({"name": name, "message": format!("MCP server not found: {name}")});
    Failure::tagged(StatusCode::NOT_FOUND, "McpServerNotFoundError", fields)
}

async fn begin_login(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<Value>, Failure> {
    let page = workspace.begin_server_login(&name).await.map_err(|error| login_failed(&name, &error))?;
    Ok(Answer(json!({"authorizationUrl": page.url, "oauthState": page.state})))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CodeBody {
    code: String,
}

async fn complete_login(
    Here(workspace): Here,
    Path(name): Path<String>,
    Payload(body): Payload<CodeBody>,
) -> Result<Answer<Value>, Failure> {
    if !workspace.has_server(&name) {
        return Err(no_server(&name));
    }
    let completed = workspace.complete_server_login(&name, body.code).await;
    completed.map_err(|error| login_failed(&name, &error.into()))?;
    Ok(Answer(state(&workspace, &name).await))
}

/// Logs in by the browser of this machine, and answers when that has ended.
async fn log_in(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<Value>, Failure> {
    let failed = |error: ServerLoginError| login_failed(&name, &error);
    let page = workspace.begin_server_login(&name).await.map_err(failed)?;
    if let Err(error) = desktop::open(&page.url) {
        tracing::warn!(%error, url = page.url, "the browser was not opened; open the page by hand");
    }
    workspace.server_login_end(&name).await.map_err(|error| failed(error.into()))?;
    Ok(Answer(state(&workspace, &name).await))
}

async fn logout(Here(workspace): Here, Path(name): Path<String>) -> Result<Answer<Value>, Failure> {
    if !workspace.has_server(&name) {
        return Err(no_server(&name));
    }
    match workspace.log_out_of_server(&name).await {
        // There is nothing to forget at a server without logins.
        Ok(_) | Err(ServerLoginError::Login(LoginError::Unsupported(_))) => {
            Ok(Answer(json!({"success": true})))
        }
        Err(error) => Err(login_failed(&name, &error)),
    }
}

/// Returns one server's state.
async fn state(workspace: &Workspace, name: &str) -> Value {
    states(workspace).await.remove(name).unwrap_or_default()
}

fn login_failed(name: &str, error: &ServerLoginError) -> Failure {
    match error {
        ServerLoginError::Unknown(_) => no_server(name),
        error => {
            let message = error.to_string();
            Failure::plain(StatusCode::BAD_REQUEST, json!({"error": message, "message": message}))
        }
    }
}

async fn language_servers(Here(workspace): Here) -> Answer<Vec<Value>> {
    let states = workspace.language_servers().into_iter();
    let shown = states.map(|(id, root, is_running)| {
        let status = if is_running { "connected" } else { "error" };
        json!({"id": id, "name": id, "root": root, "status": status})
    });
    Answer(shown.collect())
}

async fn formatters(Here(workspace): Here) -> Answer<Vec<Value>> {
    let states = workspace.formatters().await.into_iter();
    let shown = states.map(
        |state| json!({"name": state.name, "extensions": state.extensions, "enabled": state.is_enabled}),
    );
    Answer(shown.collect())
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogBody {
    service: String,
    level: Level,
    message: String,
}

async fn log(Payload(body): Payload<LogBody>) -> impl IntoResponse {
    let LogBody { service, level, message } = body;
    let (service, message) =
        (windlass_base::text::head(&service, 64), windlass_base::text::head(&message, MAX_MESSAGE));
    match level {
        Level::Debug => tracing::debug!(service, "{message}"),
        Level::Info => tracing::info!(service, "{message}"),
        Level::Warn => tracing::warn!(service, "{message}"),
        Level::Error => tracing::error!(service, "{message}"),
    }
    Answer(true)
}
