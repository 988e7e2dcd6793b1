//! Runs the tool calls of one step, all at once, and keeps their parts up to date.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::{MessageId, SessionId},
    message::{Message, Tokens},
    part::{Attachment, FileTag, PartKind, PartTime, ToolState, ToolTime},
    permission::{Rule, ToolRef},
    session::Todo,
};

use super::{
    Engine, EngineError,
    answer::Call,
    approvals::Approvals,
    asks::Asker,
    shown::ShownInstructions,
    state::{Journal, NotedFiles, SessionState},
    subtask,
    turn::TurnCx,
};
use crate::{
    base::{clock, ids, lock::lock},
    mcp,
    permission::{self, Ask},
    provider::ToolSpec,
    tool::{self, FileStamp, Host, Subtask, Tool, ToolCx, ToolError, ToolOutput},
};

/// How long tools may take to end by themselves after a cancel; then they are dropped.
const SETTLE: Duration = Duration::from_millis(250);
/// The same where subagents may be among them, which let their own tools settle first.
const SETTLE_WITH_SUBAGENTS: Duration = Duration::from_millis(600);
/// As many calls with the same input in a row are asked about before the last one runs.
const DOOM_LOOP: usize = 3;
/// The id that unknown and malformed calls are sent to.
const INVALID: &str = "invalid";

/// Permissions that are no tool's name.
const RESERVED: [&str; 4] = ["doom_loop", "external_directory", "plan_enter", "plan_exit"];

/// How the tool calls of a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsEnd {
    /// There were none.
    None,
    Ran,
    /// The user refused one without a word for the model.
    Rejected,
    Interrupted,
}

/// The tools an agent may use in a step.
pub struct Toolbox {
    tools: BTreeMap<String, Entry>,
    rules: Vec<Rule>,
    /// The subagents the `task` tool may start, as the model reads of them.
    subagents: String,
}

#[derive(Clone)]
enum Entry {
    Builtin(&'static Tool),
    Mcp { tool: Arc<mcp::McpTool>, is_clients: bool },
}

impl Toolbox {
    /// Built-in tools and those of connected MCP servers, without what a rule hides.
    pub fn new(cx: &TurnCx<'_>, state: &SessionState) -> Self {
        let mut rules = cx.agent.permission.clone();
        rules.extend(state.info.permission.iter().flatten().cloned());
        let mut tools = BTreeMap::new();
        for tool in tool::BUILTIN.iter().filter(|it| tool::is_offered(it.name, &cx.model.api_id)) {
            tools.insert(tool.name.to_owned(), Entry::Builtin(tool));
        }
        tools.retain(|name, _| tool::web::is_available(name, &cx.loaded.config, &cx.model.provider_id));
        // A server must not take the name of a tool or permission of ours: rules would mean the wrong one.
        let is_free = |tool: &Arc<mcp::McpTool>| {
            tool::find(&tool.key).is_none() && !RESERVED.contains(&tool.key.as_str())
        };
        for tool in cx.session.workspace.mcp().tools().into_iter().filter(is_free) {
            tools.insert(tool.key.clone(), Entry::Mcp { tool, is_clients: false });
        }
        for tool in cx.session.mcp.iter().flat_map(|servers| servers.tools()).filter(is_free) {
            tools.insert(tool.key.clone(), Entry::Mcp { tool, is_clients: true });
        }
        tools.retain(|name, _| {
            let permission = tool::permission_name(name);
            let is_hidden =
                permission::is_tool_hidden(permission, &rules) || cx.session.limits.hides(permission);
            name == INVALID || !is_hidden
        });
        let subagents = subtask::offered(&cx.loaded, &rules);
        if subagents.is_empty() {
            tools.remove("task");
        }
        Self { tools, rules, subagents }
    }

