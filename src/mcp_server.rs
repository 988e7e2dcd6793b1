//! The MCP server, on two pipes or at an address: programs have sessions work for them by its tools.

use std::{
    io,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use rmcp::{
    RoleServer, ServerHandler, ServiceExt,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
        InitializeResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ServerCapabilities,
    },
    service::RequestContext,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    id::SessionId,
    model_ref::ModelRef,
    session::{ArchiveFilter, Session},
};

mod elicitation;
mod talks;
mod tools;

use self::{
    talks::{Rejected, Talks},
    tools::{Answer, Listing, Named, NewPrompt, Start, Wanted},
};
use windlass_base::path::absolute;
use windlass_engine::{Engine, EngineError, NewSession, PromptInput, PromptPart, Workspace};

/// Sessions of a list unless another number is wanted, and at most.
const LISTED: usize = 20;
const MAX_LISTED: usize = 200;
/// Time after which a client at an address that says nothing is taken to be gone; a turn may take long.
const LONGEST_SILENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of a message at an address.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Time for the last answers to be written.
const LAST_WORDS: Duration = Duration::from_millis(300);

const INSTRUCTIONS: &str = "A coding agent that works in a directory: it reads and edits files, runs commands and \
    answers. `start_session` gives it a task and waits for the result; `prompt_session` goes on with the same \
    conversation. When the state is `waiting`, the agent has asked something: answer each of `questions` by \
    `answer_question`, and the work goes on. `read_session` waits for a session that still runs.";

/// Serves one client until it closes the input or `stop` is cancelled, and ends the engine: a client that has closed
/// the input waits for nothing more. `directory` is that of sessions which name none.
pub async fn serve(
    engine: Engine,
    directory: PathBuf,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stop: CancellationToken,
) -> Result<(), String> {
    let talks = Arc::new(Talks::new(&engine));
    let ended = CancellationToken::new();
    let input = Watched { input, ended: ended.clone() };
    let server = Server { engine: engine.clone(), directory, talks };
    let served = tokio::select! {
        biased;
        () = stop.cancelled() => Ok(()),
        served = server.serve((input, output)) => match served {
            Err(error) => Err(error.to_string()),
            Ok(running) => {
                let waiting = running.waiting();
                tokio::pin!(waiting);
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = ended.cancelled() => {
                        // Calls that wait for a turn end with it, and are answered.
                        engine.abort().await;
                        let _ = tokio::time::timeout(LAST_WORDS, waiting).await;
                    }
                    _ = &mut waiting => {}
                }
                Ok(())
            }
        },
    };
    engine.abort().await;
    served
}

/// The server at an address, whose clients share their sessions.
pub type AtAddress = StreamableHttpService<Server, LocalSessionManager>;

/// Serves clients by HTTP until `stop` is cancelled. The caller decides about access; the sessions of a client that is gone
/// are given free after [`LONGEST_SILENCE`].
pub fn at_address(engine: Engine, directory: PathBuf, stop: CancellationToken) -> AtAddress {
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(LONGEST_SILENCE);
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(MAX_MESSAGE)
        .with_cancellation_token(stop);
    // Clients of 2026-07-28 have no session of their own: each request may be another handler's.
    let talks = Arc::new(Talks::new(&engine));
    let server =
        move || Ok(Server { engine: engine.clone(), directory: directory.clone(), talks: talks.clone() });
    StreamableHttpService::new(server, Arc::new(sessions), config)
}

/// An input that says when it has ended.
struct Watched<R> {
    input: R,
    ended: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n_before = buffer.filled().len();
        let read = std::task::ready!(Pin::new(&mut self.input).poll_read(context, buffer));
        if read.is_err() || buffer.filled().len() == n_before {
            self.ended.cancel();
        }
        Poll::Ready(read)
    }
}

/// The handler of one client.
pub struct Server {
    engine: Engine,
    directory: PathBuf,
    talks: Arc<Talks>,
}

/// Result of a tool: an object, or a sentence about the failure.
type Told = Result<Value, String>;

