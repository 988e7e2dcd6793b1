//! Limits of the sessions above a subagent's, which are found in the store when its parent does not pass them down.

use std::sync::Arc;

use windlass_core::config::policy;
use windlass_protocol::opencode::session::Session;

use crate::{Engine, EngineError, workspace::loaded::Loaded};

/// Sessions above one another; more is a mistake in the store.
const MAX_LEVELS: usize = 32;

/// Limits from the sessions above a subagent's.
#[derive(Debug, Clone, Default)]
pub struct ParentLimits {
    /// Their rules; those of copies too.
    pub rules: policy::Above,
    /// Their agents; the sandboxes of these hold too.
    pub agents: Vec<String>,
}

/// Returns the limits of a subagent's session that the user opened by itself, or of a copy of one: those of the sessions
/// above it, with the agents they have now, and the rules that it was copied with.
pub async fn stored(engine: &Engine, loaded: &Loaded, info: &Session) -> Result<ParentLimits, EngineError> {
    let copied = |session: &Session| -> policy::Above {
        session.limits.iter().map(|rules| Arc::from(rules.as_slice())).collect()
    };
    let mut parent_limits = ParentLimits { rules: copied(info), agents: Vec::new() };
    let mut parent = info.parent_id.clone();
    for _ in 0..MAX_LEVELS {
        let Some(id) = parent else { break };
        let Some(session) = engine.storage().session(id).await? else { break };
        let agent = session.agent.as_deref().and_then(|name| loaded.agent(name));
        let agent = agent.unwrap_or_else(|| loaded.default_agent());
        let mut policy = agent.policy.clone();
        policy.extend(session.permission.as_deref().unwrap_or_default());
        parent_limits.rules.extend(policy.for_children());
        parent_limits.rules.extend(copied(&session));
        parent_limits.agents.push(agent.name.clone());
        parent = session.parent_id;
    }
    Ok(parent_limits)
}
