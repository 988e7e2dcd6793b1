//! Sessions of other nodes of the fleet that work, and their requests to people: listed here, so that any server shows and takes
//! them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use axum::http::Method;
use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use windlass_engine::fleet::Owner;
use windlass_protocol::opencode::{
    id::SessionId, permission::PermissionRequest, question::QuestionRequest, session::SessionStatus,
};

use super::{
    pass_on::{PERMISSIONS, QUESTIONS, STATUSES, follow},
    server::Shared,
};

/// Time in which another node answers; its requests are missing otherwise.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns the permissions that sessions of a directory wait for elsewhere.
pub async fn permissions(server: &Shared, directory: &str) -> Vec<PermissionRequest> {
    asked(server, directory, PERMISSIONS, |request: &PermissionRequest| {
        (Some(request.id.to_string()), request.session_id.clone())
    })
    .await
}

/// Returns the questions that sessions of a directory wait for elsewhere.
pub async fn questions(server: &Shared, directory: &str) -> Vec<QuestionRequest> {
    asked(server, directory, QUESTIONS, |request: &QuestionRequest| {
        (Some(request.id.to_string()), request.session_id.clone())
    })
    .await
}

/// Returns the states of a directory's sessions that work elsewhere.
pub async fn statuses(server: &Shared, directory: &str) -> Vec<(SessionId, SessionStatus)> {
    asked(server, directory, STATUSES, |(id, _): &(SessionId, SessionStatus)| (None, id.clone())).await
}

async fn asked<T: DeserializeOwned>(
    server: &Shared,
    directory: &str,
    path: &str,
    ids: impl Fn(&T) -> (Option<String>, SessionId),
) -> Vec<T> {
    let owners = owners(server).await;
    let answers = owners.values().map(|(owner, sessions)| async move {
        let answer = tokio::time::timeout(LIMIT, ask::<T>(server, owner, path)).await;
        let answer = answer.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        (owner, sessions, answer)
    });
    let mut found = Vec::new();
    for (owner, sessions, answer) in join_all(answers).await {
        let requests = answer.unwrap_or_else(|reason| {
            tracing::debug!(node = owner.name, reason, "its sessions at work are not listed");
            Vec::new()
        });
        for request in requests {
            let (id, session) = ids(&request);
            if !sessions.contains(&session) {
                continue;
            }
            let listed = server.engine.fleet().listed(&session, &server.options.directory).await;
            if listed.is_none_or(|info| info.directory != directory) {
                continue;
            }
            // The answer is passed on, and the events behind it are heard here.
            if let Some(id) = id {
                server.peers.note_asked(&id, &session);
            }
            if let Err(reason) = follow(server, owner, &session).await {
                tracing::debug!(node = owner.name, reason, "its events are not followed");
            }
            found.push(request);
        }
    }
    found
}

/// Returns the other nodes that have sessions and take requests, with these.
async fn owners(server: &Shared) -> HashMap<String, (Owner, HashSet<SessionId>)> {
    let fleet = server.engine.fleet();
    let mut found: HashMap<String, (Owner, HashSet<SessionId>)> = HashMap::new();
    if !fleet.is_shared().await {
        return found;
    }
    for (id, owner) in fleet.owners().await.unwrap_or_default() {
        let session = SessionId::from_trusted(id);
        if owner.address.is_none() || !owner.is_alive || fleet.holds(&session) {
            continue;
        }
        found.entry(owner.id.clone()).or_insert_with(|| (owner, HashSet::new())).1.insert(session);
    }
    found
}

async fn ask<T: DeserializeOwned>(server: &Shared, owner: &Owner, path: &str) -> Result<Vec<T>, String> {
    let asked = server.engine.fleet().request(owner, Method::GET, path).await?;
    let answer = asked.send().await.map_err(|error| error.without_url().to_string())?;
    answer.json().await.map_err(|error| error.without_url().to_string())
}
