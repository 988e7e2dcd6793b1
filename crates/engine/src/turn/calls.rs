//! Runs the tool calls of one step, all at once, and keeps their parts up to date.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, ids, lock::lock, log, money};
use windlass_core::{config::policy::Policy, permission::Ask};
use windlass_protocol::opencode::{
    id::MessageId,
    message::Message,
    part::{
        Attachment, FileTag, MAX_LIVE_CHARS, PRINTED, Part, PartKind, PartTime, ToolPart, ToolState, ToolTime,
    },
    tokens::Tokens,
    tool_metadata::{self, AskedRepeat, encode},
};
use windlass_services::{
    mcp,
    tool::{
        self, Host, NestedCall, ToolCx, ToolError, ToolOutput,
        row::{Run, Tool},
        truncate,
    },
};

use super::{
    answer::Call,
    call_host::{CallHost, Nested, Reports},
    hooks,
    loaded_instructions::LoadedInstructions,
    media, subtask,
    toolbox::{Route, Toolbox},
};
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        state::{Journal, SessionState, is_unanswered},
    },
    workspace::loaded::Loaded,
};

/// Time limit for tools to end by themselves after a cancel; then they are dropped.
const SETTLE: Duration = Duration::from_millis(250);
/// The same where subagents may be among them, which let their own tools settle first.
const SETTLE_WITH_SUBAGENTS: Duration = Duration::from_millis(600);
/// Number of equal calls in a row, before the last of which the user is asked.
const DOOM_LOOP: usize = 3;
/// In the metadata of a call that another made: the id of that one.
const MADE_BY: &str = "batch";

/// End of the tool calls of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallsEnd {
    /// There were none.
    None,
    Ran,
    /// The user refused one without a word for the model.
    Rejected,
    Interrupted,
}

/// Runs the calls of one step and stores their results.
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
    let Some(step) = StepCalls::new(cx, state, toolbox, reports.clone()) else { return Ok(CallsEnd::None) };
    let mut running = start(&step, state, calls).await?;
    let mut waiting = HashMap::new();
    let mut is_rejected = false;
    loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => break,
            next = running.next() => {
                let Some((part, result)) = next else { break };
                is_rejected |=
                    matches!(&result, Err(ToolError::Denied { feedback: None } | ToolError::Dismissed));
                let end = result.as_ref().map(|_| ()).map_err(Clone::clone);
                finish(cx, state, &reports, part, result).await?;
                notify_caller(&mut waiting, part, end);
            }
            () = reports.arrived.notified() => {
                show(cx, state, &reports).await?;
                start_nested(&step, state, &mut running, &mut waiting).await?;
            }
        }
        // Output of tools waits for a client that does not read; their pipes fill, and they wait too.
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => {}
            () = cx.session.engine.bus().room(&cx.session.id) => {}
        }
    }
    if !cx.cancel.is_cancelled() {
        let goes_on = cx.loaded.config.settings.experimental.continue_loop_on_deny == Some(true);
        return Ok(if is_rejected && !goes_on { CallsEnd::Rejected } else { CallsEnd::Ran });
    }
    let limit = if state.info.parent_id.is_some() { SETTLE } else { SETTLE_WITH_SUBAGENTS };
    let deadline = tokio::time::Instant::now() + limit;
    // The limit is one for the calls: the result of each that ends is stored and shown whole.
    while let Ok(Some((part, result))) = tokio::time::timeout_at(deadline, running.next()).await {
        finish(cx, state, &reports, part, result).await?;
    }
    // Dropping the futures kills the processes that they started.
    drop(running);
    Ok(CallsEnd::Interrupted)
}

type Running = FuturesUnordered<BoxFuture<'static, (usize, Result<ToolOutput, ToolError>)>>;

/// Tells the call that made another one how that ended.
fn notify_caller(waiting: &mut Waiting, part: usize, end: Result<(), ToolError>) {
    if let Some(maker) = waiting.remove(&part) {
        // It may have been cancelled in between.
        let _ = maker.send(end);
    }
}

/// Calls that wait for another one, by its part.
type Waiting = HashMap<usize, oneshot::Sender<Result<(), ToolError>>>;

