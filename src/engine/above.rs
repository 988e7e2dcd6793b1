//! Collects what the sessions above a subagent's deny, from the store.

use std::sync::Arc;

use windlass_protocol::opencode::session::Session;

use super::{Engine, EngineError, workspace::Loaded};
use crate::config::policy::Above;

/// Sessions above one another; more is a mistake in the store.
const MAX_LEVELS: usize = 32;

/// Returns the layers above a subagent's session that the user opened by itself, or above a copy of one: those of the
/// sessions above it, with the agents they have now, and those that it was copied with.
pub async fn stored(engine: &Engine, loaded: &Loaded, info: &Session) -> Result<Above, EngineError> {
    let copied = |session: &Session| -> Above {
        session.limits.iter().map(|rules| Arc::from(rules.as_slice())).collect()
    };
    let mut above = copied(info);
    let mut parent = info.parent_id.clone();
    for _ in 0..MAX_LEVELS {
        let Some(id) = parent else { break };
        // Asked before the store is: a choice that is stored by then is no longer announced.
        let chosen = engine.chosen_agent(&id);
        let Some(session) = engine.storage().session(id).await? else { break };
        let agent = chosen.as_deref().or(session.agent.as_deref()).and_then(|name| loaded.agent(name));
        let mut policy = agent.unwrap_or_else(|| loaded.default_agent()).policy.clone();
        policy.extend(session.permission.as_deref().unwrap_or_default());
        above.extend(policy.for_children());
        above.extend(copied(&session));
        parent = session.parent_id;
    }
    Ok(above)
}
