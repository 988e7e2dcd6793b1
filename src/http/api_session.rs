//! Reads of sessions below `/api`, OpenCode's younger interface, on the same store.

use std::collections::BTreeMap;

use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_engine::{EngineErrorKind, SessionFilter};
use windlass_protocol::opencode::{id::SessionId, session::Session};

use super::{
    body::{Answer, Params, list_limit},
    by::By,
    error::Failure,
    routes::{Routes, get},
    server::Shared,
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/api/session", get(sessions))
        .route("/api/session/active", get(active))
        .route("/api/session/{id}", get(session))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListParams {
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
    search: Option<String>,
    #[serde(rename = "location[directory]")]
    location: Option<String>,
    directory: Option<String>,
}

/// Answers with the sessions of a directory where one is named, else of all.
async fn sessions(
    State(server): State<Shared>,
    by: By,
    Params(params): Params<ListParams>,
) -> Result<Answer<Value>, Failure> {
    let filter = SessionFilter {
        directory: params.location.or(params.directory).filter(|directory| !directory.is_empty()),
        title: params.search.filter(|search| !search.is_empty()),
        limit: list_limit(params.limit.as_deref()),
        admitted: by.admitted(),
        ..SessionFilter::default()
    };
    let sessions = server.engine.sessions().filter(filter).await?;
    let listed: Vec<Value> = sessions.into_iter().map(session_view).collect();
    Ok(Answer(json!({"data": listed, "cursor": {}})))
}

fn add(object: &mut Value, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[key] = value;
    }
}

pub fn session_view(session: Session) -> Value {
    let mut view = json!({
        "id": session.id,
        "projectID": session.project_id,
        "cost": session.cost,
        "tokens": session.tokens,
        "time": session.time,
        "title": session.title,
        "location": {"directory": session.directory},
    });
    add(&mut view, "parentID", session.parent_id.map(|id| json!(id)));
    add(&mut view, "agent", session.agent.map(Value::from));
    add(&mut view, "model", session.model.map(|model| json!(model)));
    add(&mut view, "subpath", session.path.map(Value::from));
    view
}

async fn active(State(server): State<Shared>, by: By) -> Answer<Value> {
    let busy = server.hub.busy().into_iter().filter(|(id, _)| by.sees(id));
    let running: BTreeMap<SessionId, Value> = busy.map(|(id, _)| (id, json!({"type": "running"}))).collect();
    Answer(json!({"data": running}))
}

/// Returns a session in the words of this interface where it is not there.
pub async fn find(server: &Shared, text: &str) -> Result<Session, Failure> {
    let id = SessionId::parse(text).map_err(|_| {
        let fields = json!({"message": "Invalid session ID", "field": "sessionID"});
        Failure::tagged(StatusCode::BAD_REQUEST, "InvalidRequestError", fields)
    })?;
    server.engine.sessions().get(&id).await.map_err(|error| match &error.kind {
        EngineErrorKind::SessionNotFound(_) => {
            let fields = json!({"sessionID": id, "message": error.message});
            Failure::tagged(StatusCode::NOT_FOUND, "SessionNotFoundError", fields)
        }
        _other => error.into(),
    })
}

async fn session(State(server): State<Shared>, Path(id): Path<String>) -> Result<Answer<Value>, Failure> {
    Ok(Answer(json!({"data": session_view(find(&server, &id).await?)})))
}
