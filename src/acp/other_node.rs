//! A client's connection to the node that has one of its sessions: lines go there as they come, and those of the node are the client's.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    future::{AbortHandle, BoxFuture, abortable},
    stream::{FuturesUnordered, SplitSink, SplitStream},
};
use http::{Method, header};
use jsonrpsee::types::ErrorObjectOwned;
use reqwest::Upgraded;
use serde_json::{Value, json, value::RawValue};
use tokio::{sync::oneshot, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::client::generate_key,
        protocol::{Role, WebSocketConfig},
    },
};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{lock::lock, queue::Queue};
use windlass_engine::{Engine, fleet::Owner};
use windlass_protocol::{
    opencode::id::SessionId,
    rpc::{self, ErrorBody, Id, Incoming, code},
};
use windlass_protocol_acp::{
    decode,
    schema::{Notice, NoticeSeverity, SessionUpdate},
};

use super::{
    client_call::CallFailure,
    error::{OTHER_NODE, error},
    input::MAX_LINE,
    other_paths::OtherPaths,
    outbox::{Outbox, Outgoing, Responder},
    v2,
};

/// Time between two looks at the node: a host or a process can go without a word.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Time after which a node that has heard nothing hears a ping.
const PING_PERIOD: Duration = Duration::from_secs(15);
/// Time after which a node that says nothing, and answers no ping, counts as gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(40);
/// Requests of a client that a node has not answered at most.
const MAX_CALLS: usize = 256;
/// The requests that a node may make of a client.
const CLIENT_METHODS: [&str; 2] = ["session/request_permission", "elicitation/create"];

/// Answers of the client that are on their way; `None` is one that was withdrawn.
type Asked<'a> = FuturesUnordered<BoxFuture<'a, Option<(Id, Result<Value, CallFailure>)>>>;
type Socket = WebSocketStream<Upgraded>;

/// See the module's comment. Once it is dropped, the session goes on at its node without this client.
pub struct OtherNode {
    shared: Arc<Shared>,
    /// The parameters by which the client can open the session again.
    pub opened_by: String,
    /// Ends with its owner.
    _carrying: AbortOnDropHandle<()>,
}

struct Shared {
    owner: Owner,
    session: SessionId,
    outbox: Arc<Outbox>,
    /// Lines for the node. An empty one ends its input.
    lines: Queue<String>,
    state: Mutex<State>,
    /// Known once the node has told it.
    paths: OnceLock<OtherPaths>,
    is_second_version: bool,
}

#[derive(Default)]
struct State {
    next_id: i64,
    /// The requests that the node has not answered.
    calls: HashMap<i64, Waiting>,
    /// The sessions of subagents that it has spoken of.
    children: HashSet<String>,
    /// The client has the session.
    is_open: bool,
    end: Option<End>,
}

/// A request that waits for the node's answer.
enum Waiting {
    /// The client's.
    Client(Responder),
    /// The client's, with which it leaves the session.
    Last(Responder),
    /// One that opens the session.
    Own(oneshot::Sender<Answer>),
}

/// The node's answer. No further line is read before this is dropped: the client has its part of the answer then.
pub struct Answer {
    pub result: Result<Value, ErrorObjectOwned>,
    _read_on: oneshot::Sender<()>,
}

/// The end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has closed the session, or opens it anew.
    Closed,
    /// The node is gone, or has the session no more.
    Lost,
}

/// The consequence of a node's line.
enum Said {
    Nothing,
    /// The client is to answer.
    Asked {
        id: Id,
        method: &'static str,
        params: Value,
    },
    /// The client need not answer any more.
    Withdrawn(Id),
    /// No line is read until this ends.
    Opened(oneshot::Receiver<()>),
    Ended(End),
}

