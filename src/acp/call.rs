//! A request on its way: its handler answers at once, or from a task that later requests of its session wait for.

use std::{future::Future, panic::AssertUnwindSafe};

use futures_util::FutureExt;
use jsonrpsee::types::ErrorObjectOwned;
use serde::Serialize;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::rpc::code;

use super::{
    connection::{Connection, Handled, Reply},
    error::error,
    outbox::{Cancel, Responder},
};

/// The duty to answer a request, while it was not taken out.
pub struct Call(Option<Responder>);

impl Call {
    pub fn new(responder: Responder) -> Self {
        Self(Some(responder))
    }

    /// Takes the duty to answer out of the call, to answer later.
    pub fn take_responder(&mut self) -> Result<Responder, ErrorObjectOwned> {
        self.0.take().ok_or_else(|| error(code::INTERNAL_ERROR, "the request was answered already"))
    }

    /// Answers now.
    pub fn succeed(&mut self, result: &impl Serialize) -> Result<(), ErrorObjectOwned> {
        self.take_responder()?.succeed(result);
        Ok(())
    }

    /// Refuses the request, unless it was answered.
    pub fn fail(self, error: &ErrorObjectOwned) {
        if let Some(responder) = self.0 {
            responder.fail(error);
        }
    }

    /// Answers from a task of its own. Later lines that name `session` wait until it has answered.
    pub fn spawn(
        &mut self,
        connection: &mut Connection,
        session: Option<String>,
        work: impl Future<Output = Result<Reply, ErrorObjectOwned>> + Send + 'static,
    ) -> Result<(), ErrorObjectOwned> {
        self.start(connection, session, Some(CancellationToken::new()), work)
    }

    /// Answers from a task of its own, as [`Call::spawn`] does. The work is done whole: a client that takes its request
    /// back hears how it ended.
    pub fn spawn_whole(
        &mut self,
        connection: &mut Connection,
        session: Option<String>,
        work: impl Future<Output = Result<Reply, ErrorObjectOwned>> + Send + 'static,
    ) -> Result<(), ErrorObjectOwned> {
        // The connection drops its handlers when it ends.
        let work = async move {
            match tokio::spawn(work).await {
                Ok(outcome) => outcome,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_cancelled) => Err(panicked()),
                },
            }
        };
        self.start(connection, session, None, work)
    }

    fn start(
        &mut self,
        connection: &mut Connection,
        session: Option<String>,
        cancel: Option<CancellationToken>,
        work: impl Future<Output = Result<Reply, ErrorObjectOwned>> + Send + 'static,
    ) -> Result<(), ErrorObjectOwned> {
        let responder = self.take_responder()?;
        if let Some(cancel) = &cancel {
            connection.set_cancel(responder.id(), Cancel::Task(cancel.clone()));
        }
        let (ended, is_ended) = oneshot::channel::<()>();
        let before = connection.last_handler.replace(is_ended);
        close_gate(connection, session.as_ref());
        connection.run_handler(async move {
            // Requests that arrive together are honoured in order: a list shows the session that was made before it.
            let work = async move {
                if let Some(before) = before {
                    // The other end is dropped, never sent on.
                    let _ = before.await;
                }
                work.await
            };
            let cancelled = async {
                match &cancel {
                    Some(cancel) => cancel.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            let outcome = tokio::select! {
                biased;
                () = cancelled => Err(error(code::REQUEST_CANCELLED, "The request was cancelled.")),
                outcome = AssertUnwindSafe(work).catch_unwind() => outcome.unwrap_or_else(|_| Err(panicked())),
            };
            Handled::Request { responder, session, outcome, ended }
        });
        Ok(())
    }

    /// Answers from a task of its own that takes a moment and cannot be cancelled. Later lines that name `session` wait
    /// until it has answered; it does not wait for handlers of other sessions.
    pub fn spawn_brief(
        &mut self,
        connection: &mut Connection,
        session: String,
        work: impl Future<Output = Result<Reply, ErrorObjectOwned>> + Send + 'static,
    ) -> Result<(), ErrorObjectOwned> {
        let responder = self.take_responder()?;
        let (ended, _) = oneshot::channel::<()>();
        close_gate(connection, Some(&session));
        connection.run_handler(async move {
            let outcome = AssertUnwindSafe(work).catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
            Handled::Request { responder, session: Some(session), outcome, ended }
        });
        Ok(())
    }
}

fn close_gate(connection: &mut Connection, session: Option<&String>) {
    if let Some(session) = session {
        connection.gates.entry(session.clone()).or_default();
    }
}

fn panicked() -> ErrorObjectOwned {
    error(code::INTERNAL_ERROR, "Internal error in windlass; the log has the details.")
}