    /// What the model is told of the tools, sorted by name so that the provider's cache holds.
    pub fn specs(&self) -> Vec<ToolSpec<'_>> {
        let visible = self.tools.iter().filter(|(name, _)| *name != INVALID);
        visible
            .map(|(name, entry)| match entry {
                Entry::Builtin(tool) => ToolSpec {
                    name: Cow::Borrowed(name),
                    description: match name.as_str() {
                        "task" => Cow::Owned(format!("{}\n{}", tool.text, self.subagents)),
                        _ => Cow::Borrowed(tool.text),
                    },
                    schema: Cow::Owned((tool.schema)()),
                },
                Entry::Mcp { tool, .. } => ToolSpec {
                    name: Cow::Borrowed(name),
                    description: Cow::Borrowed(&tool.description),
                    schema: Cow::Borrowed(&tool.schema),
                },
            })
            .collect()
    }

    /// The tool of that name, also when the name is written in another case.
    fn meant(&self, name: &str) -> Option<(String, Entry)> {
        let same = |known: &&String| known.eq_ignore_ascii_case(name);
        let known = self.tools.get_key_value(name).map(|(known, _)| known);
        let known = known.or_else(|| self.tools.keys().find(same))?;
        Some((known.clone(), self.tools.get(known)?.clone()))
    }

    /// The tool a call means and its input; a call that means none goes to `invalid`.
    fn route(&self, call: &Call) -> (String, Entry, Value) {
        let Some((name, entry)) = self.meant(&call.tool) else {
            let available: Vec<&str> =
                self.tools.keys().map(String::as_str).filter(|name| *name != INVALID).collect();
            let error = format!(
                "Model tried to call unavailable tool '{}'. Available tools: {}.",
                call.tool,
                available.join(", ")
            );
            return invalid(call, &error);
        };
        let raw = if call.raw.trim().is_empty() { "{}" } else { &call.raw };
        let parsed = match serde_json::from_str::<Value>(raw) {
            // Some models write the object as a text.
            Ok(Value::String(text)) => serde_json::from_str(&text),
            parsed => parsed,
        };
        match parsed {
            Ok(input @ Value::Object(_)) => (name, entry, input),
            Ok(_) => invalid(call, &format!("the arguments of '{name}' must be a JSON object")),
            Err(error) => invalid(call, &format!("the arguments of '{name}' are not valid JSON: {error}")),
        }
    }
}

fn invalid(call: &Call, error: &str) -> (String, Entry, Value) {
    let entry = tool::find(INVALID).map(Entry::Builtin);
    // The table always holds `invalid`; a test checks it.
    let entry = entry.unwrap_or(Entry::Builtin(&tool::BUILTIN[0]));
    (INVALID.to_owned(), entry, json!({ "tool": call.tool, "error": error }))
}

/// What running tools report between two looks of the step's task.
#[derive(Default)]
struct Reports {
    changes: Mutex<Changes>,
    /// The newest list, also while it waits to be stored.
    todos: Mutex<Vec<Todo>>,
    arrived: Notify,
}

#[derive(Default)]
struct Changes {
    /// Newest title and metadata of each call, by part index.
    progress: BTreeMap<usize, (Option<String>, Map<String, Value>)>,
    todos: Option<Vec<Todo>>,
    /// What subagents used, in US dollars and tokens.
    cost: f64,
    tokens: Tokens,
}

/// A call's way up to the engine.
struct CallHost {
    engine: Engine,
    reports: Arc<Reports>,
    part: usize,
    session_id: SessionId,
    message_id: MessageId,
    call_id: String,
    rules: Arc<[Rule]>,
    approvals: Approvals,
    parent: Arc<subtask::Parent>,
    noted_files: NotedFiles,
    shown: ShownInstructions,
}