impl OtherNode {
    /// Connects a client to a session's node.
    pub async fn connect(
        engine: &Engine,
        owner: Owner,
        session: SessionId,
        outbox: &Arc<Outbox>,
        is_second_version: bool,
    ) -> Result<Self, String> {
        let request = engine.fleet().request(&owner, Method::GET, "/acp").await?;
        let request = request.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, "websocket");
        let request =
            request.header("sec-websocket-version", "13").header("sec-websocket-key", generate_key());
        let response = request.send().await.map_err(|error| error.without_url().to_string())?;
        let status = response.status();
        let upgraded = response.upgrade().await.map_err(|_| format!("it answers {status}"))?;
        let config =
            WebSocketConfig::default().max_message_size(Some(MAX_LINE)).max_frame_size(Some(MAX_LINE));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        let shared = Arc::new(Shared {
            owner,
            session,
            outbox: outbox.clone(),
            lines: Queue::new(MAX_LINE),
            state: Mutex::default(),
            paths: OnceLock::new(),
            is_second_version,
        });
        let (carried, engine) = (shared.clone(), engine.clone());
        let carrying = tokio::spawn(async move {
            tokio::select! {
                end = carried.carry(socket) => carried.end(end),
                () = carried.node_dies(&engine) => carried.end(End::Lost),
            }
        });
        Ok(Self { shared, opened_by: String::new(), _carrying: AbortOnDropHandle::new(carrying) })
    }

    /// Returns the session that the client has opened.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// Returns true for the session, and for those of its subagents.
    pub fn has(&self, session: &str) -> bool {
        self.session().as_str() == session || lock(&self.shared.state).children.contains(session)
    }

    /// Returns the end of the connection, once there is one.
    pub fn ended(&self) -> Option<End> {
        lock(&self.shared.state).end
    }

    /// Returns true if nothing of it is left for the client.
    pub fn is_over(&self) -> bool {
        self.ended() == Some(End::Closed)
    }

    /// Sets the directories of the session at both machines.
    pub fn set_paths(&self, paths: OtherPaths) {
        // They are told once.
        let _ = self.shared.paths.set(paths);
    }

    /// Returns the directory that the session has there.
    pub fn directory(&self) -> &str {
        self.shared.paths.get().map_or("", |paths| paths.there.as_str())
    }

    /// Notes that the client has the session.
    pub fn set_open(&self) {
        lock(&self.shared.state).is_open = true;
    }

    /// Makes a request of our own, and waits for its answer.
    pub async fn ask(&self, method: &str, params: &Value) -> Result<Answer, ErrorObjectOwned> {
        let (sender, answer) = oneshot::channel();
        self.shared.call(Waiting::Own(sender), method, params);
        answer.await.map_err(|_dropped| self.shared.lost())
    }

    /// Passes a client's request on. Returns the id that it has at the node, unless it was refused.
    pub fn call(&self, responder: Responder, method: &str, params: Option<&str>) -> Option<i64> {
        let waiting = match method {
            "session/close" | "session/delete" => Waiting::Last(responder),
            _other => Waiting::Client(responder),
        };
        self.shared.call(waiting, method, &self.shared.to_there(value_of(params)))
    }

    /// Passes a request on that has its parameters for the node.
    pub fn call_as_is(&self, responder: Responder, method: &str, params: &Value) -> Option<i64> {
        self.shared.call(Waiting::Client(responder), method, params)
    }

    /// Passes a notification of the client on.
    pub fn notify(&self, method: &str, params: Option<&str>) {
        let params = self.shared.to_there(value_of(params));
        self.shared.send(&rpc::notification(method, params));
    }

    /// Cancels a request at the node.
    pub fn cancel(&self, id: i64) {
        self.shared.send(&rpc::notification("$/cancel_request", json!({ "requestId": id })));
    }

    /// Tells the node that the client can say nothing more. It answers the requests before.
    pub fn end_input(&self) {
        self.shared.lines.push(String::new(), 0);
    }
}

impl Drop for OtherNode {
    fn drop(&mut self) {
        self.shared.end(End::Closed);
    }
}

impl Shared {
    fn to_there(&self, mut params: Value) -> Value {
        if let Some(paths) = self.paths.get().filter(|paths| !paths.are_same()) {
            paths.to_there(&mut params);
        }
        params
    }

    fn to_here(&self, mut message: Value) -> Value {
        if let Some(paths) = self.paths.get().filter(|paths| !paths.are_same()) {
            paths.to_here(&mut message);
        }
        message
    }

    fn send(&self, message: &impl serde::Serialize) {
        match serde_json::to_string(message) {
            Ok(line) => {
                let weight = line.len();
                self.lines.push(line, weight);
            }
            Err(error) => tracing::error!(%error, "a message could not be encoded"),
        }
    }

    /// Makes a request. Returns its id; none where it is refused, since the node is gone or does not read.
    fn call(&self, waiting: Waiting, method: &str, params: &Value) -> Option<i64> {
        let refusal = {
            let mut state = lock(&self.state);
            if state.end.is_some() {
                self.lost()
            } else if state.calls.len() >= MAX_CALLS || self.lines.weight() >= MAX_LINE {
                let message =
                    format!("{} does not answer; it has too many requests already.", self.owner.name);
                error(code::INTERNAL_ERROR, &message)
            } else {
                let id = state.next_id;
                state.next_id += 1;
                state.calls.insert(id, waiting);
                drop(state);
                self.send(&rpc::request(&Id::Number(id), method, params));
                return Some(id);
            }
        };
        self.answer(waiting, Err(refusal));
        None
    }

