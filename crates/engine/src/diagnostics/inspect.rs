//! Assembles the request that a turn of an agent would send, without sending it.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use windlass_base::ids;
use windlass_core::{
    config::{Warning, policy::Policy},
    library::{Agent, Instructions},
};
use windlass_protocol::opencode::{config::AgentMode, model_ref::ModelRef};
use windlass_provider::{Model, unusable::Unusable};

use crate::{
    Answerable, Engine, EngineError, Loaded, NewSession, project,
    session::{
        context::{SessionCx, TurnCx},
        parent_limits::ParentLimits,
        registry::new_info,
        state::SessionState,
        tickets::Tickets,
        warning_log::WarningLog,
    },
    turn::{prompt, subtask, toolbox::Toolbox},
};

/// Time limit for MCP servers to list their tools.
const MCP_LIMIT: Duration = Duration::from_secs(5);

/// Everything that a model gets for an agent.
pub struct AgentView {
    pub agent: Agent,
    pub model: ModelRef,
    /// The system prompt's texts as they are sent.
    pub system: Vec<String>,
    /// Files and pages among the instructions, and the bytes each takes.
    pub instructions: Vec<(String, usize)>,
    pub tools: Vec<ToolView>,
    /// The agent's and, where it is a subagent, that of the session it would work in.
    pub policy: Policy,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub max_output_tokens: Option<u64>,
    /// Over the model's own.
    pub options: Map<String, Value>,
    pub warnings: Vec<Warning>,
}

/// A tool that a model is offered.
pub struct ToolView {
    pub name: String,
    /// The first line of the description that the model reads.
    pub description: String,
    /// Offered only where a front end has a user to ask, which `windlass run` has not.
    pub needs_user: bool,
}

/// Works out the request that an agent would be sent in a directory, with its own model or another.
pub async fn inspect(
    engine: &Engine,
    directory: &Path,
    name: &str,
    model: Option<&ModelRef>,
) -> Result<AgentView, EngineError> {
    let workspace = engine.workspaces().workspace(directory).await?;
    workspace.mcp().settled(MCP_LIMIT).await;
    let loaded = workspace.loaded();
    let agent = loaded.checked_agent(name)?.clone();
    let (model, unusable) = match loaded.model_for(&agent, model) {
        Ok(model) => (model, None),
        Err(unusable) if model.is_some() => return Err(unusable.into()),
        // Nothing is asked, so the rest can be shown all the same.
        Err(unusable) => (placeholder(&loaded, unusable.model.as_deref()), Some(unusable)),
    };
    // Titles and summaries are asked for with the agent's prompt and nothing else.
    let is_internal = agent.is_internal();
    let read = if is_internal {
        Instructions::default()
    } else {
        engine.workspaces().read_instructions(&loaded).await
    };
    let mut warnings = read.all_warnings();
    warnings.extend(unusable.map(|unusable| warning(&unusable)));

    let new = NewSession { directory: directory.to_owned(), ..NewSession::default() };
    let mut info = new_info(new, &loaded.config.worktree, project::GLOBAL.to_owned());
    if agent.mode == AgentMode::Subagent {
        info.permission = Some(subtask::inherited(&Policy::default(), &agent, &loaded.config));
    }
    // The session is stored nowhere, and nothing is ever put into its inbox.
    let ((inbox, _), id) = (mpsc::channel(1), ids::session());
    // As over ACP: the tools that a run without a user goes without are marked.
    let client = engine.client(Answerable::Everything);
    client.hold(&id);
    let session = SessionCx {
        engine: engine.clone(),
        ahead: Default::default(),
        session_lock: OnceLock::new(),
        warning_log: WarningLog::new(id.clone()),
        tickets: Arc::new(Tickets::new(&id, engine.bus())),
        id,
        workspace: workspace.clone(),
        mcp: None,
        parent_limits: ParentLimits::default(),
        own_inbox: inbox.downgrade(),
    };
    let variant = loaded.variant_for(&agent, &model, None);
    let cx = TurnCx {
        session: &session,
        loaded: loaded.clone(),
        agent,
        model,
        variant,
        instructions: read.blocks,
        parent_limits: ParentLimits::default(),
        mcp: workspace.mcp().lease(),
        structured: None,
        plugins: None,
        cancel: CancellationToken::new(),
    };
    let state = SessionState::new(info, Vec::new());
    let toolbox = Toolbox::new(&cx, &state);
    let prompt = prompt::of_step(&cx, &state, &toolbox, false);
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    let tools = prompt.tools.iter().map(|tool| ToolView {
        name: tool.name.to_string(),
        description: first_line(&tool.description),
        needs_user: toolbox.needs_user(&tool.name),
    });
    let sizes = cx.instructions.iter().map(|block| (block.source.clone(), block.text.len()));
    Ok(AgentView {
        model: ModelRef { variant: cx.variant.clone(), ..cx.model.reference() },
        system: if is_internal {
            cx.agent.prompt.as_deref().map(str::to_owned).into_iter().collect()
        } else {
            prompt.system.iter().map(ToString::to_string).collect()
        },
        instructions: sizes.collect(),
        tools: tools.collect(),
        policy: toolbox.policy().clone(),
        temperature: prompt.temperature,
        top_p: prompt.top_p,
        max_output_tokens: prompt.max_output_tokens,
        options: prompt.options.clone(),
        warnings,
        agent: cx.agent.clone(),
    })
}

fn warning(unusable: &Unusable) -> Warning {
    Warning { source: "model".to_owned(), line: None, column: None, message: unusable.to_string() }
}

/// Returns a model that stands for one that cannot be had; it is never asked.
fn placeholder(loaded: &Loaded, named: Option<&ModelRef>) -> Model {
    let demo = loaded.demo().clone();
    match named {
        Some(ModelRef { provider_id, model_id, .. }) => {
            Model { provider_id: provider_id.clone(), id: model_id.clone(), ..demo }
        }
        None => demo,
    }
}
