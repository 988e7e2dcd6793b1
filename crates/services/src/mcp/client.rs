//! Our end of one connection: answers the server's requests and sends ours.
#![expect(
    deprecated,
    reason = "the newest revision deprecates roots and logging; the servers of today use them"
)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
        CreateMessageRequestParams, CreateMessageResult, CustomNotification, CustomRequest, CustomResult,
        ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorCode, FormElicitationCapability,
        Implementation, JsonObject, ListRootsResult, LoggingMessageNotificationParam,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, Root, RootsCapabilities,
        SamplingCapability, ServerResult, UrlElicitationCapability,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RequestHandle},
};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use windlass_base::{stderr::MAX_LOG_BYTES, text};

use super::{
    CallError, CallOutput, McpTool, asking, cause,
    loss::{self, Loss},
    output,
    watched::{Watched, WatchedCalls},
    wishes::Caller,
};

/// Time for which a call may go on by reporting progress, unless its time limit is longer.
const LONGEST_CALL: Duration = Duration::from_secs(60 * 60);

/// Bytes of a server's instructions that a model is given.
const MAX_INSTRUCTIONS: usize = 8 << 10;

/// The notice of a page that is done with.
const COMPLETED: &str = "notifications/elicitation/complete";

/// Requests of a server that wait to be passed on for one call.
const MAX_WISHES: usize = 8;
/// Pages that an error names.
const MAX_PAGES_SHOWN: usize = 3;

/// The handler of the server's requests.
#[derive(Debug)]
pub(super) struct Client {
    server: String,
    roots: watch::Receiver<Vec<PathBuf>>,
    /// False for a server without state, which has no way to ask.
    is_asked: bool,
    watched: Arc<WatchedCalls>,
    loss: Loss,
    tools_changed: Arc<Notify>,
    prompts_changed: Arc<Notify>,
}

impl Client {
    /// Makes a client that names these directories as roots, and tells of changed lists.
    pub(super) fn new(
        server: &str,
        roots: watch::Receiver<Vec<PathBuf>>,
        is_asked: bool,
        tools_changed: Arc<Notify>,
        prompts_changed: Arc<Notify>,
    ) -> Self {
        let server = server.to_owned();
        let (watched, loss) = (Arc::default(), Loss::default());
        Self { server, roots, is_asked, watched, loss, tools_changed, prompts_changed }
    }

