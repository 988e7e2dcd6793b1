//! The hook `permission.ask`: a plugin denies a request, has it asked, or answers it where only the user's own rules
//! would ask.

use serde_json::{Value, json};
use windlass_base::{clock, ids};
use windlass_core::{
    config::policy::{Origin, Policy},
    permission::Ask,
};
use windlass_protocol::opencode::{
    id::SessionId,
    permission::{Action, ToolRef},
};
use windlass_services::{plugin::host::Host, tool::ToolError};

pub(super) const HOOK: &str = "permission.ask";

/// The plugins' opinion of a request that they do not deny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opinion {
    None,
    Allow,
    /// A person is to be asked although the rules allow it.
    Ask,
}

/// Asks the plugins. One that fails has denied the request: it may be there to guard.
pub(super) async fn ask(
    host: &Host,
    session_id: &SessionId,
    tool: &ToolRef,
    policy: &Policy,
    ask: &Ask,
    is_allowed: bool,
) -> Result<Opinion, ToolError> {
    let input = json!({
        "id": ids::permission(),
        "type": ask.permission,
        "permission": ask.permission,
        "pattern": ask.patterns,
        "patterns": ask.patterns,
        "sessionID": session_id,
        "messageID": tool.message_id,
        "callID": tool.call_id,
        "title": ask.permission,
        "metadata": ask.metadata,
        "time": { "created": clock::now_ms() },
    });
    let status = if is_allowed { "allow" } else { "ask" };
    let changed = host.hook(HOOK, input, json!({ "status": status })).await;
    let changed = changed.map_err(|error| ToolError::Forbidden(format!("The call was denied: {error}.")))?;
    match changed.get("status").and_then(Value::as_str) {
        Some("deny") => {
            Err(ToolError::Forbidden("A plugin denied permission to use this specific tool call.".to_owned()))
        }
        Some("allow") if may_be_answered(policy, ask) => Ok(Opinion::Allow),
        Some("ask") if is_allowed => Ok(Opinion::Ask),
        Some(_) | None => Ok(Opinion::None),
    }
}

/// Returns true if nothing but rules of the user's asks about the request.
fn may_be_answered(policy: &Policy, ask: &Ask) -> bool {
    let binding = policy.layers().iter().filter(|layer| layer.origin != Origin::Agent);
    let allows = |pattern: &String| {
        binding.clone().all(|layer| layer.evaluate(&ask.permission, pattern) == Action::Allow)
    };
    ask.patterns.iter().all(allows)
}
