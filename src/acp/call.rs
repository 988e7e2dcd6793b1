//! A request on its way: its handler answers at once, or from a task that later requests of its session wait for.

use std::{
    future::Future,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
};

use futures_util::FutureExt;
use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::rpc::code;

use super::{
    connection::Connection,
    error::error,
    outbox::{Cancel, Responder},
};
use crate::base::lock::lock;

/// A request on its way: who sent it, and the duty to answer it.
pub struct Call {
    pub connection: Arc<Connection>,
    responder: Mutex<Option<Responder>>,
}

/// Answers a request, and says what must follow the answer.
pub type Reply = Box<dyn FnOnce(Responder) + Send>;

impl Call {
    pub fn new(connection: Arc<Connection>, responder: Responder) -> Self {
        Self { connection, responder: Mutex::new(Some(responder)) }
    }

    /// Takes the duty to answer out of the call, to answer later.
    pub fn take_responder(&self) -> Result<Responder, ErrorObjectOwned> {
        lock(&self.responder)
            .take()
            .ok_or_else(|| error(code::INTERNAL_ERROR, "the request was answered already"))
    }

    /// Answers now.
    pub fn succeed(&self, result: &impl Serialize) -> Result<(), ErrorObjectOwned> {
        self.take_responder()?.succeed(result);
        Ok(())
    }

    /// Answers from a task of its own. Later lines that name `session` wait until it has answered.
    pub fn spawn(
        &self,
        session: Option<String>,
        work: impl Future<Output = Result<Reply, ErrorObjectOwned>> + Send + 'static,
    ) -> Result<(), ErrorObjectOwned> {
        let responder = self.take_responder()?;
        let connection = self.connection.clone();
        let cancel = CancellationToken::new();
        connection.outbox.set_cancel(responder.id(), Cancel::Task(cancel.clone()));
        if let Some(session) = &session {
            lock(&connection.gates).entry(session.clone()).or_default();
        }
        let (ended, is_ended) = oneshot::channel::<()>();
        let before = lock(&connection.last_handler).replace(is_ended);
        self.connection.tasks.spawn(async move {
            // Requests that arrive together are honoured in order: a list shows the session that was made before it.
            let work = async move {
                if let Some(before) = before {
                    // The other end is dropped, never sent on.
                    let _ = before.await;
                }
                work.await
            };
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => Err(error(code::REQUEST_CANCELLED, "The request was cancelled.")),
                outcome = AssertUnwindSafe(work).catch_unwind() => outcome.unwrap_or_else(|_| {
                    Err(error(code::INTERNAL_ERROR, "The request failed by a fault in windlass."))
                }),
            };
            // Dropped last, also when answering fails: what waits must go on.
            let _gate = session.map(|session| Gate { connection, session });
            match outcome {
                Ok(reply) => reply(responder),
                Err(error) => responder.fail(&error),
            }
            drop(ended);
        });
        Ok(())
    }
}

/// A closed gate; opens when it is dropped.
struct Gate {
    connection: Arc<Connection>,
    session: String,
}

impl Drop for Gate {
    fn drop(&mut self) {
        open_gate(&self.connection, &self.session);
    }
}

/// Dispatches what waited for a session, in order, until one of them closes the gate again.
fn open_gate(connection: &Arc<Connection>, session: &str) {
    let mut parked = lock(&connection.gates).remove(session).unwrap_or_default();
    while let Some(next) = parked.pop_front() {
        (connection.dispatch)(connection, &next);
        if let Some(gate) = lock(&connection.gates).get_mut(session) {
            gate.append(&mut parked);
        }
    }
}
