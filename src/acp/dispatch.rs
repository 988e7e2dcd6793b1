//! The table of methods and the way of a line to its handler.
//!
//! Handlers run on the reader's task in the order of the lines and never wait. What may take long is spawned by
//! its handler; until it has answered, later lines that name the same session wait behind it.

use std::{collections::VecDeque, sync::Arc};

use jsonrpsee::{
    Extensions, Methods, RpcModule,
    core::{RegisterMethodError, server::MethodCallback},
    types::{ErrorObjectOwned, Id as RpcId, Params},
};
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_protocol::{
    acp::{
        decode, ext,
        schema::{PromptResponse, StopReason},
    },
    opencode::id::SessionId,
    rpc::{self, Id, Incoming, Malformed, code},
};

use super::{
    call::Call, connection::Connection, elicitation, error::error, initialize, outbox::Cancel, prompt,
    session, settings,
};
use crate::base::lock::lock;

/// Lines that may wait for one session to open.
const MAX_PARKED: usize = 256;

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
    let call = Arc::new(Call::new(connection.clone(), responder));
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
