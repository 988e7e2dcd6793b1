//! Fan-out of the engine's events to whoever listens, per kind or all of them, in one order.

use std::sync::{Arc, Mutex, Weak};

use futures_util::future::BoxFuture;
use windlass_protocol::opencode::event::{Event, EventKind, EventPayload};

use crate::base::{ids, lock::lock, queue::Queue};

/// How many events a listener may be behind.
const LISTENER_HIGH_WATER: usize = 1024;

/// Somebody who wants events. A floor-5 front end implements this over its own outbox, so that events and
/// answers stand in one queue.
pub trait Subscriber: Send + Sync {
    /// Takes an event; never waits, nor asks anything of who publishes: it may hold a lock.
    fn deliver(&self, event: &Arc<Event>);
    /// Ends when the subscriber can take more. A lossy subscriber returns at once.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// Which events a subscriber gets.
#[derive(Debug, Clone)]
pub enum Filter {
    All,
    Only(Vec<EventKind>),
}

/// The event bus. Cloning it shares it.
#[derive(Clone, Default)]
pub struct Bus {
    subscribers: Arc<Mutex<Vec<Subscription>>>,
}

type Subscription = (Filter, Weak<dyn Subscriber>);

impl Bus {
    /// Delivers events of the wanted kinds to `subscriber` for as long as it lives.
    pub fn subscribe(&self, filter: Filter, subscriber: &Arc<dyn Subscriber>) {
        self.lock().push((filter, Arc::downgrade(subscriber)));
    }

    /// A plain queue of the wanted events, for programs and tests that just read them.
    pub fn listen(&self, filter: Filter) -> Arc<Queue<Arc<Event>>> {
        let queue = Arc::new(Queue::new(LISTENER_HIGH_WATER));
        let subscriber: Arc<dyn Subscriber> = queue.clone();
        self.subscribe(filter, &subscriber);
        queue
    }

    /// Hands an event to every subscriber that wants its kind, in the order of calls.
    pub fn publish(&self, payload: EventPayload) {
        let kind = payload.kind();
        let event = Arc::new(Event { id: ids::event(), payload });
        let subscribers = self.live();
        for (filter, subscriber) in &subscribers {
            let is_wanted = match filter {
                Filter::All => true,
                Filter::Only(kinds) => kinds.contains(&kind),
            };
            if is_wanted {
                subscriber.deliver(&event);
            }
        }
    }

    /// Ends when every subscriber can take more: producers of streams wait here, cancellation does not.
    pub async fn room(&self) {
        for (_, subscriber) in self.live() {
            subscriber.room().await;
        }
    }

    fn live(&self) -> Vec<(Filter, Arc<dyn Subscriber>)> {
        let mut subscribers = self.lock();
        subscribers.retain(|(_, subscriber)| subscriber.strong_count() > 0);
        subscribers.iter().filter_map(|(filter, weak)| Some((filter.clone(), weak.upgrade()?))).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Subscription>> {
        lock(&self.subscribers)
    }
}

impl Subscriber for Queue<Arc<Event>> {
    fn deliver(&self, event: &Arc<Event>) {
        self.push(event.clone(), 1);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(Queue::room(self))
    }
}

#[cfg(test)]
mod tests;