    fn lost(&self) -> ErrorObjectOwned {
        let message = format!(
            "The node {} is gone, or has the session no more. The next prompt finds it; prompts that waited there are kept, \
             and go before it.",
            self.owner.name
        );
        error(code::INTERNAL_ERROR, &message)
    }

    /// Gives an answer to its asker.
    fn answer(&self, waiting: Waiting, result: Result<Value, ErrorObjectOwned>) -> Said {
        match waiting {
            Waiting::Client(responder) => {
                // A third node has it by now, which is found with the next prompt.
                let has_moved = result.as_ref().is_err_and(is_other_node);
                respond(responder, &result);
                if has_moved { Said::Ended(End::Lost) } else { Said::Nothing }
            }
            Waiting::Last(responder) => {
                respond(responder, &result);
                if result.is_ok() { Said::Ended(End::Closed) } else { Said::Nothing }
            }
            Waiting::Own(sender) => {
                let (read_on, is_read) = oneshot::channel();
                // The asker may have left.
                let _ = sender.send(Answer { result, _read_on: read_on });
                Said::Opened(is_read)
            }
        }
    }

    /// Ends everything that waits for the node. The first end counts.
    fn end(&self, end: End) {
        let (calls, is_open) = {
            let mut state = lock(&self.state);
            if state.end.is_some() {
                return;
            }
            state.end = Some(end);
            (std::mem::take(&mut state.calls), state.is_open)
        };
        self.lines.close();
        let failure = match end {
            End::Lost => self.lost(),
            End::Closed => {
                let message = format!("The session was left to {}, where its turn goes on.", self.owner.name);
                error(code::REQUEST_CANCELLED, &message)
            }
        };
        for waiting in calls.into_values() {
            self.answer(waiting, Err(failure.clone()));
        }
        if end == End::Closed {
            return;
        }
        tracing::warn!(session = %self.session, node = self.owner.name, "the node has the session no more");
        // Where prompts are answered at once, nothing else says that their turn is over.
        if is_open && self.is_second_version {
            let notice = Notice::new(NoticeSeverity::Error, failure.message().to_owned());
            let update = Box::new(SessionUpdate::Notice(notice));
            self.outbox.push(Outgoing::Update(self.session.clone(), update));
            let params = json!({ "sessionId": self.session, "update": v2::idle() });
            self.outbox.send(&rpc::notification("session/update", params));
        }
    }

    /// Waits until the node lives no more.
    async fn node_dies(&self, engine: &Engine) {
        loop {
            tokio::time::sleep(LOOK_PERIOD).await;
            // A database that is away says nothing about the node.
            let Ok(nodes) = engine.fleet().nodes().await else { continue };
            if !nodes.iter().any(|node| node.owner.id == self.owner.id && node.owner.is_alive) {
                return;
            }
        }
    }

    /// Carries lines both ways until one side ends.
    async fn carry(&self, socket: Socket) -> End {
        let (sender, receiver) = socket.split();
        tokio::select! {
            () = self.send_lines(sender) => End::Lost,
            end = self.read(receiver) => end,
        }
    }

