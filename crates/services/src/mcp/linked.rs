//! A server that lives in a client: MCP's requests as messages of the client's own protocol.
//!
//! Such a server keeps no state between requests (MCP 2026-07-28): it is discovered, not initialized, and tells of
//! changed lists as long as a subscription is on its way to it.

use std::{
    collections::HashMap,
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use rmcp::{
    RoleClient,
    model::{ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, ProtocolVersion, RequestId},
    service::{ClientLifecycleMode, RxJsonRpcMessage, TxJsonRpcMessage},
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    Status,
    session::{Task, session_with_lifecycle},
};

/// Notifications of a server that may wait to be read, and of its progress.
const MAX_NOTIFICATIONS: usize = 1024;
const MAX_PROGRESS: usize = 64;
/// The method of notifications that may be lost.
const PROGRESS: &str = "notifications/progress";

/// The member of `_meta` that names the subscription which a message belongs to.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Numbers the requests to all servers in clients, which may know one server by several sessions.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Sends a request and returns its answer; dropping that cancels the request.
pub type AskServer = dyn Fn(LinkRequest) -> BoxFuture<'static, LinkAnswer> + Send + Sync;

/// The way to a server in a client.
#[derive(Clone)]
pub struct Link {
    /// The client's name for the server.
    server_id: String,
    ask: Arc<AskServer>,
}

impl Link {
    pub fn new(server_id: String, ask: Arc<AskServer>) -> Self {
        Self { server_id, ask }
    }
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        self.server_id == other.server_id && Arc::ptr_eq(&self.ask, &other.ask)
    }
}

impl Eq for Link {}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("server_id", &self.server_id).finish_non_exhaustive()
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the client", self.server_id)
    }
}

/// A request to a server in a client.
#[derive(Debug)]
pub struct LinkRequest {
    pub server_id: String,
    /// The name of the request between us and the server.
    pub request_id: String,
    pub method: String,
    pub params: Option<Map<String, Value>>,
    pub notifications: Notifications,
}

/// Takes the notifications of a server about its requests. Cloning it shares it.
#[derive(Debug, Clone)]
pub struct Notifications {
    sender: mpsc::Sender<LinkNotification>,
    /// Cancelled when one did not fit.
    overrun: CancellationToken,
}

impl Notifications {
    /// Passes one on. While many wait to be read, progress is dropped; too many of others end the connection, which
    /// begins anew.
    pub fn push(&self, notification: LinkNotification) {
        let is_progress = notification.method == PROGRESS;
        let n_waiting = self.sender.max_capacity() - self.sender.capacity();
        if !(is_progress && n_waiting >= MAX_PROGRESS) && self.sender.try_send(notification).is_err() {
            self.overrun.cancel();
        }
    }
}

/// A notification about a request.
#[derive(Debug)]
pub struct LinkNotification {
    pub request_id: String,
    pub method: String,
    pub params: Option<Map<String, Value>>,
}

/// The answer to a request.
#[derive(Debug)]
pub enum LinkAnswer {
    Result(Value),
    /// The server's error, as JSON-RPC has it.
    Error {
        code: i32,
        message: String,
        data: Option<Value>,
    },
    /// The client did not ask the server, for this reason.
    Refused(String),
    /// The client answers nothing any more.
    Gone,
}

/// Serves the slot by a server in the client until it is stopped or the client goes.
pub(super) async fn run(task: &Task<'_>, link: &Link) -> Status {
    let cancel = CancellationToken::new();
    let stateless = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    let gone = CancellationToken::new();
    let transport = Transport::new(link.clone(), gone.clone());
    let served = session_with_lifecycle(task, transport, stateless, cancel.clone());
    tokio::select! {
        biased;
        () = task.stop.cancelled() => {
            cancel.cancel();
            Status::Disabled
        }
        end = served => match gone.is_cancelled() {
            // Nobody is there to start it again.
            true => Status::Disabled,
            false => task.failed(&end.describe(task.spec())),
        },
    }
}

/// The requests that are on their way to the server, and the messages that come back.
struct Transport {
    link: Link,
    /// The requests by their names between us and the server.
    waiting: HashMap<String, Waiting>,
    answers: FuturesUnordered<BoxFuture<'static, (String, Option<LinkAnswer>)>>,
    received: mpsc::Receiver<LinkNotification>,
    notifications: Notifications,
    /// Cancelled when the client answers nothing any more.
    gone: CancellationToken,
}

/// A request on its way, which is cancelled when this is dropped.
struct Waiting {
    id: RequestId,
    _cancel: DropGuard,
}

