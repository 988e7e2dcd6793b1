//! Forwards a call to the MCP server that offers the tool, under the tool's own permission, and finds the
//! servers with resources.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};
use windlass_protocol::opencode::tool::Look;

mod caller;
mod fit;
mod form;
mod instructions;

use self::caller::ToolCall;
use super::{
    ToolCx, ToolError, ToolOutput,
    row::{Offer, Offered, Run, Schema, Tool},
};
use crate::mcp::{CallError, McpTool, ServersLease, Status};
use windlass_core::{config::policy::Policy, permission::Ask};

pub(crate) use self::caller::SAMPLING;
pub use self::instructions::instructions;

/// The prefix of resources in rules of `read`, which distinguishes them from files.
const PREFIX: &str = "mcp:";

/// Returns the row of a server's tool; the place is its server's among [`ToolCx::servers`].
pub fn row(tool: Arc<McpTool>, place: usize) -> Tool {
    let (name, permission) = Tool::named(&tool.key, None);
    Tool {
        name,
        text: Cow::Owned(tool.description.clone()),
        schema: Schema::Text(tool.schema.clone()),
        permission,
        look: Look::OTHER,
        offered: Offered::Always,
        run: Run::Shared(Arc::new(move |cx, input| {
            let tool = tool.clone();
            Box::pin(async move { run(cx, &tool, place, input).await })
        })),
    }
}

/// Asks for permission and calls the tool.
async fn run(cx: &ToolCx<'_>, tool: &McpTool, place: usize, input: Value) -> Result<ToolOutput, ToolError> {
    let Some(servers) = cx.servers.get(place) else {
        return Err(ToolError::Internal("an MCP tool without servers".to_owned()));
    };
    let any = || vec!["*".to_owned()];
    let metadata = input.as_object().cloned().unwrap_or_default();
    let ask = Ask { permission: tool.key.clone(), patterns: any(), always: any(), metadata };
    cx.host.ask(ask).await?;
    let title = format!("{} {}", tool.server, tool.name);
    let caller = ToolCall { cx, server: &tool.server, title: &title };
    let answer = servers.call(&tool.key, input, cx.cancel, &caller).await.map_err(failed)?;
    Ok(ToolOutput { title, output: answer.text, metadata: Map::new(), attachments: answer.attachments })
}

/// Returns true if the tools about resources are offered.
pub(super) fn has_resources(offer: &Offer<'_>) -> bool {
    offer.has_resources
}

pub(super) fn failed(error: CallError) -> ToolError {
    match error {
        CallError::Cancelled => ToolError::Cancelled { partial: None },
        CallError::Failed(_) | CallError::TimedOut(_) | CallError::Unknown => {
            ToolError::Model(error.to_string())
        }
    }
}

/// Returns the connected servers that offer resources, sorted.
pub fn with_resources(servers: &[ServersLease]) -> Vec<String> {
    let mut names = Vec::new();
    for lease in servers {
        names.extend(lease.with_resources());
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the lease with the server of that name, if it offers resources. The client's servers come first, as
/// with tools.
pub(super) fn offering<'a>(servers: &'a [ServersLease], server: &str) -> Result<&'a ServersLease, ToolError> {
    let mut lease = servers.iter().rev();
    let found = lease.find(|lease| lease.with_resources().iter().any(|name| name == server));
    found.ok_or_else(|| {
        let why = match servers.iter().rev().find_map(|lease| lease.status(server)) {
            Some(Status::Connected) => "does not support resources".to_owned(),
            Some(Status::Connecting) => "is not connected yet".to_owned(),
            Some(Status::Failed { error } | Status::NeedsClientRegistration { error }) => {
                format!("is not connected: {error}")
            }
            Some(Status::NeedsAuth) => "is not connected: it wants a login".to_owned(),
            Some(Status::Disabled) | None => "is not connected".to_owned(),
        };
        let others = with_resources(servers).join(", ");
        let others = if others.is_empty() { "none" } else { &others };
        ToolError::Model(format!("MCP server \"{server}\" {why}. Available resource servers: {others}"))
    })
}

/// Returns true if no resource may be read, even if the rules allow reading files.
pub fn is_denied(policy: &Policy) -> bool {
    let may_mean_one = |pattern: &str| {
        let literal = pattern.split(['*', '?']).next().unwrap_or_default();
        PREFIX.starts_with(literal) || literal.starts_with(PREFIX)
    };
    policy.hides_all("read", may_mean_one)
}

/// Returns the pattern of a resource for rules of `read`, or with `*` of all those of a server.
///
/// A `:` in the server's name becomes `_`, as in the names of its tools, so that rules for `a` do not match
/// `a:b`.
pub(super) fn pattern(server: &str, uri: &str) -> String {
    format!("{PREFIX}{}:{uri}", server.replace(':', "_"))
}

/// Returns the patterns that `always` may remember: none if one of them would match other servers too.
pub(super) fn remembered(patterns: &[String]) -> Vec<String> {
    let is_plain = |pattern: &&String| pattern.strip_suffix('*').is_some_and(|it| !it.contains(['*', '?']));
    let plain: Vec<String> = patterns.iter().filter(is_plain).cloned().collect();
    if plain.len() == patterns.len() { plain } else { Vec::new() }
}

#[cfg(test)]
mod tests;
