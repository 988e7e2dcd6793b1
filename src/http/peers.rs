//! The other nodes of the fleet that a server passes requests on to: the sessions that are followed there, and the
//! requests that these have made of people.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use serde_json::Value;
use windlass_base::lock::lock;
use windlass_engine::fleet::Owner;
use windlass_protocol::opencode::{
    event::{Event, EventPayload, SessionInfo},
    id::SessionId,
};

/// Requests of permission and questions that are remembered by their sessions.
const MAX_ASKED: usize = 4096;

/// A request that came from a node of the fleet, which has judged its caller.
#[derive(Debug, Clone, Copy)]
pub struct FromFleet;

/// The other nodes that requests were passed on to.
#[derive(Default)]
pub struct Peers {
    state: Mutex<Followed>,
}

#[derive(Default)]
struct Followed {
    /// The sessions of each node with events that come here.
    sessions: HashMap<String, HashSet<SessionId>>,
    /// The directories of sessions as they are on this machine.
    directories: HashMap<SessionId, String>,
    /// The sessions that asked something, by the request.
    asked: HashMap<String, SessionId>,
}

/// Returns the kind and the id of the routes that nodes pass on. A path that climbs leads to other routes, and to none.
pub fn passed_on(path: &str) -> Option<(&str, &str)> {
    let lower = path.to_ascii_lowercase();
    if lower.contains("%2e")
        || lower.contains("%2f")
        || path.split('/').any(|piece| matches!(piece, "." | ".."))
    {
        return None;
    }
    let mut pieces = path.split('/').filter(|piece| !piece.is_empty()).skip_while(|it| *it == "api");
    let (kind, id) = (pieces.next()?, pieces.next()?);
    ["session", "permission", "question"].contains(&kind).then_some((kind, id))
}

impl Peers {
    /// Returns the session that a path is about.
    pub fn session_of(&self, path: &str) -> Option<SessionId> {
        match passed_on(path)? {
            ("session", id) => SessionId::parse(id).ok(),
            (_asked, id) => lock(&self.state).asked.get(id).cloned(),
        }
    }

    /// Notes that a session's events are wanted from a node. Returns true if none were so far.
    pub fn follow(&self, owner: &Owner, id: &SessionId) -> (bool, bool) {
        let mut state = lock(&self.state);
        let is_first = !state.sessions.contains_key(&owner.id);
        // It has moved: two nodes that follow it at each other would pass its events round.
        for (_, sessions) in state.sessions.iter_mut().filter(|(node, _)| **node != owner.id) {
            sessions.remove(id);
        }
        let is_new = state.sessions.entry(owner.id.clone()).or_default().insert(id.clone());
        (is_first, is_new)
    }

    /// Takes an event of a node in. Returns it if it is one of a session that is followed.
    pub fn take(&self, owner: &str, event: Value) -> Option<EventPayload> {
        let event: Event = serde_json::from_value(event).ok()?;
        let id = event.payload.session_id()?.clone();
        let mut state = lock(&self.state);
        let followed = state.sessions.get_mut(owner)?;
        if let EventPayload::SessionCreated(SessionInfo { info, .. })
        | EventPayload::SessionUpdated(SessionInfo { info, .. }) = &event.payload
            && info.parent_id.as_ref().is_some_and(|parent| followed.contains(parent))
        {
            followed.insert(id.clone());
        }
        if !followed.contains(&id) {
            return None;
        }
        let mut payload = event.payload;
        if let EventPayload::SessionCreated(SessionInfo { info, .. })
        | EventPayload::SessionUpdated(SessionInfo { info, .. }) = &mut payload
            && let Some(directory) = state.directories.get(&id)
        {
            Arc::make_mut(info).directory.clone_from(directory);
        }
        if let EventPayload::PermissionAsked(request) = &payload {
            state.note_asked(request.id.as_str(), &id);
        } else if let EventPayload::QuestionAsked(request) = &payload {
            state.note_asked(request.id.as_str(), &id);
        }
        Some(payload)
    }

    /// Notes the session of a request to people at another node.
    pub fn note_asked(&self, request: &str, session: &SessionId) {
        lock(&self.state).note_asked(request, session);
    }

    /// Notes the directory that a session has on this machine.
    pub fn place(&self, id: &SessionId, directory: &str) {
        lock(&self.state).directories.insert(id.clone(), directory.to_owned());
    }

    /// Follows a session at a node no more.
    pub fn unfollow(&self, owner: &str, id: &SessionId) {
        if let Some(sessions) = lock(&self.state).sessions.get_mut(owner) {
            sessions.remove(id);
        }
    }

    /// Follows nothing of a node any more. Returns the sessions that were followed.
    pub fn forget(&self, owner: &str) -> HashSet<SessionId> {
        lock(&self.state).sessions.remove(owner).unwrap_or_default()
    }
}

impl Followed {
    fn note_asked(&mut self, request: &str, session: &SessionId) {
        if self.asked.len() >= MAX_ASKED {
            self.asked.clear();
        }
        self.asked.insert(request.to_owned(), session.clone());
    }
}

#[cfg(test)]
mod tests;