/// Data that the calls of one step share.
struct StepCalls<'a> {
    cx: &'a TurnCx<'a>,
    toolbox: &'a Toolbox,
    reports: Arc<Reports>,
    policy: Policy,
    parent: Arc<subtask::Parent>,
    instructions: LoadedInstructions,
    message_id: MessageId,
}

impl<'a> StepCalls<'a> {
    /// Returns `None` without an answer that the calls could belong to.
    fn new(
        cx: &'a TurnCx<'a>,
        state: &mut SessionState,
        toolbox: &'a Toolbox,
        reports: Arc<Reports>,
    ) -> Option<Self> {
        let policy = toolbox.policy().clone();
        let parent = Arc::new(subtask::Parent {
            engine: cx.session.engine.clone(),
            info: state.info.clone(),
            policy: policy.clone(),
            agents: std::iter::once(&cx.agent.name).chain(&cx.parent_limits.agents).cloned().collect(),
            model: cx.model.reference(),
            task: toolbox.task.clone(),
            loaded: cx.loaded.clone(),
            workspace: cx.session.workspace.clone(),
            mcp: cx.session.mcp.clone(),
            warning_log: cx.session.warning_log.clone(),
            cancel: cx.cancel.clone(),
            plugins: cx.plugins.clone(),
            is_only: state.turn.given.is_only,
        });
        let instructions = LoadedInstructions::new(&cx.instructions, state.gathered().instructions);
        let message_id = state.answer_mut()?.id.clone();
        Some(Self { cx, toolbox, reports, policy, parent, instructions, message_id })
    }

    /// Returns the run of a call that has a part already.
    fn run(
        &self,
        state: &SessionState,
        part: usize,
        call_id: String,
        name: String,
        tool: Tool,
        input: Value,
    ) -> BoxFuture<'static, (usize, Result<ToolOutput, ToolError>)> {
        let cx = self.cx;
        let n_same = n_same(state, part);
        let host = CallHost {
            engine: cx.session.engine.clone(),
            reports: self.reports.clone(),
            part,
            session_id: cx.session.id.clone(),
            message_id: self.message_id.clone(),
            call_id,
            policy: self.policy.clone(),
            approvals: cx.session.approvals().with_grants(cx.session.engine.asking().granted(&cx.session.id)),
            parent: self.parent.clone(),
            known_files: state.known_files.clone(),
            late_errors: state.late_errors.clone(),
            instructions: self.instructions.clone(),
        };
        let is_plugins = matches!(tool.run, Run::Plugin(_));
        let plugins = cx.plugins.clone().map(|host| {
            let before: Vec<_> = state.history.iter().filter(|it| *it.info.id() != self.message_id).collect();
            let messages = is_plugins.then(|| serde_json::to_value(before).ok()).flatten();
            let (messages, model) = (messages.unwrap_or_default(), Value::Null);
            tool::plugin::Plugins { host, messages, model }
        });
        let job = Job {
            loaded: cx.loaded.clone(),
            servers: cx.servers(),
            tool,
            agent: cx.agent.name.clone(),
            cancel: cx.cancel.clone(),
            n_same,
            is_users: self.toolbox.is_users,
            plugins,
            host,
        };
        Box::pin(async move {
            let result = AssertUnwindSafe(job.run(input)).catch_unwind().await;
            let result = result.unwrap_or_else(|_| {
                Err(ToolError::Internal(format!(
                    "The tool {name} failed with an internal error of windlass; the log has the details."
                )))
            });
            (part, result)
        })
    }
}

async fn start(
    step: &StepCalls<'_>,
    state: &mut SessionState,
    calls: Vec<Call>,
) -> Result<Running, EngineError> {
    let running = Running::new();
    let mut journal = Journal::default();
    for call in calls {
        let (name, input, job) = match step.toolbox.route(&call) {
            Route::Run { name, tool, input } => (name, input, Ok(tool)),
            Route::Refused { name, input, error } => (name, input, Err(error)),
        };
        if let Some(part) = state.part_mut(call.part) {
            if let PartKind::Tool(tool) = &mut part.kind {
                tool.tool = name.clone();
                tool.state = running_state(&input);
            }
            journal.part(part);
        }
        match job {
            Ok(tool) => running.push(step.run(state, call.part, call.call_id, name, tool, input)),
            Err(error) => running.push(refused(call.part, error)),
        }
    }
    let session = step.cx.session;
    session.commit(&mut journal).await?;
    Ok(running)
}