    /// Sends the client's lines, and a sign of life where there are none: a proxy between them may end a connection without.
    async fn send_lines(&self, mut sender: SplitSink<Socket, Message>) {
        let mut batch = VecDeque::new();
        loop {
            match timeout(PING_PERIOD, self.lines.next_batch(&mut batch)).await {
                Ok(true) => {}
                Ok(false) => return,
                Err(_silent) => {
                    if sender.send(Message::Ping(Bytes::new())).await.is_err() {
                        return;
                    }
                }
            }
            for line in batch.drain(..) {
                if sender.send(Message::text(line)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Reads the node's lines, no quicker than the client does, and asks the client for it.
    async fn read(&self, mut receiver: SplitStream<Socket>) -> End {
        let mut asked = Asked::new();
        let mut handles: HashMap<Id, AbortHandle> = HashMap::new();
        let mut is_full = false;
        loop {
            let message = tokio::select! {
                biased;
                Some(answered) = asked.next(), if !asked.is_empty() => {
                    if let Some((id, result)) = answered {
                        handles.remove(&id);
                        // For a client that is gone others may answer there; it waits no longer.
                        if result == Err(CallFailure::Gone) {
                            return End::Closed;
                        }
                        self.reply(&id, result);
                    }
                    continue;
                }
                () = self.outbox.queue.room(), if is_full => {
                    is_full = false;
                    continue;
                }
                message = timeout(SILENCE_LIMIT, receiver.next()), if !is_full => match message {
                    Ok(message) => message,
                    Err(_silent) => return End::Lost,
                },
            };
            is_full = true;
            let Some(Ok(message)) = message else { return End::Lost };
            let Message::Text(line) = message else { continue };
            match self.take(&line) {
                Said::Nothing => {}
                Said::Ended(end) => return end,
                // The other end is dropped, never sent on.
                Said::Opened(is_read) => _ = is_read.await,
                Said::Withdrawn(id) => {
                    if let Some(handle) = handles.remove(&id) {
                        handle.abort();
                    }
                }
                Said::Asked { id, method, params } => {
                    let (answer, handle) = abortable(self.outbox.call(None, method, params, None));
                    handles.insert(id.clone(), handle);
                    asked.push(Box::pin(async move { Some((id, answer.await.ok()?)) }));
                }
            }
        }
    }

    /// Answers a request of the node.
    fn reply(&self, id: &Id, result: Result<Value, CallFailure>) {
        match result {
            Ok(value) => self.send(&rpc::success(id, self.to_there(value))),
            Err(failure) => {
                let message = match failure {
                    CallFailure::Gone => "the client is gone".to_owned(),
                    CallFailure::Refused(reason) => reason,
                };
                let body = ErrorBody { code: code::INTERNAL_ERROR, message, data: None };
                self.send(&rpc::failure(id, &body));
            }
        }
    }

    /// Takes a line of the node.
    fn take(&self, line: &str) -> Said {
        match rpc::parse(line.as_bytes()) {
            Some(Ok(Incoming::Response { id: Id::Number(id), result })) => {
                let Some(waiting) = lock(&self.state).calls.remove(&id) else { return Said::Nothing };
                let result = match result {
                    Ok(value) => Ok(self.to_here(value_of(value.map(RawValue::get)))),
                    Err(body) => Err(ErrorObjectOwned::owned(body.code, body.message, body.data)),
                };
                self.answer(waiting, result)
            }
            Some(Ok(Incoming::Call { id, method, params })) => {
                match CLIENT_METHODS.iter().find(|known| **known == method) {
                    Some(method) => {
                        let params = self.to_here(value_of(params.map(RawValue::get)));
                        Said::Asked { id, method, params }
                    }
                    None => {
                        let message = "Method not found".to_owned();
                        let body = ErrorBody { code: code::METHOD_NOT_FOUND, message, data: None };
                        self.send(&rpc::failure(&id, &body));
                        Said::Nothing
                    }
                }
            }
            Some(Ok(Incoming::Notification { method, params })) if method == "$/cancel_request" => {
                let id = decode::cancelled_request(params.map(RawValue::get));
                id.map_or(Said::Nothing, Said::Withdrawn)
            }
            Some(Ok(Incoming::Notification { params, .. })) => {
                self.notice_child(params.map(RawValue::get));
                self.pass_to_client(line);
                Said::Nothing
            }
            Some(Ok(Incoming::Response { .. }) | Err(_)) | None => Said::Nothing,
        }
    }

    fn notice_child(&self, params: Option<&str>) {
        let named = decode::named_session(params).filter(|id| *id != self.session.as_str());
        if let Some(id) = named {
            lock(&self.state).children.insert(id);
        }
    }

    /// Gives a notification to the client; most of them say a few words of the model.
    fn pass_to_client(&self, line: &str) {
        if self.paths.get().is_none_or(|paths| paths.are_same() || !line.contains(&paths.there)) {
            return self.outbox.push(Outgoing::Line(line.as_bytes().to_vec()));
        }
        self.outbox.send(&self.to_here(value_of(Some(line))));
    }
}

/// Returns true for the refusal of a node that does not have the session.
fn is_other_node(error: &ErrorObjectOwned) -> bool {
    let data = error.data().and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
    data.is_some_and(|data| data[OTHER_NODE] == true)
}

fn value_of(raw: Option<&str>) -> Value {
    raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or(Value::Null)
}

fn respond(responder: Responder, result: &Result<Value, ErrorObjectOwned>) {
    match result {
        Ok(value) => responder.succeed(value),
        Err(error) => responder.fail(error),
    }
}
