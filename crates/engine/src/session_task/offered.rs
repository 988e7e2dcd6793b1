//! The slash commands that a session's MCP servers offer to a prompt.

use tokio_util::sync::CancellationToken;
use windlass_core::library::commands::Command;

use crate::{
    PromptInput, command, mcp_commands, session::context::SessionCx, turn::servers, workspace::loaded::Loaded,
};

/// Returns the prompts of the session's servers as commands. Waits a moment for servers that are starting if the user's
/// prompt may call one of theirs.
pub async fn prompts(
    session: &SessionCx,
    loaded: &Loaded,
    input: &PromptInput,
    cancel: &CancellationToken,
) -> Vec<Command> {
    let servers = session.servers();
    let offered = mcp_commands::commands(&servers, &loaded.commands);
    if !command::may_be_a_servers(loaded, &offered, input) {
        return offered;
    }
    servers::wait_for_prompts(session, loaded, &servers, cancel).await;
    mcp_commands::commands(&servers, &loaded.commands)
}
