//! A subagent's work: a child session under its parent's tool call, with the parent's limits and its own agent.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, ids, lock::lock, money};
use windlass_core::{
    config::{Config, policy::Policy, rules::rule},
    library::Agent,
    storage::{StorageError, Write},
};
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    message::{Message, MessageWithParts},
    model_ref::ModelRef,
    part::{PartKind, ToolState},
    permission::{Action, Rule},
    session::{Session, SessionTime},
    tokens::Tokens,
    tool_metadata::{Task, TaskModel, encode},
};
use windlass_services::{
    mcp,
    plugin::host::Host,
    tool::{Subtask, ToolError, ToolOutput, permission_name},
};

use crate::{
    Engine, EngineError, PromptInput, PromptPart, StopReason, TaskWorktree, TurnOutcome,
    background::{MAX_JOBS, Open, Report, SubagentLink},
    project,
    session::{
        parent_limits::ParentLimits,
        registry::InUse,
        request::{PromptWatch, SpentBelow},
        warning_log::WarningLog,
    },
    workspace::{directory::Workspace, loaded::Loaded},
};

/// Depth to which subagents may start subagents, unless `subagent_depth` says otherwise.
const DEFAULT_DEPTH: u32 = 1;

/// The session that gives the task.
pub struct Parent {
    pub engine: Engine,
    pub info: Session,
    /// Its agent's rules, then its own.
    pub policy: Policy,
    /// Its agent, then those of the sessions above it.
    pub agents: Vec<String>,
    pub model: ModelRef,
    /// Set when a command gives the task.
    pub task: Option<TaskCall>,
    pub loaded: Arc<Loaded>,
    pub workspace: Arc<Workspace>,
    pub mcp: Option<Arc<mcp::Servers>>,
    /// Warnings that the user has seen.
    pub warning_log: WarningLog,
    /// The host of plugins, where there is one.
    pub plugins: Option<Arc<Host>>,
    /// Cancelled with the turn that gave the task.
    pub cancel: CancellationToken,
    /// No turn behind this one is seen, so that every result is waited for.
    pub is_only: bool,
}

/// Settings of a command's task that a model's does not have.
#[derive(Clone)]
pub struct TaskCall {
    pub model: Option<ModelRef>,
    pub attachments: Vec<PromptPart>,
}

/// A subagent that is done.
pub struct Ended {
    pub result: Result<ToolOutput, ToolError>,
    /// US dollars this task used.
    pub cost: f64,
    pub tokens: Tokens,
}