impl Host for CallHost {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(self.asked(ask, false))
    }

    fn ask_any(&self, ask: Ask) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(self.asked(ask, true))
    }

    fn rules(&self) -> (Vec<Rule>, Vec<Rule>) {
        (self.rules.to_vec(), self.approvals.rules())
    }

    fn progress(&self, title: Option<String>, metadata: Map<String, Value>) {
        self.report(|changes| {
            let entry = changes.progress.entry(self.part).or_default();
            entry.0 = title.or(entry.0.take());
            entry.1 = metadata;
        });
    }

    fn set_todos(&self, todos: Vec<Todo>) -> BoxFuture<'_, Result<(), ToolError>> {
        lock(&self.reports.todos).clone_from(&todos);
        self.report(|changes| changes.todos = Some(todos));
        Box::pin(std::future::ready(Ok(())))
    }

    fn subtask(&self, request: Subtask) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let ended = subtask::run(&self.parent, request, |metadata| self.progress(None, metadata)).await?;
            self.report(|changes| {
                changes.cost += ended.cost;
                changes.tokens.add(&ended.tokens);
            });
            ended.result
        })
    }

    fn todos(&self) -> Vec<Todo> {
        lock(&self.reports.todos).clone()
    }

    fn noted(&self, path: &Path) -> Option<FileStamp> {
        self.noted_files.get(path)
    }

    fn note(&self, path: &Path, stamp: FileStamp) {
        self.noted_files.insert(path, stamp);
    }

    fn claim_instructions(&self, path: &Path) -> bool {
        self.shown.claim(path)
    }

    fn edited(&self, path: &Path) {
        self.engine.bus().publish(EventPayload::FileEdited { file: path.display().to_string() });
    }
}

impl CallHost {
    /// An answer that comes with or after a cancel allows nothing.
    async fn asked(&self, ask: Ask, is_any: bool) -> Result<(), ToolError> {
        if let Some(refusal) = self.parent.limits.refusal(&ask) {
            return Err(ToolError::Model(refusal));
        }
        let asker = Asker {
            session_id: &self.session_id,
            tool: ToolRef { message_id: self.message_id.clone(), call_id: self.call_id.clone() },
            rules: &self.rules,
            approvals: &self.approvals,
            cancel: &self.parent.cancel,
        };
        tokio::select! {
            biased;
            () = self.parent.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
            result = self.engine.asks().ask(asker, ask, is_any) => result,
        }
    }

    fn report(&self, note: impl FnOnce(&mut Changes)) {
        note(&mut lock(&self.reports.changes));
        self.reports.arrived.notify_one();
    }
}

/// Runs the calls of one step and stores what they answer.
pub async fn run(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    toolbox: &Toolbox,
    calls: Vec<Call>,
) -> Result<CallsEnd, EngineError> {
    if calls.is_empty() {
        return Ok(CallsEnd::None);
    }
    let reports = Arc::new(Reports { todos: Mutex::new(state.todos.clone()), ..Reports::default() });
    let mut running = start(cx, state, toolbox, calls, &reports).await?;
    let mut is_rejected = false;
    loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => break,
            next = running.next() => {
                let Some((part, result)) = next else { break };
                is_rejected |= matches!(&result, Err(ToolError::Denied { feedback: None }));
                finish(cx, state, &reports, part, result).await?;
            }
            () = reports.arrived.notified() => show(cx, state, &reports).await?,
        }
        // What tools print waits for a client that does not read; their pipes fill, and they wait too.
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {}
            () = cx.session.engine.bus().room() => {}
        }
    }
    if !cx.cancel.is_cancelled() {
        let experimental = cx.loaded.config.raw.get("experimental");
        let goes_on = experimental.and_then(|it| it.get("continue_loop_on_deny")) == Some(&Value::Bool(true));
        return Ok(if is_rejected && !goes_on { CallsEnd::Rejected } else { CallsEnd::Ran });
    }
    let limit = if state.info.parent_id.is_some() { SETTLE } else { SETTLE_WITH_SUBAGENTS };
    let settled = async {
        while let Some((part, result)) = running.next().await {
            finish(cx, state, &reports, part, result).await?;
        }
        Ok::<(), EngineError>(())
    };
    match tokio::time::timeout(limit, settled).await {
        Ok(result) => result?,
        // Dropping the futures kills what they started.
        Err(_) => drop(running),
    }
    Ok(CallsEnd::Interrupted)
}

type Running = FuturesUnordered<BoxFuture<'static, (usize, Result<ToolOutput, ToolError>)>>;

