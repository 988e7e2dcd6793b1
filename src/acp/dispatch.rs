//! The table of methods and the way of a line to its handler.
//!
//! Handlers run on the reader's task in the order of the lines and never wait. What may take long is spawned by
//! its handler; until it has answered, later lines that name the same session wait behind it.

use std::{collections::VecDeque, future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use jsonrpsee::{
    Extensions, Methods, RpcModule,
    core::{RegisterMethodError, server::MethodCallback},
    types::{ErrorObjectOwned, Id as RpcId, Params},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::{
    acp::{
        decode::{self, InvalidParams},
        ext,
        schema::{PromptResponse, StopReason},
    },
    opencode::id::SessionId,
    rpc::{self, Id, Incoming, Malformed, code},
};

use super::{
    connection::Connection,
    elicitation, initialize,
    outbox::{Cancel, Responder},
    prompt, session, settings,
};
use crate::{
    base::lock::lock,
    engine::{EngineError, EngineErrorKind},
};

/// Lines that may wait for one session to open.
const MAX_PARKED: usize = 256;

/// A request on its way: who sent it, and the duty to answer it.
pub struct Call {
    pub connection: Arc<Connection>,
    responder: std::sync::Mutex<Option<Responder>>,
}

/// A method's handler: it answers through the call now or later, or returns the error.
type Handler = fn(&Call, Option<&str>) -> Result<(), ErrorObjectOwned>;

/// Every method of the agent, in the order of the protocol's documentation.
#[rustfmt::skip]
const METHODS: &[(&str, Handler)] = &[
    // Answered on the spot: nothing to wait for.
    ("initialize",                 initialize::initialize),
    // Read or write files, the store or git: spawned, in their session's order.
    ("authenticate",               initialize::authenticate),
    ("logout",                     initialize::logout),
    ("session/new",                session::new),
    ("session/load",               session::load),
    ("session/resume",             session::resume),
    ("session/list",               session::list),
    ("session/close",              session::close),
    ("session/delete",             session::delete),
    // Handed to the session's task on the spot, so that their order is the order of the lines.
    ("session/prompt",             prompt::prompt),
    ("session/set_mode",           settings::set_mode),
    ("session/set_config_option",  settings::set_config_option),
    ("session/set_model",          settings::set_model),
    (ext::PERMISSION_REPLY,        prompt::permission_reply),
    (ext::QUESTION_REPLY,          elicitation::reply),
    (ext::QUESTION_REJECT,         elicitation::reject),
];

/// The method table.
pub fn methods() -> Result<Methods, RegisterMethodError> {
    let mut module = RpcModule::new(());
    for (name, handler) in METHODS {
        module.register_method(
            name,
            move |params: Params<'_>, (), extensions: &Extensions| match extensions.get::<Arc<Call>>() {
                Some(call) => handler(call, params.as_str()),
                None => Err(error(code::INTERNAL_ERROR, "the call has no connection")),
            },
        )?;
    }
    Ok(module.into())
}

impl Call {
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

/// Answers a request, and says what must follow the answer.
pub type Reply = Box<dyn FnOnce(Responder) + Send>;

/// Dispatches one line.
pub fn line(connection: &Arc<Connection>, line: &[u8]) {
    match rpc::parse(line) {
        None => {}
        Some(Err(malformed)) => refuse(connection, &malformed),
        Some(Ok(Incoming::Response { id, result })) => prompt::answered(connection, &id, result),
        Some(Ok(Incoming::Call { id, method, params })) => {
            let params = params.map(RawValue::get);
            match wait_behind_gate(connection, params, line) {
                Ok(true) => {}
                Ok(false) => call(connection, id, &method, params),
                Err(error) => connection.outbox.responder(id).fail(&error),
            }
        }
        Some(Ok(Incoming::Notification { method, params })) => {
            let params = params.map(RawValue::get);
            match method.as_ref() {
                "$/cancel_request" => cancel_request(connection, params),
                "session/cancel" => {
                    if let Ok(id) = decode::session_id(params) {
                        cancel_parked(connection, |line| is_prompt_of(line, &id));
                        if let Ok(id) = SessionId::parse(&id) {
                            connection.engine.cancel(&id);
                        }
                    }
                }
                // Unknown notifications are ignored (facts: ACP §1.4.4).
                _ => {}
            }
        }
    }
}

/// Parks a line that names a session whose opening is under way.
fn wait_behind_gate(
    connection: &Connection,
    params: Option<&str>,
    line: &[u8],
) -> Result<bool, ErrorObjectOwned> {
    let mut gates = lock(&connection.gates);
    if gates.is_empty() {
        return Ok(false);
    }
    let Some(session) = decode::named_session(params) else { return Ok(false) };
    match gates.get_mut(&session) {
        Some(parked) if parked.len() < MAX_PARKED => {
            parked.push_back(line.to_vec());
            Ok(true)
        }
        Some(_) => {
            let message = format!("{MAX_PARKED} requests wait for this session to open already");
            Err(error(code::INVALID_REQUEST, &message))
        }
        None => Ok(false),
    }
}

/// Dispatches what waited for a session, in order, until one of them closes the gate again.
fn open_gate(connection: &Arc<Connection>, session: &str) {
    let mut parked = lock(&connection.gates).remove(session).unwrap_or_default();
    while let Some(next) = parked.pop_front() {
        line(connection, &next);
        if let Some(gate) = lock(&connection.gates).get_mut(session) {
            gate.append(&mut parked);
        }
    }
}

fn call(connection: &Arc<Connection>, id: Id, method: &str, params: Option<&str>) {
    let responder = connection.outbox.responder(id);
    if connection.client().is_none() && method != "initialize" {
        return responder.fail(&error(code::INVALID_REQUEST, "The connection must begin with `initialize`."));
    }
    let Some(MethodCallback::Sync(callback)) = connection.methods.method(method) else {
        let data = serde_json::json!({ "method": method });
        return responder.fail(&ErrorObjectOwned::owned(
            code::METHOD_NOT_FOUND,
            "Method not found",
            Some(data),
        ));
    };
    let call = Arc::new(Call { connection: connection.clone(), responder: Some(responder).into() });
    let mut extensions = Extensions::new();
    extensions.insert(call.clone());
    // Our ids are wider than the library's, so it gets none and the responder keeps ours.
    let response = callback(RpcId::Null, Params::new(params), usize::MAX, extensions);
    if response.is_error()
        && let Ok(responder) = call.take_responder()
    {
        #[derive(Deserialize)]
        struct Failed<'a> {
            #[serde(borrow)]
            error: &'a RawValue,
        }
        match serde_json::from_str::<Failed<'_>>(response.as_json().get()) {
            Ok(failed) => responder.fail_raw(failed.error),
            Err(reason) => responder.fail(&error(code::INTERNAL_ERROR, &reason.to_string())),
        }
    }
}

