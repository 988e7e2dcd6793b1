//! Fan-out of the engine's events to the front ends, each by the sessions that it holds, in one order.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::{self, BoxFuture, Either};
use tokio::sync::Notify;
use windlass_base::{ids, lock::lock, queue::Queue};
use windlass_protocol::opencode::{
    event::{Event, EventKind, EventPayload},
    id::{PartId, SessionId},
};

/// Maximum number of events that a listener may be behind.
const LISTENER_HIGH_WATER: usize = 1024;
/// Multiple of its high-water mark at which a slow reader is cut off for the sake of the others.
const CUT_OFF: usize = 4;
/// Sessions above one another; more is a mistake in the store.
const MAX_LEVELS: usize = 32;

/// A receiver of events. A floor-5 front end implements this over its own outbox, so that events and answers stand in
/// one queue.
pub trait Subscriber: Send + Sync {
    /// Takes an event. Must neither wait nor call back: the publisher may hold a lock.
    fn deliver(&self, event: &Arc<Event>);
    /// Ends when the subscriber can take more.
    fn room(&self) -> BoxFuture<'_, ()>;
    /// Returns how often the subscriber's high-water mark fits into its unread events.
    fn n_behind(&self) -> usize;
    /// Ends the subscriber: it was too far behind and gets no more events.
    fn cut_off(&self);
}

/// The events that a subscriber gets.
#[derive(Debug, Clone)]
pub enum Filter {
    /// Every event of every session.
    All,
    /// Every event of every session. No turn waits for such a reader, which misses deltas while it is behind, and is cut
    /// off when it is far behind.
    Lossy,
    /// Events of these kinds. No turn waits for such a reader.
    Only(Vec<EventKind>),
    /// Events of the sessions in scope, of sessions that are made or deleted, and of no session.
    Scope(Arc<Scope>),
}

/// The sessions that a front end holds. Their subagents' sessions belong to them.
#[derive(Debug, Default)]
pub struct Scope {
    held: Mutex<HashSet<SessionId>>,
    /// Changes of other sessions' titles and places are wanted too.
    watches_lists: AtomicBool,
}

impl Scope {
    /// Has changes of every session's row delivered too, or not any more.
    pub fn watch_lists(&self, is_wanted: bool) {
        self.watches_lists.store(is_wanted, Ordering::Relaxed);
    }
}

/// The event bus. Cloning it shares it.
#[derive(Clone, Default)]
pub struct Bus(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    /// Another reader decides from now on whether there is room.
    changed: Notify,
}

#[derive(Default)]
struct State {
    subscriptions: Vec<Subscription>,
    /// The session that each subagent's session works for.
    parents: HashMap<SessionId, SessionId>,
}

struct Subscription {
    filter: Filter,
    subscriber: Weak<dyn Subscriber>,
    /// Texts of which this subscriber missed a piece; it gets the next whole part.
    gaps: HashSet<PartId>,
}

impl Bus {
    /// Delivers the wanted events to `subscriber` for as long as it lives.
    pub fn subscribe(&self, filter: Filter, subscriber: &Arc<dyn Subscriber>) {
        let subscriber = Arc::downgrade(subscriber);
        self.state().subscriptions.push(Subscription { filter, subscriber, gaps: HashSet::new() });
        self.0.changed.notify_waiters();
    }

    /// Subscribes a plain queue to the wanted events, for programs and tests that just read them.
    pub fn listen(&self, filter: Filter) -> Arc<Queue<Arc<Event>>> {
        let queue = Arc::new(Queue::new(LISTENER_HIGH_WATER));
        let subscriber: Arc<dyn Subscriber> = queue.clone();
        self.subscribe(filter, &subscriber);
        queue
    }

    /// Hands an event to every subscriber that wants it, in the order of calls.
    ///
    /// A lossy reader, or one that is behind while another one reads the same session, gets no more deltas until it has
    /// caught up, and is cut off when it is far behind: the turn does not wait for it (see [`Bus::room`]).
    pub fn publish(&self, payload: EventPayload) {
        let event = Arc::new(Event { id: ids::event(), payload });
        let mut state = self.state();
        state.note_parent(&event.payload);
        for subscriber in state.receivers(&event) {
            subscriber.deliver(&event);
        }
    }

    /// Ends when a reader of the session can take more: producers of streams wait here, cancellation does not.
    ///
    /// A session's only reader holds it up; of several, the quickest decides, and the others lose deltas.
    pub async fn room(&self, session_id: &SessionId) {
        loop {
            let mut changed = pin!(self.0.changed.notified());
            // Registers before the readers are counted, so that none is missed.
            changed.as_mut().enable();
            let readers: Vec<_> = {
                let state = self.state();
                state.readers(session_id).map(|(_, subscriber)| subscriber).collect()
            };
            if readers.is_empty() || readers.iter().any(|reader| reader.n_behind() == 0) {
                return;
            }
            let room = future::select_all(readers.iter().map(|reader| reader.room()));
            match future::select(room, changed).await {
                Either::Left(_) => return,
                Either::Right(_) => {}
            }
        }
    }