async fn start(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    toolbox: &Toolbox,
    calls: Vec<Call>,
    reports: &Arc<Reports>,
) -> Result<Running, EngineError> {
    let running = Running::new();
    let rules: Arc<[Rule]> = toolbox.rules.clone().into();
    let parent = Arc::new(subtask::Parent {
        engine: cx.session.engine.clone(),
        info: state.info.clone(),
        rules: rules.clone(),
        limits: cx.session.limits.clone(),
        model: cx.model.reference(),
        loaded: cx.loaded.clone(),
        workspace: cx.session.workspace.clone(),
        mcp: cx.session.mcp.clone(),
        cancel: cx.cancel.clone(),
    });
    let shown = ShownInstructions::new(&cx.instructions, &state.history);
    let mut journal = Journal::default();
    let message_id = state.answer_mut().map(|answer| answer.id.clone());
    let Some(message_id) = message_id else { return Ok(running) };
    for call in calls {
        let (name, entry, input) = toolbox.route(&call);
        if let Some(part) = state.part_mut(call.part) {
            if let PartKind::Tool(tool) = &mut part.kind {
                tool.tool = name.clone();
                tool.state = ToolState::Running {
                    input: input.clone(),
                    title: None,
                    metadata: None,
                    time: PartTime { start: clock::now_ms(), end: None },
                };
            }
            journal.part(part);
        }
        let repeated = is_repeated(state, call.part).then(|| doom_loop(&name, &input));
        let host = CallHost {
            engine: cx.session.engine.clone(),
            reports: reports.clone(),
            part: call.part,
            session_id: cx.session.id.clone(),
            message_id: message_id.clone(),
            call_id: call.call_id.clone(),
            rules: rules.clone(),
            approvals: cx.session.workspace.approvals.clone(),
            parent: parent.clone(),
            noted_files: state.noted_files.clone(),
            shown: shown.clone(),
        };
        let job = Job {
            loaded: cx.loaded.clone(),
            servers: match &entry {
                Entry::Mcp { is_clients: true, .. } => cx.session.mcp.clone(),
                Entry::Mcp { is_clients: false, .. } | Entry::Builtin(_) => None,
            },
            workspace: cx.session.workspace.clone(),
            entry,
            agent: cx.agent.name.clone(),
            cancel: cx.cancel.clone(),
            host,
        };
        let part = call.part;
        running.push(Box::pin(async move {
            if let Some(ask) = repeated
                && let Err(refused) = job.host.ask(ask).await
            {
                return (part, Err(refused));
            }
            let result = AssertUnwindSafe(job.run(input)).catch_unwind().await;
            let result = result.unwrap_or_else(|_| {
                Err(ToolError::Internal(format!("The tool {name} failed by a fault in windlass.")))
            });
            (part, result)
        }));
    }
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await?;
    Ok(running)
}

/// Whether the newest message's part at this index is a tool call that the two calls before it in the turn were too.
fn is_repeated(state: &SessionState, part: usize) -> bool {
    let answers = state.history.iter().rev().take_while(|it| matches!(it.info, Message::Assistant(_)));
    let parts = answers.enumerate().flat_map(|(n_later, message)| {
        let n_parts = if n_later == 0 { part + 1 } else { message.parts.len() };
        message.parts.iter().take(n_parts).rev()
    });
    let calls = parts.filter_map(|part| match &part.kind {
        PartKind::Tool(tool) => Some((&tool.tool, tool.state.input())),
        _other => None,
    });
    let last: Vec<(&String, &Value)> = calls.take(DOOM_LOOP).collect();
    last.len() == DOOM_LOOP && last.windows(2).all(|pair| pair[0] == pair[1])
}

fn doom_loop(tool: &str, input: &Value) -> Ask {
    let mut metadata = Map::new();
    metadata.insert("tool".to_owned(), tool.into());
    metadata.insert("input".to_owned(), input.clone());
    let patterns = vec![tool.to_owned()];
    Ask { permission: "doom_loop".to_owned(), always: patterns.clone(), patterns, metadata }
}

/// One call with all it needs, so that it can run beside the others.
struct Job {
    loaded: Arc<super::workspace::Loaded>,
    workspace: Arc<super::workspace::Workspace>,
    /// The client's servers, when the tool is one of theirs.
    servers: Option<Arc<mcp::Servers>>,
    entry: Entry,
    agent: String,
    cancel: CancellationToken,
    host: CallHost,
}

