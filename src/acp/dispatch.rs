//! The table of methods and the way of a line to its handler.
//!
//! Handlers run on the connection's task in the order of the lines and never wait. Work that may take long is spawned
//! by its handler; until it has answered, later lines that name the same session wait behind it.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use jsonrpsee::{
    Extensions, Methods, RpcModule,
    core::{RegisterMethodError, server::MethodCallback},
    types::{ErrorObjectOwned, Id as RpcId, Params},
};
use serde_json::{json, value::RawValue};
use windlass_protocol::{
    opencode::id::SessionId,
    rpc::{self, Id, Incoming, Malformed, code},
};
use windlass_protocol_acp::{
    decode::{self, Version},
    ext,
    schema::{PromptResponse, StopReason},
};

use super::{
    auth,
    call::Call,
    connection::{Connection, Handled},
    elicitation,
    error::error,
    initialize, linked,
    outbox::{Cancel, News, Responder},
    passed_on::{self, Place},
    prompt, providers, queue, records, reopen, session, settings,
};

/// Lines that may wait for one session to open.
const MAX_PARKED: usize = 256;

/// A method's handler: it answers through the call now or later, or returns the error.
type Handler = fn(&mut Connection, &mut Call, Option<&str>) -> Result<(), ErrorObjectOwned>;

/// Cell for the row that was found in the table.
#[derive(Clone, Default)]
struct Found(Arc<OnceLock<(Versions, Handler)>>);

/// The versions of the protocol that have a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Versions {
    Both,
    Only(Version),
}

const BOTH: Versions = Versions::Both;
const V1: Versions = Versions::Only(Version::V1);
const V2: Versions = Versions::Only(Version::V2);

/// Every method of the agent, in the order of the protocol's documentation.
#[rustfmt::skip]
const METHODS: &[(&str, Versions, Handler)] = &[
    // Answered on the spot: nothing to wait for.
    ("initialize",                 BOTH, initialize::initialize),
    // Read or write files, the store or git: spawned, in their session's order.
    ("authenticate",               V1,   auth::authenticate),
    ("logout",                     V1,   auth::logout),
    ("auth/login",                 V2,   auth::authenticate),
    ("auth/logout",                V2,   auth::logout),
    ("auth/status",                BOTH, auth::auth_status),
    ("providers/list",             BOTH, providers::list),
    ("providers/set",              BOTH, providers::set),
    ("providers/disable",          BOTH, providers::disable),
    ("session/new",                BOTH, session::new),
    ("session/load",               V1,   reopen::load),
    ("session/resume",             BOTH, reopen::resume),
    ("session/fork",               BOTH, session::fork),
    ("session/options",            BOTH, session::options),
    ("session/list",               BOTH, session::list),
    ("session/close",              BOTH, session::close),
    ("session/delete",             BOTH, session::delete),
    ("session/archive",            BOTH, records::archive),
    ("session/unarchive",          BOTH, records::unarchive),
    ("session/status",             BOTH, records::status),
    ("session/set_title",          BOTH, records::set_title),
    // The same under the names that the large adapters gave them.
    ("_session/archive",           BOTH, records::archive),
    ("_session/unarchive",         BOTH, records::unarchive),
    ("_session/rename",            BOTH, records::set_title),
    (ext::LIST_SUBSCRIBE,          BOTH, records::subscribe),
    (ext::LIST_UNSUBSCRIBE,        BOTH, records::unsubscribe),
    // Stored, then answered: spawned, and the lines of their session wait.
    ("session/set_mode",           V1,   settings::set_mode),
    ("session/set_config_option",  BOTH, settings::set_config_option),
    ("session/set_model",          V1,   settings::set_model),
    // Handed to the session's task on the spot, so that their order is the order of the lines.
    ("session/prompt",             BOTH, prompt::prompt),
    (ext::STEERING,                BOTH, queue::steer),
    (ext::QUEUE_LIST,              BOTH, queue::list),
    (ext::QUEUE_CHANGE,            BOTH, queue::change),
    (ext::QUEUE_WITHDRAW,          BOTH, queue::withdraw),
    (ext::PERMISSION_REPLY,        BOTH, prompt::permission_reply),
    (ext::QUESTION_REPLY,          BOTH, elicitation::reply),
    (ext::QUESTION_REJECT,         BOTH, elicitation::reject),
];

/// Returns the method table.
///
/// The library calls with data that it can share between threads. A handler has its connection to itself, so the table
/// only finds the handler, and [`call`] calls it: nothing is encoded that would have to be parsed again.
pub fn methods() -> Result<Methods, RegisterMethodError> {
    let mut module = RpcModule::new(());
    for (name, versions, handler) in METHODS {
        module.register_method(name, move |_: Params<'_>, (), extensions: &Extensions| {
            if let Some(found) = extensions.get::<Found>() {
                // Each lookup brings a place of its own.
                let _ = found.0.set((*versions, *handler));
            }
        })?;
    }
    Ok(module.into())
}

