//! Routes under `/experimental`, `/sync` and others that OpenCode's clients ask, many in the shape for "there is none".

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, State},
    http::StatusCode,
    response::Response,
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::{Job, SessionFilter};
use windlass_protocol::opencode::id::SessionId;

use super::{
    body::{Answer, Id, Params, Payload, id, list_limit, number, raw_json},
    by::By,
    error::{Failure, Piece},
    here::{Here, required},
    routes::{Routes, delete, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/experimental/capabilities", get(capabilities))
        .route("/experimental/console", get(console))
        .route("/experimental/console/orgs", get(organisations))
        .route("/experimental/console/switch", post(no_console))
        .route("/experimental/tool", get(tools))
        .route("/experimental/tool/ids", get(ids))
        .route("/experimental/resource", get(resources))
        .route("/experimental/session", get(sessions))
        .route("/experimental/session/{id}/background", post(move_to_background))
        .route("/experimental/session/{id}/job", get(jobs))
        .route("/experimental/session/{id}/job/{job}", delete(stop_job))
        .route("/experimental/workspace", get(empty_list).post(no_workspace))
        .route("/experimental/workspace/status", get(empty_list))
        .route("/experimental/workspace/adapter", get(adapters))
        .route("/experimental/workspace/sync-list", post(done))
        .route("/sync/start", post(done))
        .route("/sync/history", post(empty_list))
        .route("/global/upgrade", post(upgrade))
}

async fn capabilities(Here(workspace): Here) -> Answer<Value> {
    Answer(json!({"backgroundSubagents": workspace.has_background_subagents()}))
}

async fn console() -> Answer<Value> {
    Answer(json!({"consoleManagedProviders": [], "switchableOrgCount": 0}))
}

async fn organisations() -> Answer<Value> {
    Answer(json!({"orgs": []}))
}

async fn no_console() -> Failure {
    Failure::bad_request(Piece::Payload, "There is no account of OpenCode's console to switch.")
}

async fn no_workspace() -> Failure {
    Failure::bad_request(Piece::Payload, "Remote workspaces are not offered; make a worktree instead.")
}

async fn empty_list() -> Answer<[Value; 0]> {
    Answer([])
}

/// Lists the resources of the directory's MCP servers.
async fn resources(Here(workspace): Here) -> Answer<BTreeMap<String, Value>> {
    Answer(workspace.server_resources().await)
}

/// Lets a session's turn go on without the subagents that it waits for; false if there is none, or none may work in the
/// background.
async fn move_to_background(
    State(server): State<Shared>,
    Here(workspace): Here,
    Id(id): Id<SessionId>,
) -> Result<Answer<bool>, Failure> {
    server.session(&id).await?;
    Ok(Answer(workspace.has_background_subagents() && server.engine.sessions().move_to_background(&id)))
}

/// Lists the commands that run, or ran, behind their calls.
async fn jobs(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Answer<Vec<Value>>, Failure> {
    server.session(&id).await?;
    let row = |job: &Arc<Job>| {
        json!({
            "id": job.id, "command": job.command, "description": job.description, "started": job.started,
            "end": job.end().map(|end| end.sentence.clone()),
        })
    };
    Ok(Answer(server.engine.sessions().jobs(&id).iter().map(row).collect()))
}

/// Stops a command that runs in the background; false if it had ended.
async fn stop_job(
    State(server): State<Shared>,
    Path((session, job)): Path<(String, String)>,
) -> Result<Answer<bool>, Failure> {
    let id = id::<SessionId>(&session)?;
    server.session(&id).await?;
    let stopped = server.engine.sessions().stop_job(&id, &job).await;
    let unknown = || Failure::not_found(format!("The session has no command {job} in the background."));
    stopped.map(Answer).ok_or_else(unknown)
}

async fn done() -> Answer<bool> {
    Answer(true)
}

async fn adapters() -> Answer<Value> {
    Answer(json!([{"type": "worktree", "name": "Worktree", "description": "Create a git worktree"}]))
}

async fn ids(State(server): State<Shared>, Here(workspace): Here) -> Answer<Vec<Value>> {
    let tools = server.engine.workspaces().tools(&workspace).await;
    Answer(tools.into_iter().map(|mut tool| tool["id"].take()).collect())
}

async fn tools(State(server): State<Shared>, Here(workspace): Here) -> Answer<Vec<Value>> {
    Answer(server.engine.workspaces().tools(&workspace).await)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionsParams {
    directory: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    archived: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    roots: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    start: Option<String>,
    search: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
}

/// Lists the sessions of all projects, or of one directory.
async fn sessions(
    State(server): State<Shared>,
    by: By,
    Params(params): Params<SessionsParams>,
) -> Result<Response, Failure> {
    let filter = SessionFilter {
        directory: params.directory.filter(|directory| !directory.is_empty()),
        is_root: params.roots.as_deref() == Some("true"),
        is_active: params.archived.as_deref() != Some("true"),
        since: number(params.start.as_deref()),
        title: params.search.filter(|search| !search.is_empty()),
        limit: list_limit(params.limit.as_deref()),
        admitted: by.admitted(),
        ..SessionFilter::default()
    };
    Ok(raw_json(StatusCode::OK, server.engine.sessions().encode(filter).await?.into()))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpgradeBody {
    #[cfg_attr(test, schemars(required))]
    target: Option<String>,
}

async fn upgrade(Payload(body): Payload<UpgradeBody>) -> Result<Answer<Value>, Failure> {
    let target = required(body.target, Piece::Payload, "target")?;
    let is_version = target.split('.').count() == 3 && target.split('.').all(|it| it.parse::<u32>().is_ok());
    if !is_version {
        return Err(Failure::bad_request(Piece::Payload, "Expected a semantic version\n  at [\"target\"]"));
    }
    let error = "windlass is updated by the program that installed it.";
    Err(Failure::named(StatusCode::BAD_REQUEST, "UpgradeFailed", json!({"message": error})))
}