/// Returns the end of a call that is answered instead of run.
fn refused(part: usize, error: ToolError) -> BoxFuture<'static, (usize, Result<ToolOutput, ToolError>)> {
    Box::pin(std::future::ready((part, Err(error))))
}

fn running_state(input: &Value) -> ToolState {
    ToolState::Running {
        input: input.clone(),
        title: None,
        metadata: None,
        time: PartTime { start: clock::now_ms(), end: None },
    }
}

/// Begins the calls that running ones have made: each gets a part of its own in the answer.
async fn start_nested(
    step: &StepCalls<'_>,
    state: &mut SessionState,
    running: &mut Running,
    waiting: &mut Waiting,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    for Nested { made_by, call, ended } in std::mem::take(&mut *lock(&step.reports.nested)) {
        let NestedCall { tool, input, refusal } = call;
        let found = match refusal {
            Some(reason) => Err((tool, reason)),
            None => step.toolbox.nested(tool),
        };
        let (name, row) = match found {
            Ok((name, row)) => (name, Ok(row)),
            Err((name, reason)) => (name, Err(reason)),
        };
        // As OpenCode does it: an id of ours, in the form that every provider takes back.
        let call_id = ids::part().to_string();
        let metadata = Map::from_iter([(MADE_BY.to_owned(), made_by.into())]);
        let tool = ToolPart {
            call_id: call_id.clone(),
            tool: name.clone(),
            state: running_state(&input),
            metadata: Some(metadata),
        };
        let part = state.push_part(PartKind::Tool(Box::new(tool)), &mut journal);
        waiting.insert(part, ended);
        match row {
            Ok(row) => running.push(step.run(state, part, call_id, name, row, input)),
            Err(reason) => running.push(refused(part, ToolError::Model(reason))),
        }
    }
    let session = step.cx.session;
    session.commit(&mut journal).await
}

/// Counts the equal tool calls in a row, in this turn and up to the newest message's part at this index.
///
/// Calls that a batch made are compared with their like, and so are those that made them.
fn n_same(state: &SessionState, part: usize) -> usize {
    let answers = state.history.iter().rev().take_while(|it| matches!(it.info, Message::Assistant(_)));
    let parts = answers.enumerate().flat_map(|(n_later, message)| {
        let n_parts = if n_later == 0 { part + 1 } else { message.parts.len() };
        // Calls of an answer that broke off were not run.
        let is_read = |part: &&Part| !matches!(part.kind, PartKind::Retry { .. });
        message.parts.iter().take(n_parts).rev().take_while(is_read)
    });
    let mut is_nested = None;
    let mut calls = parts.filter_map(|part| match &part.kind {
        // It has not run.
        PartKind::Tool(tool) if is_unanswered(&tool.state) => None,
        PartKind::Tool(tool) => {
            let is_made = tool.metadata.as_ref().is_some_and(|it| it.contains_key(MADE_BY));
            (*is_nested.get_or_insert(is_made) == is_made).then(|| (&tool.tool, tool.state.input()))
        }
        _other => None,
    });
    let Some(last) = calls.next() else { return 0 };
    1 + calls.take_while(|call| *call == last).count()
}

fn doom_loop(tool: &str, input: &Value, times: usize) -> Ask {
    let metadata = encode(&AskedRepeat { tool, input, times });
    let patterns = vec![tool.to_owned()];
    Ask { permission: "doom_loop".to_owned(), always: patterns.clone(), patterns, metadata }
}

/// One call with all it needs, so that it can run beside the others.
struct Job {
    loaded: Arc<Loaded>,
    /// Servers of the configuration, then those of the client.
    servers: Vec<mcp::ServersLease>,
    tool: Tool,
    agent: String,
    cancel: CancellationToken,
    /// Calls in a row that are the same, up to this one.
    n_same: usize,
    /// True for the user's own command: of the hooks, only that of its environment is called.
    is_users: bool,
    plugins: Option<tool::plugin::Plugins>,
    host: CallHost,
}