/// Finds the handler of a version's method in the table.
fn handler(methods: &Methods, method: &str, version: Version) -> Option<Handler> {
    let MethodCallback::Sync(callback) = methods.method(method)? else { return None };
    let found = Found::default();
    let mut extensions = Extensions::new();
    extensions.insert(found.clone());
    callback(RpcId::Null, Params::new(None), usize::MAX, extensions);
    let (versions, handler) = found.0.get().copied()?;
    (versions == Versions::Both || versions == Versions::Only(version)).then_some(handler)
}

/// Dispatches one line.
pub fn line(connection: &mut Connection, line: &[u8]) {
    match rpc::parse(line) {
        None => {}
        Some(Err(malformed)) => refuse(connection, &malformed),
        Some(Ok(Incoming::Response { id, result })) => prompt::answered(connection, &id, result),
        Some(Ok(Incoming::Call { id, method, params })) => {
            let params = params.map(RawValue::get);
            match wait_behind_gate(connection, params, line) {
                Ok(true) => {}
                Ok(false) => call(connection, id, &method, params, line),
                Err(error) => connection.responder(id).fail(&error),
            }
        }
        Some(Ok(Incoming::Notification { method, params })) => {
            let params = params.map(RawValue::get);
            match method.as_ref() {
                "$/cancel_request" => cancel_request(connection, params),
                "session/cancel" => {
                    if let Ok(id) = decode::session_id(params) {
                        cancel_parked(connection, |line| is_prompt_of(line, &id));
                        if passed_on::notify(connection, &method, &id, params) {
                            return;
                        }
                        if let Ok(id) = SessionId::parse(&id) {
                            connection.engine.sessions().cancel(&id);
                        }
                    }
                }
                linked::MESSAGE => linked::notification(connection, params),
                // Unknown notifications are ignored (facts: ACP §1.4.4).
                _ => {}
            }
        }
    }
}

/// Deals with the end of a handler: its request is answered, and the lines that waited for its session go on.
pub fn handled(connection: &mut Connection, handled: Handled) {
    connection.note_handled();
    let (responder, session, outcome, ended) = match handled {
        Handled::Request { responder, session, outcome, ended } => (responder, session, outcome, ended),
        Handled::Reopened { session, outcome } => {
            match outcome {
                Ok(opened) => opened(connection),
                Err(error) => refuse_parked(connection, &session, &error),
            }
            return open_gate(connection, &session);
        }
    };
    match outcome {
        Ok(reply) => reply(connection, responder),
        Err(error) => responder.fail(&error),
    }
    if let Some(session) = session {
        open_gate(connection, &session);
    }
    drop(ended);
}

/// Dispatches the lines that waited for a session, in order, until one of them closes the gate again.
fn open_gate(connection: &mut Connection, session: &str) {
    let mut parked = connection.gates.remove(session).unwrap_or_default();
    while let Some(next) = parked.pop_front() {
        line(connection, &next);
        if let Some(gate) = connection.gates.get_mut(session) {
            gate.append(&mut parked);
        }
    }
}

/// Parks a line that names a session that is being opened.
fn wait_behind_gate(
    connection: &mut Connection,
    params: Option<&str>,
    line: &[u8],
) -> Result<bool, ErrorObjectOwned> {
    if connection.gates.is_empty() {
        return Ok(false);
    }
    let Some(session) = decode::named_session(params) else { return Ok(false) };
    match connection.gates.get_mut(&session) {
        Some(parked) if parked.len() < MAX_PARKED => {
            parked.push_back(line.to_vec());
            Ok(true)
        }
        Some(_) => {
            let message = format!("{MAX_PARKED} requests wait for this session already");
            Err(error(code::INVALID_REQUEST, &message))
        }
        None => Ok(false),
    }
}

fn call(connection: &mut Connection, id: Id, method: &str, params: Option<&str>, line: &[u8]) {
    if connection.client().is_none() && method != "initialize" {
        let error = error(code::INVALID_REQUEST, "The connection must begin with `initialize`.");
        return connection.responder(id).fail(&error);
    }
    match passed_on::place(connection, method, params) {
        Place::Here => {
            let responder = connection.responder(id);
            handle(connection, responder, method, params);
        }
        Place::There(session) => {
            let responder = connection.responder(id);
            passed_on::pass_on(connection, &session, responder, method, params);
        }
        Place::Gone(session, opened_by) => {
            reopen::again(connection, session.to_string(), &opened_by);
            park(connection, session.as_str(), line.to_vec());
        }
    }
}

/// Takes news that the client is not told yet.
pub fn news(connection: &mut Connection, news: News) {
    match news {
        News::Switched { session_id, agent } => connection.switch(session_id, agent),
        // Nothing of it would be shown any more.
        News::Moved { responder, failure, .. } if connection.encoder.client_calls.is_given_up() => {
            responder.fail(&failure);
        }
        News::Moved { responder, session_id, line: moved, failure: _ } => {
            connection.note_answer(&responder.withdraw());
            let session = session_id.as_str();
            let opened_by = connection.sessions().get(&session_id).map(|it| it.opened_by.clone());
            match opened_by {
                // Another line has found it already.
                _some if connection.gates.contains_key(session) => park(connection, session, moved),
                Some(opened_by) => {
                    reopen::again(connection, session.to_owned(), &opened_by);
                    park(connection, session, moved);
                }
                None => line(connection, &moved),
            }
        }
    }
}