    /// Returns the connection to make calls with once the handshake is done.
    pub(super) fn connection(&self, peer: Peer<RoleClient>) -> Connection {
        Connection { peer, watched: self.watched.clone(), loss: self.loss.clone() }
    }
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.is_asked {
            let mut roots = RootsCapabilities::default();
            roots.list_changed = Some(true);
            capabilities.roots = Some(roots);
            capabilities.sampling = Some(SamplingCapability::default());
            let (form, url) = (FormElicitationCapability::new(), UrlElicitationCapability::new());
            capabilities.elicitation = Some(ElicitationCapability::new().with_form(form).with_url(url));
        }
        let implementation = Implementation::new("windlass", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(capabilities, implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let roots = self.roots.borrow().clone();
        let url = |directory: &PathBuf| Some(Root::new(reqwest::Url::from_file_path(directory).ok()?));
        Ok(ListRootsResult::new(roots.iter().filter_map(url).collect()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        asking::elicit(&self.watched, params, &context.ct).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        asking::sample(&self.watched, params, &context.ct).await
    }

    /// Refuses a request that is of no type: one that we know has parameters that do not fit.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let known = ["sampling/createMessage", "elicitation/create", "roots/list", "ping"];
        if self.is_asked && known.contains(&request.method.as_str()) {
            let message = format!("the parameters of {} do not fit", request.method);
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.watched.progressed(progress);
    }

    // The library knows no notice of a page that is done with.
    async fn on_custom_notification(&self, notice: CustomNotification, _: NotificationContext<RoleClient>) {
        let id = notice.params.as_ref().and_then(|params| params.get("elicitationId")?.as_str());
        if let (COMPLETED, Some(id)) = (notice.method.as_str(), id) {
            self.watched.page_completed(id);
        }
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
    loss: Loss,
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
        caller: &dyn Caller,
    ) -> Result<CallOutput, CallError> {
        let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.watched_request(request, timeout, cancel, Some(caller)).await? {
            Ok(result) => output::read(result),
            Err(error) => Err(failed(&tool.server, &tool.name, &error)),
        }
    }

    /// Returns the server's words for the model on how it is used, as long as they may be; `None` where it has none.
    pub(super) fn instructions(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let words = info.instructions.as_deref().map(str::trim).filter(|words| !words.is_empty())?;
        let head = text::head(words, MAX_INSTRUCTIONS);
        let is_cut = head.len() < words.len();
        Some(if is_cut { format!("{head}...") } else { head.to_owned() })
    }

    /// Says that the roots are others, to a server that reads.
    pub(super) async fn tell_roots(&self) {
        // A connection that has ended has no use for it.
        let _ = self.peer.notify_roots_list_changed().await;
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
        self.watched_request(request, timeout, cancel, None).await
    }

    /// Waits until its requests show that the server is lost; true if that wants a login.
    pub(super) async fn lost(&self) -> bool {
        self.loss.seen().await
    }

    async fn watched_request(
        &self,
        request: ClientRequest,
        timeout: Duration,
        cancel: &CancellationToken,
        caller: Option<&dyn Caller>,
    ) -> Result<Result<ServerResult, ServiceError>, CallError> {
        let response = self.response(request, timeout, cancel, caller).await?;
        Ok(response.inspect_err(|error| self.loss.note(error)))
    }

    async fn response(
        &self,
        request: ClientRequest,
        timeout: Duration,
        cancel: &CancellationToken,
        caller: Option<&dyn Caller>,
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
        let (wishes, mut coming) = mpsc::channel(MAX_WISHES);
        let progressed = Arc::new(Watched::new(caller.map(|caller| (caller.session().to_owned(), wishes))));
        let mut call = Call::new(handle, &self.watched, &progressed);
        let mut answers = FuturesUnordered::new();
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
                    if let Some(caller) = caller {
                        caller.progressed(&progress);
                    }
                }
                Some(wish) = coming.recv(), if answers.len() < MAX_WISHES => {
                    if let Some(caller) = caller {
                        answers.push(wish.answer(caller));
                    }
                }
                Some(()) = answers.next() => deadline.as_mut().reset(last.min(Instant::now() + timeout)),
                // The server waits for the user or the model as long as they take, with all that it works on.
                () = &mut deadline, if answers.is_empty() => {
                    if deadline.deadline() < last && self.watched.is_asking() {
                        deadline.as_mut().reset(last.min(Instant::now() + timeout));
                        continue;
                    }
                    call.reason = "request timed out";
                    let is_last = deadline.deadline() >= last;
                    return Err(CallError::TimedOut(if is_last { LONGEST_CALL.max(timeout) } else { timeout }));
                }
            }
        }
    }
}

/// Makes the error for a server that failed at the named operation.
pub(super) fn failed(server: &str, what: &str, error: &ServiceError) -> CallError {
    CallError::Failed(match error {
        ServiceError::McpError(error) => with_pages(error),
        ServiceError::TransportClosed => {
            format!("MCP server {server} closed the connection before {what} was done")
        }
        error if loss::wants_scope(error) => {
            format!(
                "MCP server {server} needs a login that allows more for {what}: the user has to run \
                 `windlass mcp auth {server}`"
            )
        }
        // The enum is non-exhaustive.
        error if loss::wants_login(error) => {
            format!(
                "MCP server {server} wants a login again: the user has to run `windlass mcp auth {server}`"
            )
        }
        error => format!("MCP server {server} could not run {what}: {}", cause::of_request(error)),
    })
}

/// Returns a server's words, with the pages that the user has to open first (MCP, elicitation: `-32042`).
fn with_pages(error: &ErrorData) -> String {
    let asked = error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array());
    let pages = asked.into_iter().flatten().filter_map(|it| it.get("url")?.as_str());
    let pages: Vec<String> = pages.take(MAX_PAGES_SHOWN).map(str::to_owned).collect();
    match pages.is_empty() {
        true => error.message.to_string(),
        false => format!("{} The user has to open {}", error.message, pages.join(" and ")),
    }
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
        watched.insert(token.clone(), progressed.clone());
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
        self.watched.remove(&self.token);
        let Some(handle) = self.handle.take() else { return };
        // The first poll puts the notification into the connection's queue. Any further poll only waits until
        // it is written, which a server that no longer reads could prevent for ever.
        let _ = tokio::task::coop::unconstrained(handle.cancel(Some(self.reason.to_owned()))).now_or_never();
    }
}