impl Job {
    async fn run(mut self, input: Value) -> Result<ToolOutput, ToolError> {
        if let (Some(plugins), Run::Plugin(_)) = (&mut self.plugins, &self.tool.run) {
            let (engine, reference) = (&self.host.engine, &self.host.parent.model);
            let shown = hooks::shown_model(engine, &self.loaded, reference).await;
            plugins.model =
                shown.map(|(_, model)| serde_json::to_value(model).unwrap_or_default()).unwrap_or_default();
        }
        let cx = ToolCx {
            session_id: &self.host.session_id,
            message_id: &self.host.message_id,
            call_id: &self.host.call_id,
            agent: &self.agent,
            agents_above: self.host.parent.agents.get(1..).unwrap_or_default(),
            config: &self.loaded.config,
            skills: &self.loaded.skills,
            servers: &self.servers,
            lsp: self.host.parent.workspace.lsp(),
            cancel: &self.cancel,
            plugins: self.plugins.as_ref(),
            host: &self.host,
        };
        let input = self.before_tool(input).await?;
        let args = self.plugins.as_ref().filter(|_| !self.is_users).map(|_| input.clone());
        let tool_output = tool::run(&self.tool, &cx, input).await?;
        after_tool(&cx, &self, args, tool_output).await
    }

    /// Asks about a call that repeats others, and lets plugins change its arguments. Every call that runs comes by
    /// here first.
    async fn before_tool(&self, input: Value) -> Result<Value, ToolError> {
        // A process that was stopped for a while may have lost the session, and was not told yet.
        let fleet = self.host.engine.fleet();
        fleet.check(&self.host.session_id).map_err(|error| ToolError::Internal(error.to_string()))?;
        if self.n_same >= DOOM_LOOP {
            self.host.ask(doom_loop(&self.tool.name, &input, self.n_same)).await?;
        }
        match &self.plugins {
            Some(plugins) if !self.is_users => {
                hooks::change_arguments(&plugins.host, &self.tool.name, &self.host, input).await
            }
            Some(_) | None => Ok(input),
        }
    }
}

/// Cuts the output of a call for the model to the configured size, adds errors that were found since in files, and lets
/// plugins change it. Every call that succeeded comes by here.
async fn after_tool(
    cx: &ToolCx<'_>,
    job: &Job,
    args: Option<Value>,
    tool_output: ToolOutput,
) -> Result<ToolOutput, ToolError> {
    let mut tool_output = truncate::apply(cx, tool_output).await?;
    let late = if job.is_users { String::new() } else { job.host.late_errors.take().await };
    tool_output.output.push_str(&late);
    let (Some(plugins), Some(args)) = (&job.plugins, args) else { return Ok(tool_output) };
    let changed = hooks::change_result(&plugins.host, &job.tool, &job.host, args, tool_output).await;
    changed.map_err(|error| match error {
        // They are told once, and a hook that fails takes the result with it.
        ToolError::Model(message) => ToolError::Model(message + &late),
        error => error,
    })
}

/// Shows the reports of running tools.
async fn show(cx: &TurnCx<'_>, state: &mut SessionState, reports: &Reports) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    let waiting = note_reports(cx, state, reports, &mut journal);
    cx.commit(&mut journal).await?;
    drop(waiting);
    Ok(())
}

/// Returns the senders that calls wait for until they are shown to run: dropped once that is done.
fn note_reports(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    reports: &Reports,
    journal: &mut Journal,
) -> Vec<oneshot::Sender<()>> {
    let changes = std::mem::take(&mut *lock(&reports.changes));
    cx.session.warn(&changes.warnings);
    journal.known_files(&state.info, &state.known_files);
    if let Some(todos) = changes.todos {
        journal.todos(&state.info, &todos);
        state.todos = todos;
    }
    // Once the step is over: until then the newest message is the answer that the calls belong to.
    state.turn.switch = changes.switch.or(state.turn.switch.take());
    if changes.tokens != Tokens::default() {
        state.info.cost = money::sum(state.info.cost, changes.cost);
        state.info.tokens.add(&changes.tokens);
        state.turn.child_tokens.add(&changes.tokens);
        journal.session(&state.info);
    }
    for (index, now) in changes.resumed {
        let Some(Part { kind: PartKind::Tool(tool), .. }) = state.part_mut(index) else { continue };
        let ToolState::Running { time, .. } = &mut tool.state else { continue };
        // The time that people see is the tool's own, without the wait for the person's answer.
        time.start = now;
    }
    for (index, (new_title, new_metadata)) in changes.progress {
        let Some(part) = state.part_mut(index) else { continue };
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        let ToolState::Running { title, metadata, .. } = &mut tool.state else { continue };
        let printed = printed_since(metadata.as_ref(), &new_metadata).filter(|_| new_title.is_none());
        let printed = printed.map(|(offset, more)| (offset, more.to_owned()));
        *title = new_title.or(title.take());
        *metadata = Some(new_metadata);
        match printed {
            Some((offset, more)) => journal.printed(part, offset, more),
            None => journal.part(part),
        }
    }
    let mut waiting = changes.shown;
    for (index, shown) in changes.allowed {
        waiting.push(shown);
        let Some(part) = state.part_mut(index) else { continue };
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        let ToolState::Running { metadata: metadata @ None, .. } = &mut tool.state else { continue };
        // Its metadata tells a call that runs from one that waits to be allowed.
        *metadata = Some(Map::new());
        journal.part(part);
    }
    waiting
}

