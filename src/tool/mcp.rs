//! Forwards a call to the MCP server that offers the tool, under the tool's own permission.

use serde_json::{Map, Value};

use super::{ToolCx, ToolError, ToolOutput, truncate};
use crate::{
    mcp::{CallError, Held, McpTool},
    permission::Ask,
};

/// Asks, calls and cuts the result to size.
pub async fn run(
    cx: &ToolCx<'_>,
    servers: &Held,
    tool: &McpTool,
    input: Value,
) -> Result<ToolOutput, ToolError> {
    let any = || vec!["*".to_owned()];
    let metadata = input.as_object().cloned().unwrap_or_default();
    let ask = Ask { permission: tool.key.clone(), patterns: any(), always: any(), metadata };
    cx.host.ask(ask).await?;
    let answer = servers.call(&tool.key, input, cx.cancel).await.map_err(|error| match error {
        CallError::Cancelled => ToolError::Cancelled { partial: None },
        CallError::Failed(_) | CallError::TimedOut(_) | CallError::Unknown => {
            ToolError::Model(error.to_string())
        }
    })?;
    let output = ToolOutput {
        title: format!("{} {}", tool.server, tool.name),
        output: answer.text,
        metadata: Map::new(),
        attachments: answer.attachments,
    };
    truncate::apply(cx, output).await
}
