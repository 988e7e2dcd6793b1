//! The prompts that wait for turns of a session: listed, changed, withdrawn, and let go on.

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::Delivery;
use windlass_protocol::opencode::{
    id::SessionId,
    inbox::{InboxDelivery, InboxItem},
};

use super::{
    api_session::find,
    body::{Answer, Payload},
    error::{Failure, Piece},
    routes::{Routes, delete, get, post},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/session/{id}/inbox", get(list))
        .route("/api/session/{id}/inbox/{inbox}", delete(withdraw).patch(change))
        .route("/api/session/{id}/wake", post(wake))
}

async fn list(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Value>, Failure> {
    let id = find(&server, &id).await?.id;
    server.open(&id).await?;
    let waiting = server.engine.sessions().waiting_prompts(&id);
    let listed: Vec<InboxItem> = waiting.iter().map(|prompt| prompt.item(&id)).collect();
    Ok(Answer(json!({ "data": listed })))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Change {
    delivery: Option<InboxDelivery>,
    /// The words that take the place of the prompt's; its files stay.
    text: Option<String>,
    /// The index in the list that the prompt gets; zero is the first.
    position: Option<usize>,
}

async fn change(
    State(server): State<Shared>,
    Path((session, inbox)): Path<(String, String)>,
    Payload(Change { delivery, text, position }): Payload<Change>,
) -> Result<StatusCode, Failure> {
    let (id, ticket) = waiting(&server, &session, &inbox).await?;
    if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
        return Err(Failure::bad_request(Piece::Payload, "A prompt has to have words\n  at [\"text\"]"));
    }
    let sessions = server.engine.sessions();
    let settling = sessions.settling(&id, ticket);
    let is_changed = text.is_none_or(|text| sessions.change_words(&id, ticket, text))
        && sessions.change_prompt(&id, ticket, None, delivery.map(Delivery::from))
        && position.is_none_or(|position| sessions.move_prompt(&id, ticket, position));
    if !is_changed {
        return Err(gone(&inbox));
    }
    if matches!(delivery, Some(InboxDelivery::Steer)) {
        sessions.wake_prompt(&id, ticket);
    }
    settling.settled().await;
    if position.is_some() {
        sessions.settle_all(&id).await;
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn withdraw(
    State(server): State<Shared>,
    Path((session, inbox)): Path<(String, String)>,
) -> Result<StatusCode, Failure> {
    let (id, ticket) = waiting(&server, &session, &inbox).await?;
    let settling = server.engine.sessions().settling(&id, ticket);
    if !server.engine.sessions().withdraw_prompt(&id, ticket) {
        return Err(gone(&inbox));
    }
    settling.settled().await;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets the prompts go on that wait for the next one.
async fn wake(State(server): State<Shared>, Path(id): Path<String>) -> Result<StatusCode, Failure> {
    let id = find(&server, &id).await?.id;
    server.open(&id).await?;
    server.engine.sessions().wake(&id);
    Ok(StatusCode::NO_CONTENT)
}

async fn waiting(server: &Shared, session: &str, inbox: &str) -> Result<(SessionId, u64), Failure> {
    let id = find(server, session).await?.id;
    server.open(&id).await?;
    let listed = server.engine.sessions().waiting_prompts(&id);
    let found = listed.iter().find(|prompt| prompt.id.as_str() == inbox);
    found.map(|prompt| (id, prompt.ticket)).ok_or_else(|| gone(inbox))
}

fn gone(inbox: &str) -> Failure {
    let message = format!("No prompt {inbox} waits in this session; it may have begun.");
    Failure::tagged(StatusCode::CONFLICT, "ConflictError", json!({"message": message, "resource": inbox}))
}