impl Job {
    async fn run(self, input: Value) -> Result<ToolOutput, ToolError> {
        let cx = ToolCx {
            session_id: &self.host.session_id,
            message_id: &self.host.message_id,
            call_id: &self.host.call_id,
            agent: &self.agent,
            config: &self.loaded.config,
            cancel: &self.cancel,
            host: &self.host,
        };
        match &self.entry {
            Entry::Builtin(tool) => tool::execute(tool, &cx, input).await,
            Entry::Mcp { tool, .. } => {
                let servers = self.servers.as_deref().unwrap_or_else(|| self.workspace.mcp());
                tool::mcp::run(&cx, servers, tool, input).await
            }
        }
    }
}

/// Shows what running tools reported.
async fn show(cx: &TurnCx<'_>, state: &mut SessionState, reports: &Reports) -> Result<(), EngineError> {
    let changes = std::mem::take(&mut *lock(&reports.changes));
    let mut journal = Journal::default();
    if let Some(todos) = changes.todos {
        journal.todos(&state.info, &todos);
        state.todos = todos;
    }
    if changes.tokens != Tokens::default() {
        state.info.cost += changes.cost;
        state.info.tokens.add(&changes.tokens);
        journal.session(&state.info);
    }
    for (index, (new_title, new_metadata)) in changes.progress {
        let Some(part) = state.part_mut(index) else { continue };
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        let ToolState::Running { title, metadata, .. } = &mut tool.state else { continue };
        *title = new_title.or(title.take());
        *metadata = Some(new_metadata);
        journal.part(part);
    }
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await
}

/// Writes a call's result into its part.
async fn finish(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    reports: &Reports,
    index: usize,
    result: Result<ToolOutput, ToolError>,
) -> Result<(), EngineError> {
    show(cx, state, reports).await?;
    let mut journal = Journal::default();
    let Some(part) = state.part_mut(index) else { return Ok(()) };
    let (session_id, message_id) = (part.session_id.clone(), part.message_id.clone());
    let PartKind::Tool(tool) = &mut part.kind else { return Ok(()) };
    let now = clock::now_ms();
    let (start, running_metadata) = match &mut tool.state {
        ToolState::Running { time, metadata, .. } => (time.start, metadata.take()),
        ToolState::Pending { .. } | ToolState::Completed { .. } | ToolState::Error { .. } => (now, None),
    };
    let time = ToolTime { start, end: now, compacted: None };
    let input = tool.state.input().clone();
    tool.state = match result {
        Ok(output) => {
            let attachments = output.attachments.into_iter().map(|file| Attachment {
                id: ids::part(),
                session_id: session_id.clone(),
                message_id: message_id.clone(),
                kind: FileTag::File,
                file,
            });
            let attachments: Vec<Attachment> = attachments.collect();
            ToolState::Completed {
                input,
                output: output.output,
                title: output.title,
                metadata: output.metadata,
                time,
                attachments: (!attachments.is_empty()).then_some(attachments),
            }
        }
        Err(error) => {
            let mut metadata = running_metadata.unwrap_or_default();
            if matches!(error, ToolError::Cancelled { .. }) {
                metadata.insert("interrupted".to_owned(), true.into());
            }
            if let ToolError::Internal(reason) = &error {
                tracing::error!(tool = %tool.tool, %reason, "a tool failed");
            }
            let metadata = (!metadata.is_empty()).then_some(metadata);
            ToolState::Error { input, error: error.to_string(), metadata, time }
        }
    };
    journal.part(part);
    // Whole texts of edited files are for the user's eyes and the store; history in memory goes without.
    forget_texts(part);
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await
}

fn forget_texts(part: &mut windlass_protocol::opencode::part::Part) {
    let PartKind::Tool(tool) = &mut part.kind else { return };
    let ToolState::Completed { metadata, .. } = &mut tool.state else { return };
    let mut forget = |diff: &mut Value| {
        if let Value::Object(diff) = diff {
            diff.remove("before");
            diff.remove("after");
        }
    };
    metadata.get_mut("filediff").into_iter().for_each(&mut forget);
    metadata.get_mut("files").and_then(Value::as_array_mut).into_iter().flatten().for_each(&mut forget);
}
