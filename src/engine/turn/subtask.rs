//! A subagent's work: a child session under its parent's tool call, with the parent's limits and its own agent.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
    message::{Message, MessageWithParts, ModelRef, Tokens},
    part::{PartKind, ToolState},
    permission::{Action, Rule},
    session::{Session, SessionTime},
    tool_metadata::{Task, TaskModel, encode},
};

use crate::{
    base::{clock, ids, money},
    config::{Config, policy::Policy, rules::rule},
    engine::{
        Engine, EngineError, InUse, PromptInput, PromptPart, StopReason, TurnOutcome,
        session::{parent_limits::ParentLimits, warning_log::WarningLog},
        workspace::{directory::Workspace, loaded::Loaded, project},
    },
    library::Agent,
    mcp,
    plugin::host::Host,
    storage::{StorageError, Write},
    tool::{Subtask, ToolError, ToolOutput, permission_name},
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

/// Runs a task to its end. `show` is given the call's metadata as soon as the child session is known.
///
/// Dropping the future cancels the subagent.
pub async fn run(
    parent: &Parent,
    request: Subtask,
    show: impl Fn(Map<String, Value>),
) -> Result<Ended, ToolError> {
    let agent =
        parent.loaded.agent(&request.agent).filter(|agent| agent.is_subagent() || parent.task.is_some());
    let agent = agent.ok_or_else(|| {
        ToolError::Model(format!("Unknown agent type: {} is not a valid agent type", request.agent))
    })?;
    check_depth(parent).await?;
    let wanted = parent.task.as_ref().and_then(|task| task.model.clone());
    if wanted.is_none() {
        let own = parent.loaded.named(&format!("agent.{}.model", agent.name), agent.model.as_ref());
        own.transpose().map_err(|unusable| ToolError::Model(format!("Subagent failed: {unusable}")))?;
    }
    let model = wanted.or(agent.model.clone()).unwrap_or_else(|| parent.model.clone());
    let (child, cancel) = open(parent, agent, &request).await?;
    let metadata = encode(&Task {
        parent_session_id: Some(parent.info.id.as_str()),
        session_id: child.id.as_str(),
        model: Some(TaskModel { model_id: &model.model_id, provider_id: &model.provider_id }),
    });
    show(metadata.clone());

    let (sender, mut ended) = oneshot::channel();
    let part = PromptPart::Text { text: request.prompt, is_synthetic: false, is_ignored: false };
    let attachments = parent.task.iter().flat_map(|task| task.attachments.iter().cloned());
    let input = PromptInput {
        parts: std::iter::once(part).chain(attachments).collect(),
        agent: Some(agent.name.clone()),
        model: Some(model),
        ..PromptInput::default()
    };
    // The parent may have been cancelled and not wait any more.
    let on_end = Box::new(move |outcome| _ = sender.send(outcome));
    // Cancelled at the same moment as its parent: no answer given after that may count.
    parent.engine.prompt_until(&child.id, input, parent.cancel.child_token(), on_end);
    let outcome = tokio::select! {
        outcome = &mut ended => outcome,
        () = parent.cancel.cancelled() => {
            // The last events of the subagent must come before its parent's turn ends.
            parent.engine.cancel(&child.id);
            ended.await
        }
    };
    let outcome = outcome.map_err(|_| ToolError::Cancelled { partial: None })?;
    let stored =
        parent.engine.storage().load(child.id.clone()).await.map_err(|error| internal(error.into()))?;
    let (info, messages) = match stored {
        Some(stored) => (stored.info, stored.messages),
        None => (child.clone(), Vec::new()),
    };
    parent.engine.close_session(&child.id).await;
    drop(cancel);
    Ok(Ended {
        result: answer(&child.id, outcome, &messages, request.description, metadata),
        cost: money::difference(info.cost, child.cost),
        tokens: difference(&info.tokens, &child.tokens),
    })
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
    let text = parts.iter().rev().find_map(|part| match &part.kind {
        PartKind::Text(text) => Some(text.text.as_str()),
        _ => None,
    });
    let text = text.unwrap_or_default();
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
    let parent_limits = ParentLimits { rules: parent.policy.for_children(), agents: parent.agents.clone() };
    engine
        .register_child(
            &info.id,
            parent.workspace.clone(),
            parent.mcp.clone(),
            parent_limits,
            engine.granted(&parent.info.id),
            parent.warning_log.clone(),
        )
        .map_err(|in_use| ToolError::Model(taken(&info.id, in_use)))?;
    let cancel = CancelOnDrop { engine: engine.clone(), id: info.id.clone() };
    let event: fn(SessionInfo) -> EventPayload = if is_new {
        engine.storage().create_session(info.clone()).await.map_err(stored)?;
        EventPayload::SessionCreated
    } else {
        // The limits of the parent today count, not those at the beginning of the task.
        info.permission = Some(inherited(&parent.policy, agent, &parent.loaded.config));
        engine.storage().apply(vec![Write::Session(Box::new(info.clone()))]).await.map_err(stored)?;
        EventPayload::SessionUpdated
    };
    engine.bus().publish(event(SessionInfo { session_id: info.id.clone(), info: Box::new(info.clone()) }));
    Ok((info, cancel))
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
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (engine, id) = (self.engine.clone(), self.id.clone());
        engine.cancel(&id);
        // Nobody waits for a cancelled subagent; its session is closed all the same.
        tokio::spawn(async move { engine.close_session(&id).await });
    }
}
