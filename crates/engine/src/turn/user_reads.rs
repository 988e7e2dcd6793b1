//! Runs the reading tools for files and resources that the user attached.

use serde_json::{Value, json};
use windlass_protocol::opencode::{
    id::MessageId,
    part::{FilePart, PartKind},
};
use windlass_services::tool::{self, Host, ToolCx, ToolError, ToolOutput};

use super::servers;
use crate::mention;
use crate::session::{context::TurnCx, state::text_part};

/// Runs a tool in the name of the user.
pub async fn run(
    cx: &TurnCx<'_>,
    host: &dyn Host,
    message_id: &MessageId,
    name: &str,
    input: Value,
) -> Result<ToolOutput, ToolError> {
    let tool = tool::find(name).ok_or_else(|| ToolError::Internal(format!("there is no {name} tool")))?;
    let tool_cx = ToolCx {
        session_id: &cx.session.id,
        message_id,
        call_id: "attachment",
        agent: &cx.agent.name,
        agents_above: &cx.parent_limits.agents,
        config: &cx.loaded.config,
        skills: &cx.loaded.skills,
        servers: &cx.servers(),
        lsp: cx.session.workspace.lsp(),
        cancel: &cx.cancel,
        plugins: None,
        host,
    };
    tool::run(tool, &tool_cx, input).await
}

/// Reads a server's resource; `None` for a file that is none. Words that only look like a resource bring nothing.
pub async fn resource(
    cx: &TurnCx<'_>,
    host: &dyn Host,
    message_id: &MessageId,
    file: &FilePart,
) -> Option<Vec<PartKind>> {
    let (server, uri) = mention::resource(file)?;
    let is_guessed = mention::is_typed(file, server, uri);
    if is_guessed && !cx.servers().iter().any(|lease| lease.status(server).is_some()) {
        return Some(Vec::new());
    }
    servers::wait(cx).await;
    let name = file.filename.as_deref().unwrap_or(server);
    let read = run(cx, host, message_id, "read_mcp_resource", json!({ "server": server, "uri": uri })).await;
    let kinds = match read {
        Ok(output) => {
            let mut kinds = vec![
                text_part(format!("Reading MCP resource: {name} ({uri})"), true, false),
                text_part(output.output, true, false),
            ];
            kinds.extend(output.attachments.into_iter().map(PartKind::File));
            // For the user to see; its text is given above.
            kinds.push(PartKind::File(file.clone()));
            kinds
        }
        Err(error) => vec![text_part(error.to_string(), true, false)],
    };
    Some(kinds)
}