impl ServerHandler for Server {
    fn get_info(&self) -> InitializeResult {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        InitializeResult::new(capabilities)
            .with_server_info(Implementation::new("windlass", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(params.arguments.unwrap_or_default());
        let wanted = Wanted::read(&params.name, arguments);
        let wanted = wanted.and_then(Wanted::checked);
        let wanted = wanted.map_err(|reason| ErrorData::invalid_params(reason, None))?;
        let result = match self.run(wanted, &context).await {
            Ok(value) => {
                let mut result = CallToolResult::structured(value);
                let is_failure = |value: &Value| value.get("state").is_some_and(|it| it == "failed");
                if result.structured_content.as_ref().is_some_and(is_failure) {
                    result.is_error = Some(true);
                }
                result
            }
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        };
        Ok(result.into())
    }
}

impl Server {
    async fn run(&self, wanted: Wanted, context: &RequestContext<RoleServer>) -> Told {
        match wanted {
            Wanted::Start(start) => self.start(start, context).await,
            Wanted::Prompt(prompt) => {
                let (id, workspace) = self.opened(&prompt.session_id).await?;
                self.prompt(&id, &workspace, prompt, context).await
            }
            Wanted::Read(Named { session_id, wait_seconds }) => {
                let (id, _) = self.opened(&session_id).await?;
                self.wait(&id, wait_seconds, false, context).await
            }
            Wanted::Answer(answer) => self.answer(answer, context).await,
            Wanted::Cancel(Named { session_id, wait_seconds }) => {
                let id = self.known(&session_id)?;
                self.engine.sessions().cancel(&id);
                self.wait(&id, wait_seconds, false, context).await
            }
            Wanted::List(listing) => self.list(listing).await,
        }
    }

    async fn start(&self, start: Start, context: &RequestContext<RoleServer>) -> Told {
        let Start { prompt, directory, agent, model, title, wait_seconds } = start;
        let directory = directory.map_or_else(|| self.directory.clone(), |it| absolute(&self.directory, it));
        if !directory.is_dir() {
            return Err(format!("There is no directory {}.", directory.display()));
        }
        let workspace = self.engine.workspaces().workspace(&directory).await.map_err(sentence)?;
        // A missing agent or model is named before a session is made.
        checked(&workspace, agent.as_deref(), model.as_deref())?;
        let new = NewSession { directory, title, ..NewSession::default() };
        let opened = self.engine.sessions().create_in(workspace.clone(), new).await.map_err(sentence)?;
        let id = opened.info.id;
        self.engine.workspaces().watch(&workspace);
        self.talks.hold(&id, workspace.clone());
        let session_id = id.to_string();
        let prompt = NewPrompt { session_id, prompt, agent, model, wait_seconds };
        let mut told = self.prompt(&id, &workspace, prompt, context).await?;
        let warnings = &workspace.loaded().warnings;
        if !warnings.is_empty() {
            told["warnings"] = warnings.iter().map(ToString::to_string).collect();
        }
        Ok(told)
    }

    async fn prompt(
        &self,
        id: &SessionId,
        workspace: &Workspace,
        prompt: NewPrompt,
        context: &RequestContext<RoleServer>,
    ) -> Told {
        let model = checked(workspace, prompt.agent.as_deref(), prompt.model.as_deref())?;
        let mut parts = workspace.loaded().mentions(&prompt.prompt);
        parts.insert(0, PromptPart::Text { text: prompt.prompt, is_synthetic: false, is_ignored: false });
        let input =
            PromptInput { parts, agent: prompt.agent, model, is_only: true, ..PromptInput::default() };
        self.talks.prompt(&self.engine, id, input);
        self.wait(id, prompt.wait_seconds, true, context).await
    }

    async fn answer(&self, answer: Answer, context: &RequestContext<RoleServer>) -> Told {
        let Answer { session_id, question_id, answer, feedback, wait_seconds } = answer;
        let id = self.known(&session_id)?;
        self.talks.answer(&self.engine, &id, &question_id, answer, feedback).map_err(|rejected| {
            match rejected {
                Rejected::Unknown(waiting) if waiting.is_empty() => {
                    format!("{session_id} waits for no answer.")
                }
                Rejected::Unknown(waiting) => {
                    format!("No question {question_id} waits; there are {}.", waiting.join(", "))
                }
                Rejected::NotOffered(reason) => reason,
            }
        })?;
        self.wait(&id, wait_seconds, true, context).await
    }

    async fn list(&self, listing: Listing) -> Told {
        let directory = listing.directory.map(|it| absolute(&self.directory, it).display().to_string());
        let limit = listing.limit.unwrap_or(LISTED).clamp(1, MAX_LISTED);
        let sessions = self.engine.sessions().list(directory, ArchiveFilter::Exclude, None, limit).await;
        let row = |session: Session| {
            let state = self.talks.state(&self.engine, &session.id);
            json!({
                "session_id": session.id, "title": session.title, "directory": session.directory,
                "updated": session.time.updated, "state": state,
            })
        };
        Ok(json!({ "sessions": sessions.map_err(sentence)?.into_iter().map(row).collect::<Vec<_>>() }))
    }

    /// Waits until the session rests or asks something, and returns how it is then. A call that is cancelled takes its
    /// turn with it if `is_own`.
    async fn wait(
        &self,
        id: &SessionId,
        wait_seconds: Option<f64>,
        is_own: bool,
        context: &RequestContext<RoleServer>,
    ) -> Told {
        let progress = async {
            let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
            let mut n_steps = 0_u32;
            let mut doings = self.talks.doings(id);
            while let Some(doing) = doings.next().await {
                n_steps += 1;
                let params = ProgressNotificationParam::new(token.clone(), f64::from(n_steps));
                if context.peer.notify_progress(params.with_message(doing)).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let waited = async {
            loop {
                self.talks.settled(&self.engine, id, wait_seconds).await;
                if !self.is_answered(id, context).await {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = context.ct.cancelled() => {
                if is_own {
                    self.engine.sessions().cancel(id);
                }
                Err("The call was cancelled.".to_owned())
            }
            () = waited => self.told(id).await,
            () = progress => self.told(id).await,
        }
    }

    /// Has the person at a client that shows forms answer a session's first question; false if there is no answer.
    async fn is_answered(&self, id: &SessionId, context: &RequestContext<RoleServer>) -> bool {
        let question = self.talks.question(&self.engine, id);
        let Some(question) = question.filter(|_| elicitation::is_shown(&context.peer)) else { return false };
        let Some(answer) = elicitation::ask(&context.peer, &question).await else { return false };
        let question_id = question["id"].as_str().unwrap_or_default();
        self.talks.answer(&self.engine, id, question_id, answer, None).is_ok()
    }

    async fn told(&self, id: &SessionId) -> Told {
        let mut told = Map::new();
        told.insert("session_id".to_owned(), json!(id));
        told.extend(self.talks.told(&self.engine, id).await.map_err(sentence)?);
        Ok(Value::Object(told))
    }

    /// Returns the id of a session that was started or read here.
    fn known(&self, text: &str) -> Result<SessionId, String> {
        let id = SessionId::parse(text).map_err(|reason| reason.to_string())?;
        match self.talks.workspace(&id) {
            Some(_) => Ok(id),
            None => Err(format!("{text} is not open here; `read_session` opens it.")),
        }
    }

    /// Opens a stored session unless it is open here.
    async fn opened(&self, text: &str) -> Result<(SessionId, Arc<Workspace>), String> {
        let id = SessionId::parse(text).map_err(|reason| reason.to_string())?;
        if let Some(workspace) = self.talks.workspace(&id) {
            return Ok((id, workspace));
        }
        let info = self.engine.sessions().get(&id).await.map_err(sentence)?;
        let directory = PathBuf::from(&info.directory);
        let opened = self.engine.sessions().open(&id, &directory, Vec::new()).await.map_err(sentence)?;
        self.engine.workspaces().watch(&opened.workspace);
        self.talks.hold(&id, opened.workspace.clone());
        Ok((id, opened.workspace))
    }
}

/// Reads the names of an agent and a model; the error lists those there are.
fn checked(
    workspace: &Workspace,
    agent: Option<&str>,
    model: Option<&str>,
) -> Result<Option<ModelRef>, String> {
    let loaded = workspace.loaded();
    if let Some(name) = agent
        && loaded.agent(name).is_none()
    {
        let names: Vec<&str> = loaded.agents.iter().map(|agent| agent.name.as_str()).collect();
        return Err(format!("There is no agent {name}; there are {}.", names.join(", ")));
    }
    let Some(text) = model else { return Ok(None) };
    let reference = ModelRef::parse(text);
    let reference = reference.ok_or_else(|| format!("`{text}` is no model: write `provider/model`."))?;
    loaded.checked_model(&reference).map_err(|unusable| unusable.to_string())?;
    Ok(Some(reference))
}

fn sentence(error: EngineError) -> String {
    error.message
}
