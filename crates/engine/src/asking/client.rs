//! Leases of the engine: the sessions that each front end holds, and the requests that it can answer.

use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicU8, Ordering},
};

use windlass_base::{lock::lock, queue::Queue};
use windlass_core::bus::{Bus, Filter, Scope, Subscriber};
use windlass_protocol::opencode::{event::Event, id::SessionId};
use windlass_services::tool::editor::Editor;

use crate::Engine;

/// The requests of its sessions that a front end can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answerable {
    /// None: it only reads.
    Nothing,
    /// Requests for a permission, by itself: it has no user.
    Permissions,
    /// Those, and questions of tools: it has a user, or a program in the place of one.
    Everything,
    /// All of that, with answers from a person, so that a prompt may wait for that.
    Person,
}

/// A front end's lease. Dropped, it releases the sessions and subscriptions, and its requests are settled as ones that
/// cannot be answered unless another client holds their session.
pub struct Client {
    engine: Engine,
    lease: Arc<Lease>,
}

struct Lease {
    scope: Arc<Scope>,
    answerable: AtomicU8,
    readers: Mutex<Vec<Weak<dyn Subscriber>>>,
    editor: Mutex<Option<Arc<dyn Editor>>>,
}

/// All clients of an engine. Cloning it shares it.
#[derive(Clone)]
pub struct Clients {
    bus: Bus,
    leases: Arc<Mutex<Vec<Arc<Lease>>>>,
}

impl Engine {
    /// Gives a front end a lease that holds no session yet.
    pub fn client(&self, answerable: Answerable) -> Client {
        Client { engine: self.clone(), lease: self.clients().add(answerable) }
    }
}

impl Client {
    /// Holds a session, which is then shown and asked about here. False when this client held it already.
    pub fn hold(&self, id: &SessionId) -> bool {
        let is_new = self.engine.bus().hold(&self.lease.scope, id);
        if self.lease.can_answer(Answerable::Everything) {
            self.engine.sessions().ask_again(id, None);
        }
        is_new
    }

    /// Releases a session that stays open.
    pub fn release(&self, id: &SessionId) {
        self.engine.bus().release(&self.lease.scope, id);
        self.engine.asking().refuse_unanswerable();
    }

    /// Changes the requests that can be answered. Those that wait and can no longer be answered are settled.
    pub fn set_answerable(&self, answerable: Answerable) {
        self.lease.answerable.store(answerable as u8, Ordering::Relaxed);
        self.engine.asking().refuse_unanswerable();
    }

    /// Has tools read and write files by the client's editor; not any more for `None`.
    pub fn set_editor(&self, editor: Option<Arc<dyn Editor>>) {
        *lock(&self.lease.editor) = editor;
    }

    /// Delivers the events of the held sessions until the client is dropped.
    pub fn subscribe(&self, subscriber: &Arc<dyn Subscriber>) {
        lock(&self.lease.readers).push(Arc::downgrade(subscriber));
        self.engine.bus().subscribe(Filter::Scope(self.lease.scope.clone()), subscriber);
    }

    /// Has changes of the titles and places of every session delivered too, or not any more.
    pub fn watch_lists(&self, is_wanted: bool) {
        self.lease.scope.watch_lists(is_wanted);
    }

    /// Returns a plain queue of the held sessions' events. It is closed when the client is dropped, or when it
    /// is read so slowly that another reader of the same session would have to wait.
    pub fn listen(&self) -> Arc<Queue<Arc<Event>>> {
        let queue = self.engine.bus().listen(Filter::Scope(self.lease.scope.clone()));
        let reader: Arc<dyn Subscriber> = queue.clone();
        lock(&self.lease.readers).push(Arc::downgrade(&reader));
        queue
    }

    /// Returns true if another client holds the session.
    pub(crate) fn is_shared(&self, id: &SessionId) -> bool {
        self.engine.clients().is_held_beside(id, &self.lease)
    }

    /// Closes a session for this client; the session itself ends when no other client holds it.
    pub async fn close_session(&self, id: &SessionId) {
        if !self.engine.clients().is_held_beside(id, &self.lease) {
            self.engine.sessions().close(id).await;
        }
        self.release(id);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        lock(&self.engine.clients().leases).retain(|lease| !Arc::ptr_eq(lease, &self.lease));
        for reader in lock(&self.lease.readers).drain(..).filter_map(|reader| reader.upgrade()) {
            self.engine.bus().end(&reader);
        }
        self.engine.asking().refuse_unanswerable();
    }
}

impl Lease {
    fn can_answer(&self, wanted: Answerable) -> bool {
        self.answerable.load(Ordering::Relaxed) >= wanted as u8
    }
}

impl Clients {
    pub fn new(bus: Bus) -> Self {
        Self { bus, leases: Arc::default() }
    }

    /// Returns true if a client that holds the session, or one that the session works for, can answer.
    pub fn can_answer(&self, session_id: &SessionId, wanted: Answerable) -> bool {
        let leases = lock(&self.leases);
        let mut able = leases.iter().filter(|lease| lease.can_answer(wanted));
        able.any(|lease| self.bus.is_in_scope(session_id, &lease.scope))
    }

    /// Returns the editor of a client that holds the session, or one that the session works for.
    pub fn editor(&self, session_id: &SessionId) -> Option<Arc<dyn Editor>> {
        let leases = lock(&self.leases);
        let mut holding = leases.iter().filter(|lease| self.bus.is_in_scope(session_id, &lease.scope));
        holding.find_map(|lease| lock(&lease.editor).clone())
    }

    fn is_held_beside(&self, session_id: &SessionId, own: &Arc<Lease>) -> bool {
        let leases = lock(&self.leases);
        let mut others = leases.iter().filter(|lease| !Arc::ptr_eq(lease, own));
        others.any(|lease| self.bus.is_in_scope(session_id, &lease.scope))
    }

    fn add(&self, answerable: Answerable) -> Arc<Lease> {
        let lease = Arc::new(Lease {
            scope: Arc::default(),
            answerable: AtomicU8::new(answerable as u8),
            readers: Mutex::default(),
            editor: Mutex::default(),
        });
        lock(&self.leases).push(lease.clone());
        lease
    }

    /// Returns a client of these sessions for tests of the questions. It stays for good.
    #[cfg(test)]
    pub fn pretend(&self, answerable: Answerable, sessions: &[&str]) -> impl Fn(Answerable) + use<> {
        let lease = self.add(answerable);
        for id in sessions {
            self.bus.hold(&lease.scope, &SessionId::from_trusted(*id));
        }
        move |answerable| lease.answerable.store(answerable as u8, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
