//! Hands events to the readers of streams, each written once; a reader that stalls costs nobody anything.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use windlass_base::{ids, lock::lock, queue::Queue};
use windlass_core::bus::Subscriber;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::{PartId, SessionId},
    session::{Session, SessionStatus},
};

/// The project of a directory that has none, or has one that is not known yet.
const GLOBAL: &str = "global";
/// Bytes that a reader may be behind before it misses deltas; the whole part follows.
const LATE: usize = 1 << 20;
/// A sign of life for clients of the newer form.
const COMMENT: &[u8] = b": heartbeat\n\n";
/// Multiple of that at which its connection ends.
const CUT_OFF: usize = 4;
/// Sessions with projects that are known at once.
const MAX_SESSIONS: usize = 4096;

/// See the module's comment.
#[derive(Default)]
pub struct Hub(Mutex<State>);

#[derive(Default)]
struct State {
    readers: Vec<Subscription>,
    next_id: u64,
    sessions: HashMap<SessionId, Known>,
    /// Uses of sessions up to now.
    n_uses: u64,
    /// Sessions that are not idle.
    statuses: HashMap<SessionId, SessionStatus>,
}

/// A session that was used here.
#[derive(Debug)]
struct Known {
    project: ProjectDirectory,
    /// The number of its last use.
    used: u64,
}

/// The directory and project of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProjectDirectory {
    directory: Arc<str>,
    project_id: Arc<str>,
}

/// The events that a reader gets.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Those of a directory.
    Directory(Arc<str>),
    /// Those of all directories, each with its directory.
    All,
    /// The same in the form of OpenCode's newer clients.
    Located,
}

/// A reader's end of its stream; dropped, it leaves.
pub struct Reader {
    hub: Arc<Hub>,
    id: u64,
    wanted: Wanted,
    feed: Arc<Frames>,
}

struct Subscription {
    id: u64,
    wanted: Wanted,
    frames: Arc<Frames>,
    /// Texts of which this reader missed a piece; it gets the next whole part.
    gaps: HashSet<PartId>,
}

struct Frames {
    queue: Queue<Bytes>,
    is_cut_off: AtomicBool,
}

impl Hub {
    /// Adds a reader, which gets the events from now on.
    pub fn subscribe(self: &Arc<Self>, wanted: Wanted) -> Reader {
        let frames = Arc::new(Frames { queue: Queue::new(LATE), is_cut_off: AtomicBool::new(false) });
        let mut state = lock(&self.0);
        state.next_id += 1;
        let id = state.next_id;
        let (of_reader, gaps) = (wanted.clone(), HashSet::new());
        state.readers.push(Subscription { id, wanted: of_reader, frames: frames.clone(), gaps });
        Reader { hub: self.clone(), id, wanted, feed: frames }
    }

    /// Returns true if a reader gets the events of this directory alone. A reader of all directories does not count:
    /// the web page and OpenCode's terminal interface read them all, and would keep every directory's services alive.
    pub fn has_reader(&self, directory: &str) -> bool {
        let is_wanted = |wanted: &Wanted| matches!(wanted, Wanted::Directory(own) if **own == *directory);
        lock(&self.0).readers.iter().any(|it| is_wanted(&it.wanted))
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
    pub fn busy(&self) -> Vec<SessionId> {
        lock(&self.0).statuses.keys().cloned().collect()
    }

    /// Returns the sessions of a directory that are not idle.
    pub fn statuses(&self, directory: &str) -> HashMap<SessionId, SessionStatus> {
        let state = lock(&self.0);
        let is_wanted =
            |id: &SessionId| state.sessions.get(id).is_some_and(|it| *it.project.directory == *directory);
        let busy = state.statuses.iter().filter(|(id, _)| is_wanted(id));
        busy.map(|(id, status)| (id.clone(), status.clone())).collect()
    }

    /// Says something that is no event of the engine, to readers of one directory or of all.
    pub fn say(&self, directory: Option<&str>, kind: &str, properties: &Value) {
        let payload = json!({"id": ids::event(), "type": kind, "properties": properties}).to_string();
        let mut frames = EncodedEvent::new(payload, directory.unwrap_or("global"), None);
        lock(&self.0).send(directory, None, &mut frames);
    }

    /// Ends the streams of a directory, or of every single directory, behind its events.
    pub fn end(&self, directory: Option<&str>) {
        lock(&self.0).readers.retain(|it| {
            let is_ended = match &it.wanted {
                Wanted::Directory(own) => directory.is_none_or(|directory| **own == *directory),
                Wanted::All | Wanted::Located => false,
            };
            if is_ended {
                it.frames.queue.close();
            }
            !is_ended
        });
    }
}

impl Reader {
    /// Waits for frames; false once the stream has ended.
    pub async fn next_batch(&self, batch: &mut VecDeque<Bytes>) -> bool {
        self.feed.queue.next_batch(batch).await
    }

    /// Returns true if the reader was too far behind.
    pub fn is_cut_off(&self) -> bool {
        self.feed.is_cut_off.load(Ordering::Relaxed)
    }

    /// Says that the stream has begun.
    pub fn greet(&self) {
        if matches!(self.wanted, Wanted::Located) {
            self.push(COMMENT);
        }
        self.say("server.connected");
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        match self.wanted {
            Wanted::Directory(_) | Wanted::All => self.say("server.heartbeat"),
            Wanted::Located => self.push(COMMENT),
        }
    }

