//! Routes of sessions: making, listing, reading, changing and deleting them.

use axum::{Extension, extract::State, http::StatusCode, response::Response};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use windlass_engine::{NewSession, SessionFilter, SessionPatch};
use windlass_protocol::opencode::{
    id::SessionId,
    permission::Rule,
    project::WorktreeChoice,
    session::{Session, SessionModel},
};

use super::{
    admission::Noted,
    body::{Answer, Id, Params, Payload, list_limit, number, raw_json},
    by::{By, no_directory},
    error::{Failure, Piece},
    routes::{Routes, get, post},
    selection::{Named, Selected},
    server::Shared,
    session_access::{self, ShareBody},
};

pub fn routes() -> Routes {
    Routes::new()
        .route("/session", get(list).post(create))
        .route("/session/{id}", get(read).patch(update).delete(delete))
        .route("/session/{id}/children", get(children))
        .route("/session/{id}/share", post(share).delete(unshare))
}

/// Session to be made.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct CreateBody {
    #[serde(rename = "parentID")]
    parent_id: Option<String>,
    title: Option<String>,
    agent: Option<String>,
    model: Option<SessionModel>,
    permission: Option<Vec<Rule>>,
    metadata: Option<Map<String, Value>>,
    /// Ours: a git worktree to work in.
    worktree: Option<WorktreeChoice>,
}

async fn create(
    State(server): State<Shared>,
    by: By,
    Selected(directory): Selected,
    Payload(body): Payload<CreateBody>,
) -> Result<(Extension<Noted>, Answer<Session>), Failure> {
    let CreateBody { parent_id, title, agent, model, permission, metadata, worktree } = body;
    let parent_id = match parent_id {
        Some(text) => {
            let id = SessionId::parse(&text).map_err(|error| {
                Failure::bad_request(Piece::Payload, format!("{error}\n  at [\"parentID\"]"))
            })?;
            Some(server.session(&id).await?.id)
        }
        None => None,
    };
    let title = title.filter(|title| !title.trim().is_empty());
    let mut new = NewSession {
        directory,
        title,
        parent_id,
        agent,
        model,
        permission,
        metadata,
        worktree,
        ..NewSession::default()
    };
    let opened = by.create(&server, &mut new).await?;
    server.hold(&opened.info.id).await;
    server.engine.workspaces().watch(&opened.workspace);
    let noted = Extension(Noted::subject(&opened.info.id));
    Ok((noted, Answer(session_access::share_unasked(&server, &by, opened.info).await)))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ListParams {
    scope: Option<String>,
    path: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<bool>"))]
    roots: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    start: Option<String>,
    search: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    limit: Option<String>,
}

async fn list(
    State(server): State<Shared>,
    by: By,
    selected: Named,
    Params(params): Params<ListParams>,
) -> Result<Response, Failure> {
    let is_root = match params.roots.as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            let message = format!("Expected \"true\" | \"false\", got {other:?}\n  at [\"roots\"]");
            return Err(Failure::bad_request(Piece::Query, message));
        }
    };
    let mut filter = SessionFilter {
        is_root,
        since: number(params.start.as_deref()),
        title: params.search.filter(|search| !search.is_empty()),
        limit: list_limit(params.limit.as_deref()),
        admitted: by.admitted(),
        ..SessionFilter::default()
    };
    if params.scope.as_deref() == Some("project") || params.path.is_some() {
        if !by.may_open(&selected.0) {
            return Err(no_directory(&selected.0));
        }
        let workspace = server.engine.workspaces().workspace(&selected.0).await?;
        filter.project = Some(server.engine.workspaces().project_and_worktree(&workspace).await?);
        filter.path = params.path.filter(|path| !path.is_empty());
    } else {
        filter.directory = Some(selected.text());
    }
    Ok(raw_json(StatusCode::OK, server.engine.sessions().encode(filter).await?.into()))
}

async fn read(State(server): State<Shared>, Id(id): Id<SessionId>) -> Result<Answer<Session>, Failure> {
    Ok(Answer(server.session(&id).await?))
}

/// Changes of a session.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpdateBody {
    title: Option<String>,
    time: Option<UpdateTime>,
    permission: Option<Vec<Rule>>,
    metadata: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UpdateTime {
    /// Absent, nothing changes; null takes the session out of the archive.
    #[serde(default, deserialize_with = "present")]
    archived: Option<Option<f64>>,
}

/// Reads a value that may be null, so that null differs from absence.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

async fn update(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
    Payload(body): Payload<UpdateBody>,
) -> Result<Answer<Session>, Failure> {
    let UpdateBody { title, time, permission, metadata } = body;
    if let Some(title) = title {
        server.engine.sessions().rename(&id, &title).await?;
    }
    let archived = time.and_then(|time| time.archived).map(|archived| archived.map(|ms| ms as i64));
    let patch = SessionPatch { archived, permission, metadata, ..SessionPatch::default() };
    Ok(Answer(server.engine.sessions().patch(&id, patch).await?))
}

async fn delete(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
) -> Result<Answer<bool>, Failure> {
    server.session(&id).await?;
    server.engine.sessions().delete(&id).await?;
    server.release(&id);
    by.forget(&id).await;
    Ok(Answer(true))
}

async fn children(
    State(server): State<Shared>,
    Id(id): Id<SessionId>,
) -> Result<Answer<Vec<Session>>, Failure> {
    server.session(&id).await?;
    let filter = SessionFilter { parent_id: Some(id), limit: usize::MAX, ..SessionFilter::default() };
    Ok(Answer(server.engine.sessions().filter(filter).await?))
}

async fn share(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
    Payload(body): Payload<ShareBody>,
) -> Result<(Extension<Noted>, Answer<Session>), Failure> {
    server.session(&id).await?;
    let noted = Noted::detail(body.words());
    Ok((Extension(noted), Answer(session_access::share(&server, &by, &id, body).await?)))
}

async fn unshare(
    State(server): State<Shared>,
    by: By,
    Id(id): Id<SessionId>,
) -> Result<Answer<Session>, Failure> {
    server.session(&id).await?;
    Ok(Answer(session_access::unshare(&server, &by, &id).await?))
}
