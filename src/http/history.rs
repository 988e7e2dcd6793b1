//! Routes of a session's past: its tasks, changed files, state, undoing and copies.

use std::collections::HashMap;

use axum::extract::State;
use serde::Deserialize;
use windlass_engine::RevertTo;
use windlass_protocol::opencode::{
    file_diff::FileDiff,
    id::{MessageId, PartId, SessionId},
    session::{Session, SessionStatus, Todo},
};

use super::{
    asked_elsewhere,
    body::{Answer, Id, Params, Payload},
    by::By,
    error::Failure,
    routes::{Routes, get, post},
    selection::Named,
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/session/status", get(status))
        .route("/session/{id}/todo", get(todo))
        .route("/session/{id}/diff", get(diff))
        .route("/session/{id}/revert", post(revert))
        .route("/session/{id}/unrevert", post(unrevert))
        .route("/session/{id}/fork", post(fork))
}

/// Answers with the sessions that are not idle.
async fn status(
    State(server): State<Shared>,
    by: By,
    selected: Named,
) -> Answer<HashMap<SessionId, SessionStatus>> {
    let mut statuses = server.hub.statuses(&selected.text());
    // A prompt that was just accepted has not said so yet.
    for id in server.engine.sessions().working(&selected.0) {
        statuses.entry(id).or_insert(SessionStatus::Busy);
    }
    statuses.extend(asked_elsewhere::statuses(&server, &selected.text()).await);
    statuses.retain(|id, _| by.sees(id));
    Answer(statuses)
}

async fn todo(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Answer<Vec<Todo>>, Failure> {
    server.session(&id).await?;
    Ok(Answer(server.engine.sessions().todos(&id).await?))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffParams {
    #[serde(rename = "messageID")]
    message_id: Option<MessageId>,
}

async fn diff(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Params(params): Params<DiffParams>,
) -> Result<Answer<Vec<FileDiff>>, Failure> {
    Ok(Answer(server.engine.sessions().diff(&id, params.message_id.as_ref()).await?))
}

/// The first thing to be undone.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RevertBody {
    #[serde(rename = "messageID")]
    message_id: MessageId,
    #[serde(rename = "partID")]
    part_id: Option<PartId>,
}

async fn revert(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Payload(body): Payload<RevertBody>,
) -> Result<Answer<Session>, Failure> {
    let RevertBody { message_id, part_id } = body;
    undo(&server, &id, RevertTo::Message { message_id, part_id }).await
}

async fn unrevert(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Answer<Session>, Failure> {
    undo(&server, &id, RevertTo::Nothing).await
}

pub async fn undo(server: &Shared, id: &SessionId, to: RevertTo) -> Result<Answer<Session>, Failure> {
    server.open(id).await?;
    server.require_idle(id)?;
    Ok(Answer(server.engine.sessions().revert(id, to).await?.info))
}

/// The end of a copy.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ForkBody {
    #[serde(rename = "messageID")]
    message_id: Option<MessageId>,
}

async fn fork(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<ForkBody>,
) -> Result<Answer<Session>, Failure> {
    let workspace = server.open(&id).await?;
    let copied = by.copy(&server.session(&id).await?).await?;
    let made = copied.id.clone();
    let forked = server.engine.sessions().fork_as(&workspace, &id, body.message_id.as_ref(), copied).await;
    if let (Err(_), Some(id)) = (&forked, &made) {
        by.forget(id).await;
    }
    let forked = forked?;
    server.open(&forked.id).await?;
    Ok(Answer(forked))
}