/// Has a line wait behind a gate that is closed.
fn park(connection: &mut Connection, session: &str, line: Vec<u8>) {
    connection.gates.entry(session.to_owned()).or_default().push_back(line);
}

/// Answers the requests that wait for a session that could not be opened again.
fn refuse_parked(connection: &mut Connection, session: &str, error: &ErrorObjectOwned) {
    let parked = connection.gates.get_mut(session).map(std::mem::take).unwrap_or_default();
    for line in &parked {
        if let Some(Ok(Incoming::Call { id, .. })) = rpc::parse(line) {
            connection.responder(id).fail(error);
        }
    }
}

/// Gives a request to its handler.
fn handle(connection: &mut Connection, responder: Responder, method: &str, params: Option<&str>) {
    let version = connection.encoder.client.version;
    let is_foreign = connection.options.is_of_fleet && !passed_on::is_passed_on(method);
    let Some(handler) = handler(&connection.methods, method, version).filter(|_| !is_foreign) else {
        let data = json!({ "method": method });
        return responder.fail(&ErrorObjectOwned::owned(
            code::METHOD_NOT_FOUND,
            "Method not found",
            Some(data),
        ));
    };
    if let Some(id) = named_child(connection, method, params) {
        let message = format!(
            "{id} is a subagent's session, which ends with its work: `session/cancel` is all that it takes."
        );
        return responder.fail(&error(code::INVALID_REQUEST, &message));
    }
    let mut call = Call::new(responder);
    if let Err(error) = handler(connection, &mut call, params) {
        call.fail(&error);
    }
}

/// Returns the subagent, known to the client as a session, that a request would change (facts: ACP §1.7).
fn named_child(connection: &Connection, method: &str, params: Option<&str>) -> Option<SessionId> {
    let is_answer = [ext::PERMISSION_REPLY, ext::QUESTION_REPLY, ext::QUESTION_REJECT].contains(&method);
    if !connection.encoder.has_children() || is_answer || method == "session/status" {
        return None;
    }
    let id = SessionId::parse(&decode::named_session(params)?).ok()?;
    connection.encoder.is_child(&id).then_some(id)
}

/// Cancels a request of the client; it is answered all the same (facts: ACP §1.4.4).
fn cancel_request(connection: &mut Connection, params: Option<&str>) {
    let Some(id) = decode::cancelled_request(params) else { return };
    match connection.cancel_of(&id) {
        Some(Cancel::Task(token)) => token.cancel(),
        Some(Cancel::Prompt { session_id, ticket }) => {
            connection.engine.sessions().cancel_prompt(&session_id, ticket)
        }
        Some(Cancel::AtOtherNode { session_id, id }) => passed_on::cancel(connection, &session_id, id),
        Some(Cancel::No) => {}
        None => cancel_parked(
            connection,
            |line| matches!(rpc::parse(line), Some(Ok(Incoming::Call { id: parked, .. })) if parked == id),
        ),
    }
}

/// Cancels requests that still wait for their session to open; a prompt ends as a cancelled turn does.
fn cancel_parked(connection: &mut Connection, is_meant: impl Fn(&[u8]) -> bool) {
    let mut cancelled = Vec::new();
    for parked in connection.gates.values_mut() {
        let (meant, others) = std::mem::take(parked).into_iter().partition(|line| is_meant(line));
        *parked = others;
        cancelled.extend::<VecDeque<Vec<u8>>>(meant);
    }
    for line in &cancelled {
        let Some(Ok(Incoming::Call { id, method, .. })) = rpc::parse(line) else { continue };
        let responder = connection.responder(id);
        match method.as_ref() {
            "session/prompt" if connection.encoder.client.version == Version::V1 => {
                responder.succeed(&PromptResponse::new(StopReason::Cancelled));
            }
            ext::STEERING => responder.succeed(&json!({ "outcome": "failed" })),
            _ => responder.fail(&error(code::REQUEST_CANCELLED, "The request was cancelled.")),
        }
    }
}

fn is_prompt_of(line: &[u8], session: &str) -> bool {
    match rpc::parse(line) {
        Some(Ok(Incoming::Call { method, params, .. })) => {
            let named = decode::named_session(params.map(RawValue::get));
            ["session/prompt", ext::STEERING].contains(&&*method) && named.as_deref() == Some(session)
        }
        Some(Ok(Incoming::Notification { .. } | Incoming::Response { .. }) | Err(_)) | None => false,
    }
}

fn refuse(connection: &Connection, malformed: &Malformed) {
    let body = rpc::ErrorBody { code: malformed.code(), message: malformed.to_string(), data: None };
    connection.outbox.send(&rpc::failure(&Id::Null, &body));
}

/// Answers a line that was too long to keep.
pub fn refuse_long_line(connection: &mut Connection) {
    let limit = connection.options.max_line;
    let message = format!("the line is longer than {limit} bytes and was dropped");
    let body = rpc::ErrorBody { code: code::INVALID_REQUEST, message, data: None };
    connection.outbox.send(&rpc::failure(&Id::Null, &body));
}