/// Cancels a request of the client; it is answered all the same (facts: ACP §1.4.4).
fn cancel_request(connection: &Connection, params: Option<&str>) {
    let Some(id) = decode::cancelled_request(params) else { return };
    match connection.outbox.cancel_of(&id) {
        Some(Cancel::Task(token)) => token.cancel(),
        Some(Cancel::Prompt { session_id, ticket }) => connection.engine.cancel_prompt(&session_id, ticket),
        Some(Cancel::No) => {}
        None => cancel_parked(
            connection,
            |line| matches!(rpc::parse(line), Some(Ok(Incoming::Call { id: parked, .. })) if parked == id),
        ),
    }
}

/// Cancels requests that still wait for their session to open; a prompt ends as a cancelled turn does.
fn cancel_parked(connection: &Connection, is_meant: impl Fn(&[u8]) -> bool) {
    let mut cancelled = Vec::new();
    for parked in lock(&connection.gates).values_mut() {
        let (meant, others) = std::mem::take(parked).into_iter().partition(|line| is_meant(line));
        *parked = others;
        cancelled.extend::<VecDeque<Vec<u8>>>(meant);
    }
    for line in &cancelled {
        let Some(Ok(Incoming::Call { id, method, .. })) = rpc::parse(line) else { continue };
        let responder = connection.outbox.responder(id);
        match method.as_ref() {
            "session/prompt" => responder.succeed(&PromptResponse::new(StopReason::Cancelled)),
            _ => responder.fail(&error(code::REQUEST_CANCELLED, "The request was cancelled.")),
        }
    }
}

fn is_prompt_of(line: &[u8], session: &str) -> bool {
    match rpc::parse(line) {
        Some(Ok(Incoming::Call { method, params, .. })) => {
            let named = decode::named_session(params.map(RawValue::get));
            method == "session/prompt" && named.as_deref() == Some(session)
        }
        Some(Ok(Incoming::Notification { .. } | Incoming::Response { .. }) | Err(_)) | None => false,
    }
}

fn refuse(connection: &Connection, malformed: &Malformed) {
    let body = rpc::ErrorBody { code: malformed.code(), message: malformed.to_string(), data: None };
    connection.outbox.send(&rpc::failure(&Id::Null, &body));
}

/// Answers a line that was too long to keep.
pub fn refuse_long_line(connection: &Connection, limit: usize) {
    let message = format!("the line is longer than {limit} bytes and was dropped");
    let body = rpc::ErrorBody { code: code::INVALID_REQUEST, message, data: None };
    connection.outbox.send(&rpc::failure(&Id::Null, &body));
}

/// An error object.
pub fn error(code: i32, message: &str) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(code, message, None::<()>)
}

/// Parameters that cannot be used.
pub fn invalid_params(reason: &InvalidParams) -> ErrorObjectOwned {
    error(code::INVALID_PARAMS, &reason.0)
}

/// A session id that may name a session; one that cannot is a session that does not exist.
pub fn session_id(text: &str) -> Result<SessionId, ErrorObjectOwned> {
    SessionId::parse(text).map_err(|_| no_session(text))
}

/// The error for a session that does not exist or is not open on this connection.
pub fn no_session(id: &str) -> ErrorObjectOwned {
    let data = serde_json::json!({ "sessionId": id });
    ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, format!("Session not found: {id}"), Some(data))
}

/// The one map from the engine's errors to JSON-RPC codes.
pub fn engine_error(failure: &EngineError) -> ErrorObjectOwned {
    match &failure.kind {
        EngineErrorKind::SessionNotFound(id) => no_session(id.as_str()),
        EngineErrorKind::SessionExists | EngineErrorKind::InvalidInput => {
            error(code::INVALID_PARAMS, &failure.message)
        }
        EngineErrorKind::AuthRequired => error(code::AUTH_REQUIRED, &failure.message),
        EngineErrorKind::Provider | EngineErrorKind::Store | EngineErrorKind::Internal => {
            error(code::INTERNAL_ERROR, &failure.message)
        }
    }
}
