//! Knows where sessions are and which of them work, for the streams of events and for requests.

use std::{
    collections::{HashMap, hash_map::Entry},
    path::Path,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use windlass_base::lock::lock;
use windlass_core::bus::Subscriber;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
    session::{Session, SessionStatus},
};

use super::frame::{EncodedEvent, ProjectDirectory};

/// The project of a directory that has none, or has one that is not known yet.
const GLOBAL: &str = "global";
/// Sessions with projects that are known at once.
const MAX_SESSIONS: usize = 4096;

/// A subscriber of the bus, before every stream; see the module's comment.
#[derive(Default)]
pub struct Hub(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: HashMap<SessionId, Known>,
    /// Uses of sessions up to now.
    n_uses: u64,
    /// Sessions that are not idle.
    statuses: HashMap<SessionId, SessionStatus>,
    /// Readers of one directory's events, by directory.
    watched: HashMap<Arc<str>, usize>,
    /// The event that streams are getting now.
    encoded: Option<Arc<EncodedEvent>>,
}

/// A session that was used here.
#[derive(Debug)]
struct Known {
    project: ProjectDirectory,
    /// The number of its last use.
    used: u64,
}

impl Hub {
    /// Counts a reader of a directory's events.
    pub fn watch(&self, directory: &Arc<str>) {
        *lock(&self.0).watched.entry(directory.clone()).or_default() += 1;
    }

    /// Counts a reader no more.
    pub fn unwatch(&self, directory: &Arc<str>) {
        if let Entry::Occupied(mut count) = lock(&self.0).watched.entry(directory.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Returns true if a reader gets the events of this directory alone. A reader of all directories does not count:
    /// the web page and OpenCode's terminal interface read them all, and would keep every directory's services alive.
    pub fn has_reader(&self, directory: &str) -> bool {
        lock(&self.0).watched.contains_key(directory)
    }

    /// Returns an event as streams get it, written once for all of them.
    pub fn encoded(&self, event: &Arc<Event>) -> Arc<EncodedEvent> {
        lock(&self.0).encoded(event)
    }

    /// Learns where a session is.
    pub fn note(&self, info: &Session) {
        lock(&self.0).note(info);
    }

    /// Returns the directory of a session that was used here.
    pub fn directory(&self, id: &SessionId) -> Option<Arc<str>> {
        lock(&self.0).sessions.get(id).map(|known| known.project.directory.clone())
    }

    /// Notes that a session is used; false if it is not known.
    pub fn touch(&self, id: &SessionId) -> bool {
        let mut state = lock(&self.0);
        let now = state.next_use();
        state.sessions.get_mut(id).map(|known| known.used = now).is_some()
    }

    /// Returns the idle sessions that were used longest ago, an eighth more than there are beyond `max`; none if there
    /// are not so many.
    pub fn idle_beyond(&self, max: usize) -> Vec<SessionId> {
        lock(&self.0).idle_beyond(max)
    }

    /// Forgets a session until it is used again.
    pub fn forget(&self, id: &SessionId) {
        lock(&self.0).sessions.remove(id);
    }

    /// Returns all sessions that are not idle.
    pub fn busy(&self) -> Vec<(SessionId, SessionStatus)> {
        lock(&self.0).statuses.iter().map(|(id, status)| (id.clone(), status.clone())).collect()
    }

    /// Returns the sessions of a directory that are not idle.
    pub fn statuses(&self, directory: &str) -> HashMap<SessionId, SessionStatus> {
        let state = lock(&self.0);
        let is_wanted =
            |id: &SessionId| state.sessions.get(id).is_some_and(|it| *it.project.directory == *directory);
        let busy = state.statuses.iter().filter(|(id, _)| is_wanted(id));
        busy.map(|(id, status)| (id.clone(), status.clone())).collect()
    }
}

impl Subscriber for Hub {
    fn deliver(&self, event: &Arc<Event>) {
        lock(&self.0).deliver(event);
    }

    // A turn never waits for it: an event is noted at once.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn n_behind(&self) -> usize {
        0
    }

    fn cut_off(&self) {}
}

impl State {
    fn deliver(&mut self, event: &Arc<Event>) {
        match &event.payload {
            EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) => self.note(&info.info),
            EventPayload::SessionStatus { session_id, status: SessionStatus::Idle } => {
                self.statuses.remove(session_id);
            }
            EventPayload::SessionStatus { session_id, status } => {
                self.statuses.insert(session_id.clone(), status.clone());
            }
            EventPayload::SessionDeleted(info) => {
                // Its streams get its end all the same.
                self.encoded(event);
                self.sessions.remove(&info.session_id);
                self.statuses.remove(&info.session_id);
            }
            _other => {}
        }
    }

    fn encoded(&mut self, event: &Arc<Event>) -> Arc<EncodedEvent> {
        if let Some(encoded) = self.encoded.as_ref().filter(|it| it.is_of(event)) {
            return encoded.clone();
        }
        let encoded = Arc::new(EncodedEvent::new(event.clone(), self.project(&event.payload)));
        self.encoded.insert(encoded).clone()
    }

    fn note(&mut self, info: &Session) {
        let used = self.next_use();
        if let Some(known) = self.sessions.get_mut(&info.id)
            && *known.project.directory == *info.directory
            && *known.project.project_id == *info.project_id
        {
            known.used = used;
            return;
        }
        let project = ProjectDirectory {
            directory: info.directory.as_str().into(),
            project_id: info.project_id.as_str().into(),
        };
        self.sessions.insert(info.id.clone(), Known { project, used });
        for id in self.idle_beyond(MAX_SESSIONS) {
            self.sessions.remove(&id);
        }
    }

    fn next_use(&mut self) -> u64 {
        self.n_uses += 1;
        self.n_uses
    }

    fn idle_beyond(&self, max: usize) -> Vec<SessionId> {
        if self.sessions.len() <= max {
            return Vec::new();
        }
        // Some more than needed, so that the next sessions do not sort again.
        let n_idle = self.sessions.len() - max + max / 8;
        let idle = self.sessions.iter().filter(|(id, _)| !self.statuses.contains_key(*id));
        let mut idle: Vec<(u64, &SessionId)> = idle.map(|(id, known)| (known.used, id)).collect();
        idle.sort_unstable_by_key(|(used, _)| *used);
        idle.into_iter().take(n_idle).map(|(_, id)| id.clone()).collect()
    }

    /// Returns the directory that an event is about: its session's, its service's, or the deepest one that holds its
    /// file.
    fn project(&self, payload: &EventPayload) -> Option<ProjectDirectory> {
        if let Some(id) = payload.session_id() {
            return self.sessions.get(id).map(|known| known.project.clone());
        }
        let mut projects = self.sessions.values().map(|known| &known.project);
        if let EventPayload::Service(event) = payload {
            let directory = event.directory.as_deref()?;
            let known = projects.find(|project| *project.directory == *directory).cloned();
            return known.or_else(|| {
                Some(ProjectDirectory { directory: directory.into(), project_id: GLOBAL.into() })
            });
        }
        let path = match payload {
            EventPayload::FileEdited { file } => file,
            EventPayload::ConfigUpdated { directory } => directory,
            _other => return None,
        };
        let around = projects.filter(|project| Path::new(path).starts_with(&*project.directory));
        around.max_by_key(|project| project.directory.len()).cloned()
    }
}

#[cfg(test)]
mod tests;
