//! Routes of version control, and of worktrees for tasks.

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::WorktreeError;
use windlass_files::{ApplyError, DiffBase, Files};
use windlass_protocol::opencode::project::{VcsFile, VcsInfo, Worktree, WorktreeCreate};

use super::{
    body::{Answer, Params, Payload, number},
    error::{Failure, Piece},
    here::{Here, required},
    routes::{Routes, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/vcs", get(info))
        .route("/vcs/status", get(status))
        .route("/vcs/diff", get(diff))
        .route("/vcs/diff/raw", get(raw_diff))
        .route("/vcs/apply", post(apply))
        .route("/experimental/worktree", get(worktrees).post(create).delete(remove))
        .route("/experimental/worktree/reset", post(reset))
}

async fn info(Here(workspace): Here) -> Answer<VcsInfo> {
    Answer(Files::of(&workspace).vcs_info().await)
}

async fn status(Here(workspace): Here) -> Result<Answer<Vec<VcsFile>>, Failure> {
    Ok(Answer(Files::of(&workspace).vcs_status().await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffParams {
    #[cfg_attr(test, schemars(required))]
    mode: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    context: Option<String>,
}

async fn diff(
    Here(workspace): Here,
    Params(params): Params<DiffParams>,
) -> Result<Answer<Vec<VcsFile>>, Failure> {
    let base = match required(params.mode, Piece::Query, "mode")?.as_str() {
        "git" => DiffBase::Head,
        "branch" => DiffBase::Branch,
        other => {
            let message = format!("Expected \"git\" | \"branch\", got {other:?}\n  at [\"mode\"]");
            return Err(Failure::bad_request(Piece::Query, message));
        }
    };
    Ok(Answer(Files::of(&workspace).vcs_diff(base, number(params.context.as_deref())).await?))
}

async fn raw_diff(Here(workspace): Here) -> Result<Response, Failure> {
    let mut response = Files::of(&workspace).vcs_patch().await?.into_response();
    let content_type = HeaderValue::from_static("text/x-diff; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    Ok(response)
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ApplyBody {
    #[cfg_attr(test, schemars(required))]
    patch: Option<String>,
}

async fn apply(Here(workspace): Here, Payload(body): Payload<ApplyBody>) -> Result<Answer<Value>, Failure> {
    let patch = required(body.patch, Piece::Payload, "patch")?;
    Files::of(&workspace).vcs_apply(&patch).await.map_err(|error| {
        let reason = match &error {
            ApplyError::NonGit => "non-git",
            ApplyError::NotClean(_) => "not-clean",
        };
        let data = json!({"message": error.to_string(), "reason": reason});
        Failure::named(StatusCode::BAD_REQUEST, "VcsApplyError", data)
    })?;
    Ok(Answer(json!({"applied": true})))
}

async fn worktrees(
    State(server): State<Shared>,
    Here(workspace): Here,
) -> Result<Answer<Vec<String>>, Failure> {
    Ok(Answer(server.engine.worktrees().directories(&workspace).await?))
}

async fn create(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(body): Payload<WorktreeCreate>,
) -> Result<Answer<Worktree>, Failure> {
    Ok(Answer(server.engine.worktrees().create(&workspace, body).await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DirectoryBody {
    #[cfg_attr(test, schemars(required))]
    directory: Option<String>,
}

async fn remove(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(body): Payload<DirectoryBody>,
) -> Result<Answer<bool>, Failure> {
    let directory = required(body.directory, Piece::Payload, "directory")?;
    server.engine.worktrees().remove(&workspace, &directory).await?;
    Ok(Answer(true))
}

async fn reset(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(body): Payload<DirectoryBody>,
) -> Result<Answer<bool>, Failure> {
    let directory = required(body.directory, Piece::Payload, "directory")?;
    server.engine.worktrees().reset(&workspace, &directory).await?;
    Ok(Answer(true))
}

impl From<WorktreeError> for Failure {
    fn from(error: WorktreeError) -> Self {
        let name = match &error {
            WorktreeError::List(_) => return Self::unknown(error.to_string()),
            WorktreeError::NotGit => "WorktreeNotGitError",
            WorktreeError::NoName | WorktreeError::Name { .. } => "WorktreeNameGenerationFailedError",
            WorktreeError::Create(_) => "WorktreeCreateFailedError",
            WorktreeError::Remove(_) => "WorktreeRemoveFailedError",
            WorktreeError::Reset(_) => "WorktreeResetFailedError",
        };
        Self::named(StatusCode::BAD_REQUEST, name, json!({"message": error.to_string()}))
    }
}