impl Transport {
    fn new(link: Link, gone: CancellationToken) -> Self {
        let (sender, received) = mpsc::channel(MAX_NOTIFICATIONS);
        let notifications = Notifications { sender, overrun: CancellationToken::new() };
        let (waiting, answers) = (HashMap::new(), FuturesUnordered::new());
        Self { link, waiting, answers, received, notifications, gone }
    }

    fn request(&mut self, id: RequestId, method: String, params: Option<Map<String, Value>>) {
        let request_id = format!("mcp_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let cancel = CancellationToken::new();
        let cancelled = cancel.clone();
        self.waiting.insert(request_id.clone(), Waiting { id, _cancel: cancel.drop_guard() });
        let answer = (self.link.ask)(LinkRequest {
            server_id: self.link.server_id.clone(),
            request_id: request_id.clone(),
            method,
            params,
            notifications: self.notifications.clone(),
        });
        self.answers.push(Box::pin(async move {
            tokio::select! {
                biased;
                () = cancelled.cancelled() => (request_id, None),
                answer = answer => (request_id, Some(answer)),
            }
        }));
    }

    fn cancel(&mut self, id: &RequestId) {
        self.waiting.retain(|_, waiting| waiting.id != *id);
    }

    /// Makes MCP's message of a notification; `None` for one about a request that is over, or that is none of MCP's.
    fn notified(&self, notification: LinkNotification) -> Option<RxJsonRpcMessage<RoleClient>> {
        let LinkNotification { request_id, method, params } = notification;
        let id = &self.waiting.get(&request_id)?.id;
        let params = params.map(|params| named(params, &request_id, id));
        message(json!({ "jsonrpc": "2.0", "method": method, "params": params.unwrap_or_default() }))
    }
}

/// Puts our name for a subscription in the place of that between us and the server.
fn named(mut object: Map<String, Value>, request_id: &str, id: &RequestId) -> Map<String, Value> {
    if let Some(name) = object.get_mut("_meta").and_then(|meta| meta.get_mut(SUBSCRIPTION))
        && name == request_id
    {
        *name = id.clone().into_json_value();
    }
    object
}

fn message(message: Value) -> Option<RxJsonRpcMessage<RoleClient>> {
    serde_json::from_value(message)
        .inspect_err(|error| tracing::debug!(%error, "a message of a server in the client is none of MCP"))
        .ok()
}

fn refused(
    code: ErrorCode,
    message: String,
    data: Option<Value>,
    id: RequestId,
) -> RxJsonRpcMessage<RoleClient> {
    JsonRpcMessage::error(ErrorData { code, message: message.into(), data }, Some(id))
}

impl rmcp::transport::Transport<RoleClient> for Transport {
    type Error = Infallible;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        match item {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                let mut encoded = serde_json::to_value(request).unwrap_or_default();
                if let (Some(method), params) =
                    (encoded["method"].as_str().map(str::to_owned), encoded["params"].take())
                {
                    let params = if let Value::Object(params) = params { Some(params) } else { None };
                    self.request(id, method, params);
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = notification.notification
                    && let Some(id) = cancelled.params.request_id
                {
                    self.cancel(&id);
                }
            }
            // A server without state asks nothing.
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let (request_id, answer) = tokio::select! {
                biased;
                () = self.notifications.overrun.cancelled() => {
                    let server = &self.link.server_id;
                    tracing::warn!(server, "a server in the client sends more notifications than are read");
                    return None;
                }
                Some(notification) = self.received.recv() => {
                    match self.notified(notification) {
                        Some(message) => return Some(message),
                        None => continue,
                    }
                }
                Some(answered) = self.answers.next() => answered,
                else => std::future::pending().await,
            };
            let Some(Waiting { id, .. }) = self.waiting.remove(&request_id) else { continue };
            let read = match answer {
                None => continue,
                Some(LinkAnswer::Gone) => {
                    self.gone.cancel();
                    return None;
                }
                Some(LinkAnswer::Refused(reason)) => refused(ErrorCode::INTERNAL_ERROR, reason, None, id),
                Some(LinkAnswer::Error { code, message, data }) => {
                    refused(ErrorCode(code), message, data, id)
                }
                Some(LinkAnswer::Result(result)) => {
                    let result = match result {
                        Value::Object(fields) => Value::Object(named(fields, &request_id, &id)),
                        other => other,
                    };
                    let answered = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                    let no_answer = || {
                        let reason = "its answer does not fit the request".to_owned();
                        refused(ErrorCode::INTERNAL_ERROR, reason, None, id.clone())
                    };
                    message(answered).unwrap_or_else(no_answer)
                }
            };
            return Some(read);
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        self.waiting.clear();
        self.answers.clear();
        Ok(())
    }
}
