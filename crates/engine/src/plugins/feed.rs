//! The events that plugins get: those of their directory, in order, as fast as they take them.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::Arc,
};

use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::queue::Queue;
use windlass_core::bus::Filter;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
};
use windlass_services::plugin::host::Host;

use crate::Engine;

/// Events that are handed over at once.
const MAX_BATCH: usize = 256;

/// Feeds a host until the handle is dropped.
pub(super) fn start(engine: &Engine, host: &Arc<Host>) -> AbortOnDropHandle<()> {
    // Subscribed before the plugins are loaded: the session for which they are loaded is new to them.
    let queue = engine.bus().listen(Filter::Lossy);
    let directory = host.directory().to_owned();
    let (engine, host) = (engine.clone(), Arc::downgrade(host));
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut feed = Feed { engine, queue, sessions: HashMap::new() };
        let mut batch = VecDeque::new();
        while feed.queue.next_batch(&mut batch).await {
            let Some(host) = host.upgrade() else { return };
            if !host.ready().await || !host.declares("event") {
                // A plugin that comes later has not missed the events before it.
                batch.clear();
                continue;
            }
            let events: Vec<Value> =
                batch.drain(..).filter_map(|event| feed.shown(&event, &directory)).collect();
            for events in events.chunks(MAX_BATCH) {
                host.events(events).await;
            }
        }
    }))
}

struct Feed {
    engine: Engine,
    queue: Arc<Queue<Arc<Event>>>,
    /// True for the sessions of the directory.
    sessions: HashMap<SessionId, bool>,
}

impl Feed {
    /// Returns an event as plugins see it, if it is about their directory.
    fn shown(&mut self, event: &Event, directory: &Path) -> Option<Value> {
        if let EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) = &event.payload {
            let is_here = Path::new(&info.info.directory) == directory;
            self.sessions.insert(info.session_id.clone(), is_here);
        }
        if let Some(id) = event.payload.session_id() {
            let is_known = self.sessions.get(id).copied();
            let is_here = is_known.unwrap_or_else(|| {
                let is_here = self.engine.opened(id).is_some_and(|it| it.directory() == directory);
                self.sessions.insert(id.clone(), is_here);
                is_here
            });
            if !is_here {
                return None;
            }
            if let EventPayload::SessionDeleted(_) = &event.payload {
                self.sessions.remove(id);
            }
        }
        serde_json::to_value(event).ok()
    }
}
