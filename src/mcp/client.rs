//! Our end of one connection: answers the server's requests and sends ours.
#![expect(
    deprecated,
    reason = "the newest revision deprecates roots and logging; the servers of today use them"
)]

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use futures_util::FutureExt;
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
        Implementation, JsonObject, ListRootsResult, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, Root, RootsCapabilities, ServerResult,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle},
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{CallError, CallOutput, McpTool, Progress, cause, output};
use crate::base::{lock::lock, stderr::MAX_LOG_BYTES, text};

/// Time for which a call may go on by reporting progress, unless its time limit is longer.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);

/// Bytes of a report of progress that are shown.
const MAX_MESSAGE: usize = 200;

/// The handler of the server's requests.
#[derive(Debug)]
pub(super) struct Client {
    server: String,
    root: Option<String>,
    watched: Arc<WatchedCalls>,
    tools_changed: Arc<Notify>,
    prompts_changed: Arc<Notify>,
}

impl Client {
    /// Makes a client that names `directory` as its only root, and tells of changed lists.
    pub(super) fn new(
        server: &str,
        directory: &Path,
        tools_changed: Arc<Notify>,
        prompts_changed: Arc<Notify>,
    ) -> Self {
        let root = reqwest::Url::from_file_path(directory).ok().map(String::from);
        Self { server: server.to_owned(), root, watched: Arc::default(), tools_changed, prompts_changed }
    }

    /// Returns the connection to make calls with once the handshake is done.
    pub(super) fn connection(&self, peer: Peer<RoleClient>) -> Connection {
        Connection { peer, watched: self.watched.clone() }
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        let implementation = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.root.iter().map(Root::new).collect()))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.watched.progressed(progress);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.prompts_changed.notify_one();
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let data = message.data.to_string();
        let level = message.level;
        tracing::info!(server = self.server, ?level, "{}", text::head(&data, MAX_LOG_BYTES));
    }
}

/// An established connection. Cloning it shares it.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    peer: Peer<RoleClient>,
    watched: Arc<WatchedCalls>,
}

impl Connection {
    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        tool: &McpTool,
        arguments: JsonObject,
        timeout: Duration,
        cancel: &CancellationToken,
        on_progress: &(dyn Fn(&Progress) + Send + Sync),
    ) -> Result<CallOutput, CallError> {
        let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.watched_request(request, timeout, cancel, on_progress).await? {
            Ok(result) => output::read(result),
            Err(error) => Err(failed(&tool.server, &tool.name, &error)),
        }
    }

    /// Returns true if the server declared prompts.
    pub(super) fn has_prompts(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.prompts.is_some())
    }

    /// Returns true if the server declared resources.
    pub(super) fn has_resources(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Sends a request to the server; `timeout` restarts with every sign of progress, within limits.
    pub(super) async fn request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Result<ServerResult, ServiceError>, CallError> {
        self.watched_request(request, timeout, cancel, &|_| {}).await
    }

    async fn watched_request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        cancel: &CancellationToken,
        on_progress: &(dyn Fn(&Progress) + Send + Sync),
    ) -> Result<Result<ServerResult, ServiceError>, CallError> {
        let last = Instant::now() + LONGEST_CALL.max(timeout);
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        // Queueing waits only behind a thousand other messages to a server that reads none of them.
        let handle = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(CallError::Cancelled),
            () = &mut deadline => return Err(CallError::TimedOut(timeout)),
            sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()) => match sent {
                Ok(handle) => handle,
                Err(error) => return Ok(Err(error)),
            }
        };
        let progressed = Arc::new(Watched::default());
        let mut call = Call::new(handle, &self.watched, &progressed);
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    call.reason = "cancelled by the user";
                    return Err(CallError::Cancelled);
                }
                response = call.response() => return Ok(response),
                progress = progressed.next(), if deadline.deadline() < last => {
                    deadline.as_mut().reset(last.min(Instant::now() + timeout));
                    on_progress(&progress);
                }
                () = &mut deadline => {
                    call.reason = "request timed out";
                    let is_last = deadline.deadline() >= last;
                    return Err(CallError::TimedOut(if is_last { LONGEST_CALL.max(timeout) } else { timeout }));
                }
            }
        }
    }
}

/// Makes the error for a server that failed at `what`.
pub(super) fn failed(server: &str, what: &str, error: &ServiceError) -> CallError {
    CallError::Failed(match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportClosed => {
            format!("MCP server {server} closed the connection before {what} was done")
        }
        // The enum is non-exhaustive.
        error => format!("MCP server {server} could not run {what}: {}", cause::of_request(error)),
    })
}

/// A request on its way. Dropping it before the answer arrives cancels it at the server.
struct Call<'a> {
    handle: Option<RequestHandle<RoleClient>>,
    watched: &'a WatchedCalls,
    token: ProgressToken,
    reason: &'static str,
}

impl<'a> Call<'a> {
    fn new(handle: RequestHandle<RoleClient>, watched: &'a WatchedCalls, progressed: &Arc<Watched>) -> Self {
        let token = handle.progress_token.clone();
        watched.lock().insert(token.clone(), progressed.clone());
        Self { handle: Some(handle), watched, token, reason: "request abandoned" }
    }

    async fn response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let response = (&mut handle.rx).await;
        self.handle = None;
        response.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.watched.lock().remove(&self.token);
        let Some(handle) = self.handle.take() else { return };
        // The first poll puts the notification into the connection's queue. Any further poll only waits until
        // it is written, which a server that no longer reads could prevent for ever.
        let _ = tokio::task::coop::unconstrained(handle.cancel(Some(self.reason.to_owned()))).now_or_never();
    }
}

/// Waiting calls, by the token under which the server reports their progress.
#[derive(Debug, Default)]
struct WatchedCalls(Mutex<HashMap<ProgressToken, Arc<Watched>>>);

impl WatchedCalls {
    fn progressed(&self, progress: ProgressNotificationParam) {
        if let Some(call) = self.lock().get(&progress.progress_token) {
            let ProgressNotificationParam { progress: done, total, message, .. } = progress;
            let message = message.map(|message| text::head(&message, MAX_MESSAGE).to_owned());
            *lock(&call.newest) = Progress { done, total, message };
            call.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProgressToken, Arc<Watched>>> {
        lock(&self.0)
    }
}

/// The newest sign of progress of one call.
#[derive(Debug, Default)]
struct Watched {
    newest: Mutex<Progress>,
    changed: Notify,
}

impl Watched {
    async fn next(&self) -> Progress {
        self.changed.notified().await;
        lock(&self.newest).clone()
    }
}
