//! Changes of the lists of sessions that the client watches (facts: ACP §1.6): gathered, and told at most once a second.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::Instant;
use windlass_protocol::{
    opencode::{event::EventPayload, id::SessionId, session::Session},
    rpc,
};
use windlass_protocol_acp::ext;

use crate::acp::{lines::Lines, to_proto};

/// Lists that one client watches.
const MAX_WATCHED: usize = 128;
/// Time without a change after which the changes are told.
const QUIET: Duration = Duration::from_millis(150);
/// Time from a change until it is told, and between two messages.
const LONGEST: Duration = Duration::from_secs(1);

/// See the module's comment.
#[derive(Default)]
pub struct Lists {
    watched: BTreeMap<String, PathBuf>,
    n_made: usize,
    /// The sessions that changed, as they are now; none for one that is gone.
    changed: BTreeMap<SessionId, (PathBuf, Option<Arc<Session>>)>,
    first: Option<Instant>,
    last: Option<Instant>,
    told: Option<Instant>,
}

impl Lists {
    /// Watches the list of a directory; returns the id of that, or `None` where too many are watched.
    pub fn watch(&mut self, directory: PathBuf) -> Option<String> {
        if self.watched.len() >= MAX_WATCHED {
            return None;
        }
        self.n_made += 1;
        let id = format!("list_{}", self.n_made);
        self.watched.insert(id.clone(), directory);
        Some(id)
    }

    /// Watches a list no more; returns true if another one is watched.
    pub fn unwatch(&mut self, id: &str) -> bool {
        self.watched.remove(id);
        if self.watched.is_empty() {
            self.changed.clear();
            (self.first, self.last) = (None, None);
        }
        !self.watched.is_empty()
    }

    /// Notes an event about a session.
    pub fn note(&mut self, payload: &EventPayload) {
        if self.watched.is_empty() {
            return;
        }
        let (info, is_there) = match payload {
            EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) => (&info.info, true),
            EventPayload::SessionDeleted(info) => (&info.info, false),
            _ => return,
        };
        let is_watched =
            info.parent_id.is_none() && self.watched.values().any(|it| it.as_os_str() == &*info.directory);
        if is_watched {
            let changed = (PathBuf::from(&*info.directory), is_there.then(|| info.clone()));
            self.changed.insert(info.id.clone(), changed);
            let now = Instant::now();
            self.first.get_or_insert(now);
            self.last = Some(now);
        }
    }

    /// Returns the time at which [`Lists::tell_due`] has something to tell.
    pub fn due(&self) -> Option<Instant> {
        let due = (self.last? + QUIET).min(self.first? + LONGEST);
        Some(self.told.map_or(due, |told| due.max(told + LONGEST)))
    }

    /// Tells the changes that are due.
    pub fn tell_due(&mut self, now: Instant, lines: &mut Lines<'_>) {
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let changed = std::mem::take(&mut self.changed);
        (self.first, self.last, self.told) = (None, None, Some(now));
        for (id, directory) in &self.watched {
            let (mut sessions, mut removed) = (Vec::new(), Vec::new());
            for (session_id, (_, session)) in changed.iter().filter(|(_, (of, _))| of == directory) {
                match session {
                    Some(session) => sessions.push(to_proto::session_info(session)),
                    None => removed.push(session_id),
                }
            }
            if !sessions.is_empty() || !removed.is_empty() {
                let params = json!({"subscriptionId": id, "sessions": sessions, "removed": removed});
                lines.write(&rpc::notification(ext::LIST_CHANGES, params));
            }
        }
    }
}
