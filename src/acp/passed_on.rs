//! Sessions that other nodes of the fleet have: a client's requests are passed on, and go on here when their node is gone.

use std::{path::Path, sync::Arc, time::Duration};

use http::Method;
use jsonrpsee::types::ErrorObjectOwned;
use serde_json::{Value, json};
use windlass_engine::{Client as Lease, Engine, EngineError, EngineErrorKind, fleet::Owner};
use windlass_protocol::opencode::{id::SessionId, session::Session};
use windlass_protocol_acp::{
    decode::{self, Version},
    ext,
};

use super::{
    connection::Connection,
    error::engine_error,
    other_node::{Answer, End, OtherNode},
    other_paths::OtherPaths,
    outbox::{Cancel, Outbox, Outgoing, Responder},
};

/// Time in which a node greets a client.
const GREETING_LIMIT: Duration = Duration::from_secs(10);

/// The requests that open a session.
const OPENING: [&str; 2] = ["session/load", "session/resume"];
/// The requests about an open session.
const METHODS: [&str; 20] = [
    "session/prompt",
    "session/close",
    "session/delete",
    "session/archive",
    "session/unarchive",
    "session/status",
    "session/set_title",
    "session/set_mode",
    "session/set_model",
    "session/set_config_option",
    "_session/archive",
    "_session/unarchive",
    "_session/rename",
    ext::STEERING,
    ext::QUEUE_LIST,
    ext::QUEUE_CHANGE,
    ext::QUEUE_WITHDRAW,
    ext::PERMISSION_REPLY,
    ext::QUESTION_REPLY,
    ext::QUESTION_REJECT,
];

/// Returns true for the requests that nodes pass on to each other, and for no other.
pub fn is_passed_on(method: &str) -> bool {
    method == "initialize" || OPENING.contains(&method) || METHODS.contains(&method)
}

/// The place of a request.
pub enum Place {
    Here,
    /// At another node, by the session that the client has opened there.
    There(SessionId),
    /// Its node is gone: the session is to be opened again with these parameters.
    Gone(SessionId, String),
}

/// Finds the place of a request.
pub fn place(connection: &mut Connection, method: &str, params: Option<&str>) -> Place {
    connection.other_nodes.retain(|node| !node.is_over());
    if connection.other_nodes.is_empty() {
        return Place::Here;
    }
    let Ok(named) = decode::session_id(params) else { return Place::Here };
    let is_meant = |node: &&OtherNode| match OPENING.contains(&method) {
        // A subagent's session is opened by itself.
        true => node.session().as_str() == named && node.ended().is_none(),
        false => METHODS.contains(&method) && node.has(&named),
    };
    let Some(node) = connection.other_nodes.iter().find(is_meant) else { return Place::Here };
    let session = node.session().clone();
    // Somebody else brought it here.
    let is_here = connection.engine.fleet().holds(&session);
    match node.ended() {
        None if !is_here => Place::There(session),
        _gone if OPENING.contains(&method) => Place::Here,
        Some(End::Lost) | None => Place::Gone(session, node.opened_by.clone()),
        Some(End::Closed) => Place::Here,
    }
}

/// Passes a request on to the node that has a session; it can be cancelled there.
pub fn pass_on(
    connection: &mut Connection,
    session: &SessionId,
    responder: Responder,
    method: &str,
    params: Option<&str>,
) {
    let Some(node) = find(connection, session.as_str()) else { return };
    let rpc_id = responder.id().clone();
    let id = if OPENING.contains(&method) {
        let mut wanted = object(params);
        retarget(&mut wanted, node.directory());
        node.call_as_is(responder, method, &wanted)
    } else {
        node.call(responder, method, params)
    };
    if let Some(id) = id {
        connection.set_cancel(&rpc_id, Cancel::AtOtherNode { session_id: session.clone(), id });
    }
}

/// Passes a notification on if it is about a session at another node. Returns false otherwise.
pub fn notify(connection: &Connection, method: &str, session: &str, params: Option<&str>) -> bool {
    let Some(node) = find(connection, session) else { return false };
    node.notify(method, params);
    true
}

/// Cancels a request at another node.
pub fn cancel(connection: &Connection, session: &SessionId, id: i64) {
    if let Some(node) = find(connection, session.as_str()) {
        node.cancel(id);
    }
}

/// Leaves a session to its node, since it is open here or deleted.
pub fn forget(connection: &mut Connection, session: &SessionId) {
    connection.other_nodes.retain(|node| node.session() != session);
}

fn find<'a>(connection: &'a Connection, session: &str) -> Option<&'a OtherNode> {
    connection.other_nodes.iter().find(|node| node.has(session) && node.ended().is_none())
}

/// Opens sessions of a client at the nodes that have them.
pub struct Opener {
    engine: Engine,
    lease: Arc<Lease>,
    outbox: Arc<Outbox>,
    /// The parameters of the client's `initialize`.
    greeting: Option<Value>,
    is_second_version: bool,
    may_pass_on: bool,
}

