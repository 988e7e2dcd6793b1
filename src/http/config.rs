//! Routes of the configuration, and of its definitions: agents, commands and skills.

use axum::extract::State;
use serde_json::{Map, Value};

use super::{
    body::{Answer, Payload},
    error::Failure,
    here::Here,
    routes::{Routes, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/config", get(read).patch(change))
        .route("/global/config", get(read_user).patch(change_user))
        .route("/agent", get(agents))
        .route("/command", get(commands))
        .route("/skill", get(skills))
}

async fn read(State(server): State<Shared>, Here(workspace): Here) -> Answer<Map<String, Value>> {
    Answer(server.engine.workspaces().shown_config(workspace.directory()).await)
}

async fn change(
    State(server): State<Shared>,
    Here(workspace): Here,
    Payload(patch): Payload<Map<String, Value>>,
) -> Result<Answer<Map<String, Value>>, Failure> {
    Ok(Answer(server.engine.workspaces().patch_config(&workspace, patch).await?))
}

async fn read_user(State(server): State<Shared>) -> Answer<Map<String, Value>> {
    Answer(server.engine.workspaces().shown_user_config().await)
}

async fn change_user(
    State(server): State<Shared>,
    Payload(patch): Payload<Map<String, Value>>,
) -> Result<Answer<Map<String, Value>>, Failure> {
    Ok(Answer(server.engine.workspaces().patch_user_config(patch).await?))
}

async fn agents(Here(workspace): Here) -> Answer<Vec<Value>> {
    Answer(workspace.loaded().shown_agents())
}

async fn commands(Here(workspace): Here) -> Answer<Vec<Value>> {
    Answer(workspace.loaded().shown_commands(&workspace.server_commands().await))
}

async fn skills(Here(workspace): Here) -> Answer<Vec<Value>> {
    Answer(workspace.loaded().shown_skills().await)
}
