//! Fan-out of the engine's events to their subscribers, by kind or all of them, in one order.

use std::sync::{Arc, Mutex, Weak};

use futures_util::future::BoxFuture;
use windlass_protocol::opencode::event::{Event, EventKind, EventPayload};

use crate::base::{ids, lock::lock, queue::Queue};

/// Maximum number of events that a listener may be behind.
const LISTENER_HIGH_WATER: usize = 1024;

/// A receiver of events. A floor-5 front end implements this over its own outbox, so that events and answers
/// share one queue.
pub trait Subscriber: Send + Sync {
    /// Takes an event. Must neither wait nor call back into the publisher, which may hold a lock.
    fn deliver(&self, event: &Arc<Event>);
    /// Waits until the subscriber can take more. A lossy subscriber returns at once.
    fn room(&self) -> BoxFuture<'_, ()>;
}

/// The events that a subscriber gets.
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

    /// Subscribes a plain queue to the wanted events, for programs and tests that just read them.
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

    /// Waits until every subscriber can take more. Producers of streams call this, cancellation does not.
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