/// A session that was opened at its node.
pub struct OpenedThere {
    node: OtherNode,
    pub result: Value,
    _answer: Answer,
}

impl Opener {
    pub fn of(connection: &Connection) -> Self {
        Self {
            engine: connection.engine.clone(),
            lease: connection.lease.clone(),
            outbox: connection.outbox.clone(),
            greeting: connection.greeting.clone(),
            is_second_version: connection.encoder.client.version == Version::V2,
            may_pass_on: !connection.options.is_of_fleet,
        }
    }

    /// Opens a session at the node that has it, where `failure` says that it could not be opened here for that.
    pub async fn open(
        self,
        id: &SessionId,
        method: &str,
        params: &str,
        failure: &EngineError,
    ) -> Result<OpenedThere, ErrorObjectOwned> {
        let Some(owner) = self.owner(id, failure).await else { return Err(engine_error(failure)) };
        let mut wanted = object(Some(params));
        let cwd = wanted["cwd"].as_str().unwrap_or_default().to_owned();
        let greeted = tokio::time::timeout(GREETING_LIMIT, self.greet(owner, id, cwd)).await;
        let greeted = greeted.unwrap_or_else(|_elapsed| Err("it takes too long".to_owned()));
        let mut node = greeted.map_err(|reason| {
            let message = format!("{}; from here it cannot be used: {reason}", failure.message);
            engine_error(&EngineError::new(failure.kind.clone(), message))
        })?;
        retarget(&mut wanted, node.directory());
        let answer = node.ask(method, &wanted).await?;
        let result = answer.result.as_ref().map_err(ErrorObjectOwned::clone)?.clone();
        node.opened_by = again(params, id);
        // Its rights and servers here end, where it was open.
        self.lease.close_session(id).await;
        Ok(OpenedThere { node, result, _answer: answer })
    }

    /// Returns the node that has a session, if requests may be passed on to it.
    async fn owner(&self, id: &SessionId, failure: &EngineError) -> Option<Owner> {
        if failure.kind != EngineErrorKind::OtherNode || !self.may_pass_on {
            return None;
        }
        self.engine.fleet().elsewhere(id).await.ok().flatten()
    }

    /// Connects the client to a node.
    async fn greet(&self, owner: Owner, id: &SessionId, cwd: String) -> Result<OtherNode, String> {
        let asked = self.engine.fleet().request(&owner, Method::GET, &format!("/session/{id}")).await?;
        let answer = asked.send().await.and_then(reqwest::Response::error_for_status);
        let info = async { answer?.json::<Session>().await }.await;
        let info = info.map_err(|error| error.without_url().to_string())?;
        let listed = self.engine.fleet().listed(id, Path::new(&cwd)).await;
        // The list has the directory as it is on this machine, if that has a checkout of the project.
        let here = listed.map(|info| info.directory).filter(|here| Path::new(here).is_dir()).unwrap_or(cwd);
        let node =
            OtherNode::connect(&self.engine, owner, id.clone(), &self.outbox, self.is_second_version).await?;
        let greeting = greeting(self.greeting.clone().unwrap_or_default());
        let answer = node.ask("initialize", &greeting).await.map_err(|error| error.message().to_owned())?;
        answer.result.map_err(|error| error.message().to_owned())?;
        node.set_paths(OtherPaths { here, there: info.directory });
        Ok(node)
    }
}

impl OpenedThere {
    /// Gives the session to its client, in place of one that was open here. Lines of the node come behind this.
    pub fn attach(self, connection: &mut Connection) {
        let id = self.node.session().clone();
        if connection.sessions().remove(&id).is_some() {
            connection.outbox.push(Outgoing::Detach(id.clone()));
        }
        forget(connection, &id);
        self.node.set_open();
        connection.other_nodes.push(self.node);
    }
}

fn object(params: Option<&str>) -> Value {
    let params = params.and_then(|it| serde_json::from_str(it).ok()).filter(Value::is_object);
    params.unwrap_or_else(|| json!({}))
}

/// Returns a client's `initialize` for another machine, which reaches neither its files nor its terminals.
fn greeting(mut params: Value) -> Value {
    for name in ["clientCapabilities", "capabilities"] {
        if let Some(capabilities) = params.get_mut(name).and_then(Value::as_object_mut) {
            capabilities.remove("fs");
            capabilities.remove("terminal");
        }
    }
    params
}

/// Makes the parameters that open a session those for another machine: servers and directories of this one stay behind.
fn retarget(params: &mut Value, directory: &str) {
    params["cwd"] = directory.into();
    params["mcpServers"] = json!([]);
    if let Some(params) = params.as_object_mut() {
        params.remove("additionalDirectories");
    }
}

/// Returns parameters that open a session as these did, with the options that it has by then.
pub fn again(params: &str, id: &SessionId) -> String {
    let mut params = object(Some(params));
    params["sessionId"] = id.as_str().into();
    if let Some(params) = params.as_object_mut() {
        ["_meta", "configOptions", "replayFrom", "cursorId"].iter().for_each(|key| drop(params.remove(*key)));
    }
    params.to_string()
}
