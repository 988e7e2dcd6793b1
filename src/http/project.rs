//! Routes of projects and of the paths that belong to them.

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde_json::{Value, json};
use windlass_files::Projects;
use windlass_protocol::opencode::project::{Project, ProjectUpdate};

use super::{
    body::{Answer, Payload},
    by::By,
    error::Failure,
    here::Here,
    routes::{Routes, get, patch, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/path", get(paths))
        .route("/project", get(list))
        .route("/project/current", get(current))
        .route("/project/git/init", post(init_git))
        .route("/project/{id}", patch(update))
        .route("/project/{id}/directories", get(directories))
}

async fn paths(Here(workspace): Here) -> Answer<Value> {
    let config = &workspace.loaded().config;
    Answer(json!({
        "home": config.environment.home,
        "state": config.paths.data,
        "config": config.paths.opencode_config,
        "worktree": config.worktree,
        "directory": config.directory,
    }))
}

async fn list(State(server): State<Shared>, by: By) -> Result<Answer<Vec<Project>>, Failure> {
    let mut projects = Projects::of(&server.engine).projects().await?;
    projects.retain(|it| by.may_open(it.worktree.as_ref()));
    Ok(Answer(projects))
}

async fn current(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Project>, Failure> {
    Ok(Answer(Projects::of(&server.engine).project(&workspace).await?))
}

async fn init_git(State(server): State<Shared>, Here(workspace): Here) -> Result<Answer<Project>, Failure> {
    Ok(Answer(Projects::of(&server.engine).init_git(&workspace).await?))
}

async fn update(
    State(server): State<Shared>,
    Path(id): Path<String>,
    Payload(update): Payload<ProjectUpdate>,
) -> Result<Answer<Project>, Failure> {
    let project = Projects::of(&server.engine).update_project(&id, update).await?;
    project.map(Answer).ok_or_else(|| {
        let fields = json!({"projectID": id, "message": format!("Project not found: {id}")});
        Failure::tagged(StatusCode::NOT_FOUND, "ProjectNotFoundError", fields)
    })
}

async fn directories(
    State(server): State<Shared>,
    by: By,
    Path(id): Path<String>,
) -> Result<Answer<Value>, Failure> {
    let mut directories = Projects::of(&server.engine).project_directories(&id).await?;
    directories.retain(|it| by.may_open(it.as_ref()));
    Ok(Answer(directories.into_iter().map(|directory| json!({"directory": directory})).collect()))
}
