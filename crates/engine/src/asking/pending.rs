//! Requests that wait for a user's answer, by id; every client of the session may give it, the first wins.

use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{event::EventPayload, id::SessionId};
use windlass_services::tool::ToolError;

use super::client::{Answerable, Clients};

/// A request that a user answers once.
pub trait Request: Clone {
    type Id: Clone + PartialEq;
    /// Facts that settling needs and no front end sees.
    type Context;
    type Answer;
    /// The clients that can answer it.
    const ANSWERABLE: Answerable;

    fn id(&self) -> &Self::Id;
    fn session_id(&self) -> &SessionId;
    /// Returns the event that shows it.
    fn asked(&self) -> EventPayload;
    /// Returns the event that takes it back without an answer.
    fn refused(&self) -> EventPayload;
}

/// A request that waits.
pub struct Pending<R: Request> {
    pub request: R,
    pub context: R::Context,
    cancel: CancellationToken,
    answer: oneshot::Sender<Result<R::Answer, ToolError>>,
}

/// The requests that wait. Cloning it shares it.
pub struct PendingTable<R: Request> {
    bus: Bus,
    clients: Clients,
    pending: Arc<Mutex<Vec<Pending<R>>>>,
}

/// The asker's end of a request. Dropped, it takes the request back, so that no front end goes on showing it.
pub struct Answered<'a, R: Request> {
    table: &'a PendingTable<R>,
    id: R::Id,
    answer: oneshot::Receiver<Result<R::Answer, ToolError>>,
}

impl<R: Request> Clone for PendingTable<R> {
    fn clone(&self) -> Self {
        Self { bus: self.bus.clone(), clients: self.clients.clone(), pending: self.pending.clone() }
    }
}

impl<R: Request> PendingTable<R> {
    pub fn new(bus: Bus, clients: Clients) -> Self {
        Self { bus, clients, pending: Arc::default() }
    }

    /// Returns true if a client of the session can answer such requests.
    pub fn is_answerable(&self, session_id: &SessionId) -> bool {
        self.clients.can_answer(session_id, R::ANSWERABLE)
    }

    pub fn lock(&self) -> MutexGuard<'_, Vec<Pending<R>>> {
        lock(&self.pending)
    }

    /// Adds a request and shows it, while the table is locked: no answer is told of before its question. `cancel` is
    /// cancelled with the asker's turn.
    pub fn add(
        &self,
        pending: &mut Vec<Pending<R>>,
        request: R,
        context: R::Context,
        cancel: CancellationToken,
    ) -> Answered<'_, R> {
        let (sender, answer) = oneshot::channel();
        let (id, event) = (request.id().clone(), request.asked());
        pending.push(Pending { request, context, cancel, answer: sender });
        self.bus.publish(event);
        Answered { table: self, id, answer }
    }

    /// Takes out the request that an answer names; none when it does not wait (any more).
    pub fn take_answered(&self, id: &R::Id) -> Option<Pending<R>> {
        self.take(|pending| pending.is_answerable_as(id)).pop()
    }

    /// Takes out the requests of sessions that no client holds which could answer.
    pub fn take_unanswerable(&self) -> Vec<Pending<R>> {
        self.take(|it| !self.is_answerable(it.request.session_id()) && !it.cancel.is_cancelled())
    }

    pub fn take(&self, is_wanted: impl Fn(&Pending<R>) -> bool) -> Vec<Pending<R>> {
        self.lock().extract_if(.., |pending| is_wanted(pending)).collect()
    }

    /// Tells the front ends how a request ended, then the asker.
    pub fn settle(&self, pending: Pending<R>, event: EventPayload, result: Result<R::Answer, ToolError>) {
        self.bus.publish(event);
        // The asker may have been cancelled in between.
        let _ = pending.answer.send(result);
    }

    /// Ends a request without an answer.
    pub fn refuse(&self, pending: Pending<R>, error: ToolError) {
        let event = pending.request.refused();
        self.settle(pending, event, Err(error));
    }

    /// Returns the requests of a session that wait now.
    pub fn of_session(&self, id: &SessionId) -> Vec<R> {
        let of_session = |it: &&Pending<R>| it.request.session_id() == id && !it.cancel.is_cancelled();
        self.lock().iter().filter(of_session).map(|it| it.request.clone()).collect()
    }

    /// Returns all requests that wait now.
    pub fn all(&self) -> Vec<R> {
        let waiting = |it: &&Pending<R>| !it.cancel.is_cancelled();
        self.lock().iter().filter(waiting).map(|it| it.request.clone()).collect()
    }

    /// Returns true if this request still waits for an answer.
    pub fn is_waiting(&self, id: &R::Id) -> bool {
        self.lock().iter().any(|pending| pending.is_answerable_as(id))
    }
}

impl<R: Request> Pending<R> {
    /// Returns true if this request has the id and can be answered. A cancelled turn takes its requests back as soon
    /// as its tasks run; until then no answer counts.
    fn is_answerable_as(&self, id: &R::Id) -> bool {
        self.request.id() == id && !self.is_cancelled()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl<R: Request> Answered<'_, R> {
    /// Waits for the answer.
    pub async fn get(mut self) -> Result<R::Answer, ToolError> {
        (&mut self.answer).await.unwrap_or(Err(ToolError::Cancelled { partial: None }))
    }
}

impl<R: Request> Drop for Answered<'_, R> {
    fn drop(&mut self) {
        for pending in self.table.take(|pending| *pending.request.id() == self.id) {
            self.table.refuse(pending, ToolError::Cancelled { partial: None });
        }
    }
}