/// Returns the subagents that a session's rules let it start, a line each; empty when there are none.
pub fn offered(loaded: &Loaded, policy: &Policy) -> String {
    let agents = loaded.agents.iter().filter(|agent| agent.is_subagent());
    let agents = agents.filter(|agent| policy.evaluate("task", &agent.name) != Action::Deny);
    let lines = agents.map(|agent| {
        let description = agent.description.as_deref().unwrap_or("Use it when the user names it.");
        format!("- {}: {description}", agent.name)
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { String::new() } else { format!("Subagents:\n{}", lines.join("\n")) }
}

/// Runs a task to its end, or begins one in the background. `show` is given the call's metadata as soon as the child
/// session is known.
///
/// Dropping the future cancels a subagent that is waited for.
pub async fn run(
    parent: &Parent,
    request: Subtask,
    show: impl Fn(Map<String, Value>) -> oneshot::Receiver<()>,
) -> Result<Ended, ToolError> {
    let agent =
        parent.loaded.agent(&request.agent).filter(|agent| agent.is_subagent() || parent.task.is_some());
    let agent = agent.ok_or_else(|| {
        let fault = parent.loaded.before("agent", &request.agent);
        ToolError::Model(format!("{fault}Unknown agent type: {} is not a valid agent type", request.agent))
    })?;
    check_depth(parent).await?;
    let wanted = parent.task.as_ref().and_then(|task| task.model.clone());
    if wanted.is_none() {
        let own = parent.loaded.named(&format!("agent.{}.model", agent.name), agent.model.as_ref());
        own.transpose().map_err(|unusable| ToolError::Model(format!("Subagent failed: {unusable}")))?;
    }
    let model = wanted.or(agent.model.clone()).unwrap_or_else(|| parent.model.clone());
    let is_background = request.is_background && !parent.is_only && !parent.engine.is_finishing();
    let task = Begun { agent: agent.name.clone(), model, title: request.description.clone() };
    if is_background && let Some(ended) = extend(parent, &task, &request) {
        return Ok(ended);
    }
    let (child, guard) = open(parent, agent, &request).await?;
    let metadata = task.metadata(parent, &child.id, is_background);
    // Clients hear of the child by its parent's call before it says something. A step that is cut shows nothing more.
    let _ = show(metadata.clone()).await;
    let input = task.input(parent, request.prompt);
    let link = SubagentLink {
        parent: parent.info.id.clone(),
        child: child.id.clone(),
        counted: Arc::new(Mutex::new(SpentBelow { cost: child.cost, tokens: child.tokens })),
        warning_log: parent.warning_log.clone(),
    };
    if is_background {
        // The guard closes a session that got no place.
        let (cancel, open) = parent.engine.sessions().background().begin(&link).ok_or_else(no_room)?;
        guard.release();
        return Ok(send(parent, link, input, (cancel, open), task.title, metadata));
    }

    // Cancelled at the same moment as its parent: no answer given after that may count.
    let cancel = parent.cancel.child_token();
    let mut ended = prompt(parent, &child.id, input, cancel.clone());
    let mut moved = parent.engine.sessions().background().wait(&link, cancel);
    if parent.is_only {
        moved.close();
    }
    let outcome = tokio::select! {
        biased;
        Ok(open) = &mut moved => {
            guard.release();
            let metadata = task.metadata(parent, &child.id, true);
            drop(show(metadata.clone()));
            return Ok(leave(parent, link, ended, open, task.title, metadata));
        }
        outcome = &mut ended => outcome,
        () = parent.cancel.cancelled() => {
            // The last events of the subagent must come before its parent's turn ends.
            parent.engine.sessions().cancel(&child.id);
            ended.await
        }
    };
    moved.close();
    if moved.try_recv().is_ok() {
        parent.engine.sessions().background().answered(&link);
    }
    let outcome = outcome.map_err(|_| ToolError::Cancelled { partial: None })?;
    let stored =
        parent.engine.storage().load(child.id.clone()).await.map_err(|error| internal(error.into()))?;
    let (info, messages) = match stored {
        Some(stored) => (stored.info, stored.messages),
        None => (child.clone(), Vec::new()),
    };
    parent.engine.sessions().close(&child.id).await;
    drop(guard);
    let result = answer(&child.id, outcome, &messages, task.title, metadata)
        .map(|output| ToolOutput { output: output.output + &worktree_note(&parent.engine, &info), ..output });
    Ok(Ended {
        result,
        cost: money::difference(info.cost, child.cost),
        tokens: difference(&info.tokens, &child.tokens),
    })
}

/// A task with a known agent and model.
struct Begun {
    agent: String,
    model: ModelRef,
    title: String,
}

impl Begun {
    fn metadata(&self, parent: &Parent, child: &SessionId, is_background: bool) -> Map<String, Value> {
        let ModelRef { model_id, provider_id, .. } = &self.model;
        encode(&Task {
            parent_session_id: Some(parent.info.id.as_str()),
            session_id: child.as_str(),
            model: Some(TaskModel { model_id, provider_id }),
            background: is_background.then_some(true),
        })
    }

    fn input(&self, parent: &Parent, prompt: String) -> PromptInput {
        let part = PromptPart::Text { text: prompt, is_synthetic: false, is_ignored: false };
        let attachments = parent.task.iter().flat_map(|task| task.attachments.iter().cloned());
        PromptInput {
            parts: std::iter::once(part).chain(attachments).collect(),
            agent: Some(self.agent.clone()),
            model: Some(self.model.clone()),
            ..PromptInput::default()
        }
    }
}

/// Gives a task that works in the background more to do; `None` if the request names none.
fn extend(parent: &Parent, task: &Begun, request: &Subtask) -> Option<Ended> {
    let id = SessionId::parse(request.task_id.as_deref()?).ok()?;
    let (link, cancel, open) = parent.engine.sessions().background().extend(&parent.info.id, &id)?;
    let input = task.input(parent, request.prompt.clone());
    let metadata = task.metadata(parent, &id, true);
    Some(send(parent, link, input, (cancel, open), task.title.clone(), metadata))
}

/// Sends a prompt to a subagent; its end comes to the receiver, unless the parent was cancelled.
fn prompt(
    parent: &Parent,
    child: &SessionId,
    input: PromptInput,
    cancel: CancellationToken,
) -> oneshot::Receiver<Result<TurnOutcome, EngineError>> {
    let (sender, ended) = oneshot::channel();
    // Nobody may wait any more.
    let on_end = Box::new(move |outcome| _ = sender.send(outcome));
    parent.engine.sessions().prompt_until(child, input, cancel, PromptWatch::until_end(on_end));
    ended
}

/// Sends a prompt to a subagent in the background; returns the call's result for now.
fn send(
    parent: &Parent,
    link: SubagentLink,
    input: PromptInput,
    (cancel, open): (CancellationToken, Open),
    title: String,
    metadata: Map<String, Value>,
) -> Ended {
    let ended = prompt(parent, &link.child, input, cancel);
    leave(parent, link, ended, open, title, metadata)
}

/// Leaves a subagent in the background, with its answer sent to the parent later; returns the call's result for now.
fn leave(
    parent: &Parent,
    link: SubagentLink,
    ended: oneshot::Receiver<Result<TurnOutcome, EngineError>>,
    open: Open,
    title: String,
    metadata: Map<String, Value>,
) -> Ended {
    let id = link.child.clone();
    let (engine, of, of_task) = (parent.engine.clone(), link.clone(), title.clone());
    let report = move |outcome| -> BoxFuture<'static, Report> {
        Box::pin(async move { report(&engine, &of, &of_task, outcome).await })
    };
    parent.engine.sessions().follow(link, ended, open, report);
    let output = format!(
        "<task id=\"{id}\" state=\"running\">\nThe subagent works in the background. Its result comes to you as a message.\n\
         </task>"
    );
    let output = ToolOutput { title, output, metadata, attachments: Vec::new() };
    Ended { result: Ok(output), cost: 0.0, tokens: Tokens::default() }
}

/// Returns the result of a subagent in the background, as its parent's model reads it.
async fn report(
    engine: &Engine,
    link: &SubagentLink,
    title: &str,
    outcome: Result<TurnOutcome, EngineError>,
) -> Report {
    let id = &link.child;
    let (stored, outcome) = match engine.storage().load(id.clone()).await {
        Ok(stored) => (stored, outcome),
        // Its answer is there, but cannot be told.
        Err(error) if outcome.as_ref().is_ok_and(|it| it.stop != StopReason::Cancelled) => {
            (None, Err(error.into()))
        }
        Err(_) => (None, outcome),
    };
    let mut note = String::new();
    let (now, messages) = match stored {
        Some(stored) => {
            note = worktree_note(engine, &stored.info);
            (Some(SpentBelow { cost: stored.info.cost, tokens: stored.info.tokens }), stored.messages)
        }
        None => (None, Vec::new()),
    };
    // It may have begun with its next prompt.
    let newest = outcome.as_ref().ok().and_then(|outcome| outcome.message_id.as_ref());
    let end = messages.iter().position(|message| Some(message.info.id()) == newest);
    let messages = &messages[..end.map_or(messages.len(), |end| end + 1)];
    let (state, body) = match answer(id, outcome, messages, title.to_owned(), Map::new()) {
        Ok(_) => ("completed", format!("<task_result>\n{}\n</task_result>", last_text(messages))),
        Err(ToolError::Cancelled { .. }) => ("cancelled", "The user has cancelled it.".to_owned()),
        Err(error) => ("error", format!("<task_error>\n{error}\n</task_error>")),
    };
    let text = format!(
        "<task id=\"{id}\" state=\"{state}\">\n<summary>The task \"{title}\" in the background has ended: \
         {state}.</summary>\n{body}\n</task>{note}"
    );
    let mut counted = lock(&link.counted);
    let now = now.unwrap_or(*counted);
    let before = std::mem::replace(&mut *counted, now);
    let cost = money::difference(now.cost, before.cost);
    Report { text, spent: SpentBelow { cost, tokens: difference(&now.tokens, &before.tokens) } }
}

/// Returns where the changes of a subagent are that has a worktree of its own; empty for others.
fn worktree_note(engine: &Engine, child: &Session) -> String {
    let directory = Path::new(&child.directory);
    let Some(name) = engine.worktrees().name_of(directory) else { return String::new() };
    if !directory.exists() {
        return "\n<worktree>The subagent had a git worktree of its own and changed no file in it.</worktree>".to_owned();
    }
    let directory = &child.directory;
    format!(
        "\n<worktree name=\"{name}\" directory=\"{directory}\">The subagent's changes, if it made some, are in this git \
         worktree and not in your directory. `windlass worktree merge {name}` brings them in; ask the user \
         first.</worktree>"
    )
}

fn no_room() -> ToolError {
    ToolError::Model(format!(
        "{MAX_JOBS} subagents work in the background already. Go on with something else until a result has come, or \
         leave `background` out to wait for this one."
    ))
}

/// Returns the last text of a subagent's last message.
fn last_text(messages: &[MessageWithParts]) -> &str {
    let last = messages.iter().rev().find(|message| matches!(message.info, Message::Assistant(_)));
    let parts = last.map(|message| message.parts.as_slice()).unwrap_or_default();
    let text = parts.iter().rev().find_map(|part| match &part.kind {
        PartKind::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    text.unwrap_or_default()
}

/// Returns the result of a subagent for the model.
fn answer(
    id: &SessionId,
    outcome: Result<TurnOutcome, EngineError>,
    messages: &[MessageWithParts],
    title: String,
    metadata: Map<String, Value>,
) -> Result<ToolOutput, ToolError> {
    let failed = |reason: &str| ToolError::Model(format!("Subagent failed (task_id: {id}): {reason}"));
    let outcome = outcome.map_err(|error| failed(&error.message))?;
    if outcome.stop == StopReason::Cancelled {
        return Err(ToolError::Cancelled { partial: None });
    }
    let last = messages.iter().rev().find(|message| matches!(message.info, Message::Assistant(_)));
    let parts = last.map(|message| message.parts.as_slice()).unwrap_or_default();
    let refused = parts.iter().find_map(|part| match &part.kind {
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Error { error, .. } => Some(error.as_str()),
            ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Completed { .. } => None,
        },
        _ => None,
    });
    if let Some(reason) = refused {
        return Err(failed(reason));
    }
    let text = last_text(messages);
    let output =
        format!("<task id=\"{id}\" state=\"completed\">\n<task_result>\n{text}\n</task_result>\n</task>");
    Ok(ToolOutput { title, output, metadata, attachments: Vec::new() })
}

/// Counts how many sessions stand above the new one.
async fn check_depth(parent: &Parent) -> Result<(), ToolError> {
    let limit = parent.loaded.config.settings.subagent_depth.unwrap_or(DEFAULT_DEPTH);
    let mut depth = 1;
    let mut above = parent.info.parent_id.clone();
    while let Some(id) = above {
        depth += 1;
        let stored = parent.engine.storage().session(id).await.map_err(|error| internal(error.into()))?;
        above = stored.and_then(|session| session.parent_id);
    }
    if depth > limit {
        Err(ToolError::Model(format!(
            "Subagent depth limit reached ({limit}). Increase \"subagent_depth\" to allow nested subagents."
        )))
    } else {
        Ok(())
    }
}

/// Opens the child session, the one of an earlier task of this parent or a new one, and returns the guard that closes
/// it.
async fn open(
    parent: &Parent,
    agent: &Agent,
    request: &Subtask,
) -> Result<(Session, CancelOnDrop), ToolError> {
    let engine = &parent.engine;
    let stored = |error: StorageError| internal(error.into());
    let earlier = match request.task_id.as_deref().and_then(|id| SessionId::parse(id).ok()) {
        Some(id) => engine.storage().session(id).await.map_err(stored)?,
        None => None,
    };
    let earlier = earlier.filter(|session| session.parent_id.as_ref() == Some(&parent.info.id));
    let is_new = earlier.is_none();
    let mut info = earlier.unwrap_or_else(|| new_session(parent, agent, &request.description));
    let worktree = if is_new && agent.worktree {
        Some(enter_worktree(parent, &mut info).await?)
    } else {
        engine.worktrees().restore(Path::new(&info.directory)).await
    };
    let has_worktree = engine.worktrees().name_of(Path::new(&info.directory)).is_some();
    let workspace = if has_worktree && Path::new(&info.directory) != parent.workspace.directory() {
        let opened = engine.workspaces().workspace(Path::new(&info.directory)).await;
        let opened = opened.map_err(internal)?;
        check_committed(parent, agent, &opened)?;
        opened
    } else {
        parent.workspace.clone()
    };
    let parent_limits = ParentLimits { rules: parent.policy.for_children(), agents: parent.agents.clone() };
    engine
        .sessions()
        .register_child(
            &info.id,
            workspace,
            parent.mcp.clone(),
            parent_limits,
            engine.asking().granted_below(&parent.info.id),
            parent.warning_log.clone(),
        )
        .map_err(|in_use| ToolError::Model(taken(&info.id, in_use)))?;
    if let Some(worktree) = worktree {
        worktree.leave_to_session().await;
    }
    let cancel = CancelOnDrop { engine: engine.clone(), id: info.id.clone(), is_released: false };
    let event: fn(SessionInfo) -> EventPayload = if is_new {
        engine.storage().create_session(info.clone()).await.map_err(stored)?;
        EventPayload::SessionCreated
    } else {
        // The limits of the parent today count, not those at the beginning of the task.
        info.permission = Some(inherited(&parent.policy, agent, &parent.loaded.config));
        engine.storage().apply(vec![Write::Session(Arc::new(info.clone()))]).await.map_err(stored)?;
        EventPayload::SessionUpdated
    };
    engine.bus().publish(event(SessionInfo { session_id: info.id.clone(), info: Arc::new(info.clone()) }));
    Ok((info, cancel))
}

/// Makes a worktree for a new child's session.
async fn enter_worktree(parent: &Parent, info: &mut Session) -> Result<TaskWorktree, ToolError> {
    let entered = parent.engine.worktrees().enter(&parent.workspace, None, &parent.cancel).await;
    let entered = entered.map_err(|error| ToolError::Model(format!("Subagent failed: {error}.")))?;
    info.directory.clone_from(&entered.worktree.directory);
    info.path = None;
    Ok(entered)
}

/// Refuses a worktree that is without the agent, or the boundaries, of its parent's directory: it has the committed
/// configuration.
fn check_committed(parent: &Parent, agent: &Agent, opened: &Workspace) -> Result<(), ToolError> {
    let (here, there) = (&parent.loaded, opened.loaded());
    let missing = if there.agent(&agent.name).is_none() {
        format!("the agent {}", agent.name)
    } else if here.config.settings.windlass.sandbox != there.config.settings.windlass.sandbox {
        "`windlass.sandbox`".to_owned()
    } else {
        return Ok(());
    };
    Err(ToolError::Model(format!(
        "Subagent failed: a git worktree has the committed files, and {missing} of this directory is not among them. The \
         user has to commit the configuration, or to take `worktree` from the agent."
    )))
}

/// Returns the reason, for the model, that a task cannot be given more to do.
fn taken(id: &SessionId, in_use: InUse) -> String {
    match in_use {
        InUse::Works => format!(
            "The task {id} is still being worked on; wait for its result before you give it more to do, or begin \
             another task."
        ),
        InUse::Opened => format!(
            "The user has opened the session of the task {id} and continues it there, so it cannot be given more to \
             do from here. Begin another task by leaving task_id out, or ask the user to close that session first."
        ),
    }
}

fn new_session(parent: &Parent, agent: &Agent, description: &str) -> Session {
    let now = clock::now_ms();
    Session {
        id: ids::session(),
        slug: project::slug(),
        parent_id: Some(parent.info.id.clone()),
        title: format!("{description} (@{} subagent)", agent.name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: Some(agent.name.clone()),
        model: None,
        cost: 0.0,
        tokens: Tokens::default(),
        summary: None,
        share: None,
        metadata: None,
        permission: Some(inherited(&parent.policy, agent, &parent.loaded.config)),
        // Those of its parent are found there.
        limits: Vec::new(),
        revert: None,
        time: SessionTime { created: now, updated: now, compacting: None, archived: None },
        ..parent.info.clone()
    }
}

/// Returns the rules of a child's session: directories outside that the parent was granted, and tools that an agent has
/// only by naming them. The parent's denials hold by its policy.
pub fn inherited(parent: &Policy, agent: &Agent, config: &Config) -> Vec<Rule> {
    let holds = |rule: &&Rule| parent.evaluate(&rule.permission, &rule.pattern) == rule.action;
    let is_outside = |rule: &&Rule| rule.permission == "external_directory";
    let mut rules: Vec<Rule> = parent.rules().iter().filter(is_outside).filter(holds).cloned().collect();
    let deny = |name: &str| rule(name, "*", Action::Deny);
    for name in ["todowrite", "todoread", "task"] {
        if !agent.policy.rules().iter().any(|rule| rule.permission == name) {
            rules.push(deny(name));
        }
    }
    let primary = &config.settings.experimental.primary_tools;
    rules.extend(primary.iter().map(|tool| deny(permission_name(tool))));
    rules
}

fn difference(after: &Tokens, before: &Tokens) -> Tokens {
    let mut tokens = *after;
    tokens.total = None;
    tokens.input -= before.input.min(tokens.input);
    tokens.output -= before.output.min(tokens.output);
    tokens.reasoning -= before.reasoning.min(tokens.reasoning);
    tokens.cache.read -= before.cache.read.min(tokens.cache.read);
    tokens.cache.write -= before.cache.write.min(tokens.cache.write);
    tokens
}

fn internal(error: EngineError) -> ToolError {
    ToolError::Internal(error.message)
}

/// A cancelled parent takes its subagents along.
struct CancelOnDrop {
    engine: Engine,
    id: SessionId,
    is_released: bool,
}

impl CancelOnDrop {
    /// Leaves the subagent to itself.
    fn release(mut self) {
        self.is_released = true;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        let (engine, id) = (self.engine.clone(), self.id.clone());
        engine.sessions().cancel(&id);
        // The session of a cancelled subagent is closed in the background.
        self.engine.0.sessions.tasks.spawn(async move { engine.sessions().close(&id).await });
    }
}
