//! The events that plugins get: those of their directory, in order, as fast as they take them.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::{lock::lock, queue::Queue};
use windlass_core::bus::{Filter, Subscriber};
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    id::SessionId,
};
use windlass_services::plugin::host::Host;

use crate::Engine;

/// Events that are handed over at once.
const MAX_BATCH: usize = 256;
/// Events that plugins may be behind before they miss deltas.
const LATE: usize = 1024;
/// Time that plugins have at the end for the events that wait.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// The events on their way to a host. It is fed until this is dropped.
pub(super) struct Feeding {
    waiting: Arc<Waiting>,
    /// Cancelled when no more events come.
    ending: CancellationToken,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The events that wait for a host. It is not cut off: one that takes no events is ended for that.
struct Waiting(Queue<Arc<Event>>);

impl Subscriber for Waiting {
    fn deliver(&self, event: &Arc<Event>) {
        self.0.push(event.clone(), 1);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.room())
    }

    fn n_behind(&self) -> usize {
        self.0.n_behind().min(1)
    }

    fn cut_off(&self) {}
}

impl Feeding {
    /// Takes no more events.
    pub(super) fn stop(&self) {
        self.ending.cancel();
        self.waiting.0.close();
    }

    /// Hands over the events that wait, as far as plugins take them in time, and then no more.
    pub(super) async fn finish(&self) {
        self.stop();
        let task = lock(&self.task).take();
        if let Some(task) = task {
            // Late ones are lost, as those of a plugin that hangs are.
            let _ = tokio::time::timeout(LAST_EVENTS, task).await;
        }
    }
}

/// Begins to feed a host.
pub(super) fn start(engine: &Engine, host: &Arc<Host>) -> Feeding {
    // Subscribed before the plugins are loaded: the session for which they are loaded is new to them.
    let waiting = Arc::new(Waiting(Queue::new(LATE)));
    let subscriber: Arc<dyn Subscriber> = waiting.clone();
    engine.bus().subscribe(Filter::Lossy, &subscriber);
    let ending = CancellationToken::new();
    let task = tokio::spawn(feed(engine.clone(), Arc::downgrade(host), waiting.clone(), ending.clone()));
    Feeding { waiting, ending, task: Mutex::new(Some(AbortOnDropHandle::new(task))) }
}

async fn feed(engine: Engine, host: Weak<Host>, waiting: Arc<Waiting>, ending: CancellationToken) {
    let mut feed = Feed { engine, sessions: HashMap::new() };
    let mut batch = VecDeque::new();
    while waiting.0.next_batch(&mut batch).await {
        let Some(host) = host.upgrade() else { return };
        let is_ready = tokio::select! {
            biased;
            is_ready = host.ready() => is_ready,
            () = ending.cancelled() => false,
        };
        if !is_ready || !host.declares("event") {
            // A plugin that comes later has not missed the events before it.
            batch.clear();
            continue;
        }
        let events: Vec<Value> =
            batch.drain(..).filter_map(|event| feed.shown(&event, host.directory())).collect();
        for events in events.chunks(MAX_BATCH) {
            host.events(events).await;
        }
    }
}

struct Feed {
    engine: Engine,
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
        if let EventPayload::Service(service) = &event.payload
            && service.directory.as_ref().is_some_and(|own| Path::new(own) != directory)
        {
            return None;
        }
        if let Some(id) = event.payload.session_id() {
            let is_known = self.sessions.get(id).copied();
            let is_here = is_known.unwrap_or_else(|| {
                let is_here = self.engine.sessions().opened(id).is_some_and(|it| it.directory() == directory);
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