    fn say(&self, kind: &str) {
        let mut payload = json!({"id": ids::event(), "type": kind});
        let name = if matches!(self.wanted, Wanted::Located) { "data" } else { "properties" };
        payload[name] = json!({});
        if matches!(self.wanted, Wanted::All) {
            payload = json!({"payload": payload});
        }
        self.push(frame(&payload.to_string()));
    }

    fn push(&self, frame: impl Into<Bytes>) {
        let frame = frame.into();
        let weight = frame.len();
        self.feed.queue.push(frame, weight);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.hub.0).readers.retain(|it| it.id != self.id);
    }
}

impl Subscriber for Hub {
    fn deliver(&self, event: &Arc<Event>) {
        lock(&self.0).deliver(event);
    }

    // A turn never waits for a stream's reader: each has a bound of its own.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn n_behind(&self) -> usize {
        0
    }

    fn cut_off(&self) {}
}

impl State {
    fn deliver(&mut self, event: &Event) {
        let payload = &event.payload;
        match payload {
            EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) => self.note(&info.info),
            EventPayload::SessionStatus { session_id, status: SessionStatus::Idle } => {
                self.statuses.remove(session_id);
            }
            EventPayload::SessionStatus { session_id, status } => {
                self.statuses.insert(session_id.clone(), status.clone());
            }
            _other => {}
        }
        if !self.readers.is_empty()
            && let Ok(text) = serde_json::to_string(event)
        {
            let project = self.project(payload);
            let (directory, project_id) = match &project {
                Some(project) => (Some(&*project.directory), Some(&*project.project_id)),
                None => (None, None),
            };
            let mut frames = EncodedEvent::new(text, directory.unwrap_or("global"), project_id);
            self.send(directory, Some(payload), &mut frames);
        }
        if let EventPayload::SessionDeleted(info) = payload {
            self.sessions.remove(&info.session_id);
            self.statuses.remove(&info.session_id);
        }
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

    /// Gives a frame to the readers that want it. An event of no known directory goes to all.
    fn send(
        &mut self,
        directory: Option<&str>,
        payload: Option<&EventPayload>,
        frames: &mut EncodedEvent<'_>,
    ) {
        self.readers.retain_mut(|it| {
            let frame = match &it.wanted {
                Wanted::Directory(own) if directory.is_some_and(|directory| **own != *directory) => {
                    return true;
                }
                Wanted::Directory(_) => frames.plain(),
                Wanted::All => frames.placed(),
                Wanted::Located => frames.located(),
            };
            let n_behind = it.frames.queue.n_behind();
            if n_behind >= CUT_OFF {
                it.frames.cut_off();
                return false;
            }
            if payload.is_none_or(|payload| is_whole(payload, n_behind > 0, &mut it.gaps)) {
                let weight = frame.len();
                it.frames.queue.push(frame, weight);
            }
            true
        });
    }
}

impl Frames {
    /// Ends the stream and drops its waiting events.
    fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Relaxed);
        self.queue.close();
        self.queue.take(&mut VecDeque::new());
    }
}

/// Returns true if a reader can use the event. A delta that it has to miss leaves a gap, which the whole part closes.
fn is_whole(payload: &EventPayload, is_behind: bool, gaps: &mut HashSet<PartId>) -> bool {
    if let EventPayload::PartDelta { part_id, .. } = payload {
        if is_behind {
            gaps.insert(part_id.clone());
        }
        return gaps.is_empty() || !gaps.contains(part_id);
    }
    if let EventPayload::PartUpdated { part, .. } = payload {
        gaps.remove(&part.id);
    }
    true
}

/// An event in the forms that readers get, each written when the first reader wants it.
struct EncodedEvent<'a> {
    payload: String,
    directory: &'a str,
    project_id: Option<&'a str>,
    plain: Option<Bytes>,
    placed: Option<Bytes>,
    located: Option<Bytes>,
}

/// An event as it is written.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    #[serde(borrow)]
    r#type: &'a RawValue,
    #[serde(borrow)]
    properties: &'a RawValue,
}

impl<'a> EncodedEvent<'a> {
    fn new(payload: String, directory: &'a str, project_id: Option<&'a str>) -> Self {
        Self { payload, directory, project_id, plain: None, placed: None, located: None }
    }

    fn plain(&mut self) -> Bytes {
        self.plain.get_or_insert_with(|| frame(&self.payload)).clone()
    }

    fn placed(&mut self) -> Bytes {
        let write = || {
            let mut place = json!({"directory": self.directory});
            if let Some(project_id) = self.project_id {
                place["project"] = project_id.into();
            }
            let place = place.to_string();
            let place = place.strip_suffix('}').unwrap_or(&place);
            frame(&format!("{place},\"payload\":{}}}", self.payload))
        };
        self.placed.get_or_insert_with(write).clone()
    }

    fn located(&mut self) -> Bytes {
        let write = || {
            let location = json!({"directory": self.directory});
            match serde_json::from_str::<Parts<'_>>(&self.payload) {
                Ok(Parts { id, r#type, properties }) => frame(&format!(
                    "{{\"id\":{id},\"type\":{type},\"location\":{location},\"data\":{properties}}}"
                )),
                // Every event has them.
                Err(_) => frame(&self.payload),
            }
        };
        self.located.get_or_insert_with(write).clone()
    }
}

/// Returns the text as a server-sent event. JSON holds no line break.
fn frame(json: &str) -> Bytes {
    format!("data: {json}\n\n").into()
}

#[cfg(test)]
mod tests;