    /// Adds a session to a scope; false when it was there by itself already.
    pub fn hold(&self, scope: &Scope, id: &SessionId) -> bool {
        let is_new = lock(&scope.held).insert(id.clone());
        self.0.changed.notify_waiters();
        is_new
    }

    /// Takes a session out of a scope.
    pub fn release(&self, scope: &Scope, id: &SessionId) {
        lock(&scope.held).remove(id);
        self.0.changed.notify_waiters();
    }

    /// Ends a subscriber: it gets no more events, and nothing waits for it.
    pub fn end(&self, ended: &Arc<dyn Subscriber>) {
        ended.cut_off();
        self.state().subscriptions.retain(|it| !it.subscriber.ptr_eq(&Arc::downgrade(ended)));
        self.0.changed.notify_waiters();
    }

    /// Returns true if the session or one that it works for is in scope.
    pub fn is_in_scope(&self, session_id: &SessionId, scope: &Scope) -> bool {
        self.state().is_in_scope(session_id, scope)
    }

    /// Forgets the subagents' sessions under a session that is closed.
    pub fn forget_children(&self, session_id: &SessionId) {
        let mut state = self.state();
        let below: Vec<SessionId> = state
            .parents
            .keys()
            .filter(|child| state.line(child).skip(1).any(|above| above == session_id))
            .cloned()
            .collect();
        for child in below {
            state.parents.remove(&child);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl State {
    /// Learns the session that a subagent works for.
    fn note_parent(&mut self, payload: &EventPayload) {
        if let EventPayload::SessionCreated(info) | EventPayload::SessionUpdated(info) = payload
            && let Some(parent) = &info.info.parent_id
            && !self.parents.contains_key(&info.session_id)
        {
            self.parents.insert(info.session_id.clone(), parent.clone());
        }
    }

    /// Returns a session and those above it, from the bottom to the top.
    fn line<'a>(&'a self, id: &'a SessionId) -> impl Iterator<Item = &'a SessionId> {
        std::iter::successors(Some(id), |id| self.parents.get(*id)).take(MAX_LEVELS)
    }

    fn is_in_scope(&self, id: &SessionId, scope: &Scope) -> bool {
        self.line(id).any(|id| lock(&scope.held).contains(id))
    }

    /// Returns the subscribers that read a session's turns.
    fn readers(&self, id: &SessionId) -> impl Iterator<Item = (usize, Arc<dyn Subscriber>)> {
        self.subscriptions.iter().enumerate().filter_map(|(idx, it)| {
            let reads = match &it.filter {
                Filter::All => true,
                Filter::Lossy | Filter::Only(_) => false,
                Filter::Scope(scope) => self.is_in_scope(id, scope),
            };
            Some((idx, it.subscriber.upgrade().filter(|_| reads)?))
        })
    }

    /// Returns the subscribers that get an event. Those that have ended or are cut off leave.
    fn receivers(&mut self, event: &Event) -> Vec<Arc<dyn Subscriber>> {
        self.subscriptions.retain(|it| it.subscriber.strong_count() > 0);
        let (payload, kind) = (&event.payload, event.payload.kind());
        let is_about_sessions =
            matches!(payload, EventPayload::SessionCreated(_) | EventPayload::SessionDeleted(_));
        let session_id = payload.session_id();
        let readers: Vec<usize> =
            session_id.map(|id| self.readers(id).map(|(idx, _)| idx).collect()).unwrap_or_default();
        let (mut receivers, mut cut_off) = (Vec::with_capacity(readers.len()), Vec::new());
        for (idx, it) in self.subscriptions.iter_mut().enumerate() {
            let Some(subscriber) = it.subscriber.upgrade() else { continue };
            let is_wanted = match &it.filter {
                Filter::Lossy => true,
                Filter::Only(kinds) => kinds.contains(&kind),
                Filter::All | Filter::Scope(_) => {
                    let is_listed = matches!(payload, EventPayload::SessionUpdated(_)) && it.filter.lists();
                    session_id.is_none() || is_about_sessions || is_listed || readers.contains(&idx)
                }
            };
            if !is_wanted {
                continue;
            }
            let is_lossy = matches!(it.filter, Filter::Lossy);
            let n_behind = if is_lossy || readers.len() > 1 { subscriber.n_behind() } else { 0 };
            if n_behind >= CUT_OFF && (is_lossy || readers.contains(&idx)) {
                cut_off.push(idx);
                subscriber.cut_off();
            } else if is_whole(payload, n_behind > 0, &mut it.gaps) {
                receivers.push(subscriber);
            }
        }
        for idx in cut_off.into_iter().rev() {
            self.subscriptions.remove(idx);
        }
        receivers
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

impl Filter {
    /// Returns true if changes of every session's row are wanted.
    fn lists(&self) -> bool {
        matches!(self, Self::Scope(scope) if scope.watches_lists.load(Ordering::Relaxed))
    }
}

impl Subscriber for Queue<Arc<Event>> {
    fn deliver(&self, event: &Arc<Event>) {
        self.push(event.clone(), 1);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(Queue::room(self))
    }

    fn n_behind(&self) -> usize {
        Queue::n_behind(self)
    }

    fn cut_off(&self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
