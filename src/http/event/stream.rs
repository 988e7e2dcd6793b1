//! A stream of events: a subscriber of the bus whose reader gets written frames; one that stalls costs nobody anything.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use serde_json::json;
use windlass_base::{ids, queue::Queue};
use windlass_core::bus::Subscriber;
use windlass_protocol::opencode::{
    event::{Event, EventPayload},
    service::ServiceNews,
};

use super::{
    super::by::By,
    frame::{EncodedEvent, frame},
    hub::Hub,
};

/// Bytes that a reader may be behind before it misses deltas; the whole part follows.
const LATE: usize = 1 << 20;
/// A sign of life for clients of the newer form.
const COMMENT: &[u8] = b": heartbeat\n\n";

/// The events that a reader gets, and their form.
#[derive(Debug, Clone)]
pub enum Wanted {
    /// Those of a directory.
    Directory(Arc<str>),
    /// Those of all directories, each with its directory.
    All,
    /// The same in the form of OpenCode's newer clients.
    Located,
}

/// See the module's comment.
pub struct Stream {
    hub: Arc<Hub>,
    by: By,
    wanted: Wanted,
    queue: Queue<Bytes>,
    is_cut_off: AtomicBool,
}

impl Stream {
    /// Makes a stream, which gets no event before it is subscribed.
    pub fn new(hub: &Arc<Hub>, by: By, wanted: Wanted) -> Arc<Self> {
        if let Wanted::Directory(directory) = &wanted {
            hub.watch(directory);
        }
        let (queue, is_cut_off) = (Queue::new(LATE), AtomicBool::new(false));
        Arc::new(Self { hub: hub.clone(), by, wanted, queue, is_cut_off })
    }

    /// Waits for frames; false once the stream has ended.
    pub async fn next_batch(&self, batch: &mut VecDeque<Bytes>) -> bool {
        self.queue.next_batch(batch).await
    }

    /// Returns true if the reader was too far behind.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// Says that the stream has begun.
    pub fn greet(&self) {
        if matches!(self.wanted, Wanted::Located) {
            self.push(Bytes::from_static(COMMENT));
        }
        self.say("server.connected");
    }

    /// Gives a sign of life.
    pub fn beat(&self) {
        match self.wanted {
            Wanted::Directory(_) | Wanted::All => self.say("server.heartbeat"),
            Wanted::Located => self.push(Bytes::from_static(COMMENT)),
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

    fn push(&self, frame: Bytes) {
        let weight = frame.len();
        self.queue.push(frame, weight);
    }

    /// Returns the event in the form of this reader, if it is one of its events. One of no known directory goes to all.
    fn frame(&self, event: &EncodedEvent) -> Option<Bytes> {
        match &self.wanted {
            Wanted::Directory(own) if event.directory().is_some_and(|directory| **own != *directory) => None,
            Wanted::Directory(_) => Some(event.plain()),
            Wanted::All => Some(event.placed()),
            Wanted::Located => Some(event.located()),
        }
    }

    /// Returns true if an event that this stream got is its last one.
    fn ends_behind(&self, event: &Event) -> bool {
        let EventPayload::Service(service) = &event.payload else { return false };
        let is_end =
            matches!(service.news, ServiceNews::InstanceDisposed { .. } | ServiceNews::GlobalDisposed {});
        is_end && matches!(self.wanted, Wanted::Directory(_))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Wanted::Directory(directory) = &self.wanted {
            self.hub.unwatch(directory);
        }
    }
}

impl Subscriber for Stream {
    fn deliver(&self, event: &Arc<Event>) {
        if !self.by.hears(&event.payload) {
            return;
        }
        if let Some(frame) = self.frame(&self.hub.encoded(event)) {
            self.push(frame);
            if self.ends_behind(event) {
                self.queue.close();
            }
        }
    }

    // A turn never waits for a stream's reader.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn n_behind(&self) -> usize {
        self.queue.n_behind()
    }

    /// Ends the stream and drops its waiting events.
    fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Relaxed);
        self.queue.close();
        self.queue.take(&mut VecDeque::new());
    }
}

#[cfg(test)]
mod tests;