/// Returns the output of a command between two reports, and the bytes before it, when it is little beside the part's
/// row: that is written anew only once as much has come.
fn printed_since<'a>(
    before: Option<&Map<String, Value>>,
    after: &'a Map<String, Value>,
) -> Option<(usize, &'a str)> {
    let n_printed = |metadata: &Map<String, Value>| usize::try_from(metadata.get(PRINTED)?.as_u64()?).ok();
    let (from, to) = (n_printed(before?)?, n_printed(after)?);
    let is_due = from / MAX_LIVE_CHARS != to / MAX_LIVE_CHARS;
    let output = after.get("output")?.as_str().filter(|_| !is_due)?;
    Some((from, output.get(output.len().checked_sub(to.checked_sub(from)?)?..)?))
}

/// Writes a call's result into its part.
async fn finish(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    reports: &Reports,
    index: usize,
    result: Result<ToolOutput, ToolError>,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    let waiting = note_reports(cx, state, reports, &mut journal);
    if let Some(part) = state.part_mut(index) {
        end_call(part, result);
        journal.part(part);
        // Whole texts of edited files are for the user's watch and the store; history in memory goes without.
        forget_texts(part);
    }
    cx.commit(&mut journal).await?;
    drop(waiting);
    Ok(())
}

fn end_call(part: &mut Part, result: Result<ToolOutput, ToolError>) {
    let (session_id, message_id) = (part.session_id.clone(), part.message_id.clone());
    let PartKind::Tool(tool) = &mut part.kind else { return };
    let now = clock::now_ms();
    let (start, running_metadata) = match &mut tool.state {
        ToolState::Running { time, metadata, .. } => (time.start, metadata.take()),
        ToolState::Pending { .. } | ToolState::Completed { .. } | ToolState::Error { .. } => (now, None),
    };
    let time = ToolTime { start, end: now, compacted: None };
    let end = if result.is_ok() { "completed" } else { "failed" };
    let duration = format!("{}ms", now - start);
    tracing::info!(session = %session_id, tool = %tool.tool, end, duration, "a tool call ended");
    let input = tool.state.input().clone();
    tool.state = match result {
        Ok(mut output) => {
            let files = media::of_tool(output.attachments, &mut output.output);
            let attachments = files.into_iter().map(|file| Attachment {
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
            metadata.remove(PRINTED);
            if matches!(error, ToolError::Cancelled { .. }) {
                metadata.insert("interrupted".to_owned(), true.into());
            }
            if matches!(error, ToolError::Forbidden(_) | ToolError::Denied { .. }) {
                metadata.insert("denied".to_owned(), true.into());
            }
            if let ToolError::Internal(reason) = &error {
                tracing::error!(target: log::SHOWN, tool = %tool.tool, %reason, "a tool failed");
            }
            let metadata = (!metadata.is_empty()).then_some(metadata);
            ToolState::Error { input, error: error.to_string(), metadata, time }
        }
    };
}

fn forget_texts(part: &mut Part) {
    let PartKind::Tool(tool) = &mut part.kind else { return };
    let ToolState::Completed { metadata, .. } = &mut tool.state else { return };
    tool_metadata::forget_texts(metadata);
}
