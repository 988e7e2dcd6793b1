//! Lists the resources of MCP servers, or their resource templates.

use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::permission::{self, Ask};
use windlass_protocol::opencode::{
    permission::Action,
    tool_metadata::{AskedResources, Resources, encode},
};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments, mcp};
use crate::mcp::ResourceList;

/// The choice of servers.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The name of one MCP server (default: all servers).
    pub server: Option<String>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value, list: ResourceList) -> Result<ToolOutput, ToolError> {
    let (tool, key, what) = match list {
        ResourceList::Resources => ("list_mcp_resources", "resources", "MCP resources"),
        ResourceList::Templates => {
            ("list_mcp_resource_templates", "resourceTemplates", "MCP resource templates")
        }
    };
    let args: Args = arguments(tool, input)?;
    let server = args.server.filter(|server| !server.is_empty());
    let servers = match &server {
        Some(server) => {
            mcp::offering(cx.servers, server)?;
            vec![server.clone()]
        }
        None => undenied(cx, mcp::with_resources(cx.servers)).await,
    };
    if servers.is_empty() {
        return Err(ToolError::Model("no connected MCP server offers resources".to_owned()));
    }
    let patterns: Vec<String> = servers.iter().map(|server| mcp::pattern(server, "*")).collect();
    let metadata = encode(&AskedResources { server: server.as_deref() });
    let always = mcp::remembered(&patterns);
    cx.host.ask(Ask { permission: "read".to_owned(), always, patterns, metadata }).await?;

    let asked = servers.iter().map(async |server| {
        let lease = mcp::offering(cx.servers, server)?;
        lease.resources(server, list, cx.cancel).await.map_err(mcp::failed)
    });
    let answers = join_all(asked).await;
    let (mut found, mut errors, mut n_failed) = (Vec::new(), Vec::new(), 0);
    for (server, answer) in servers.iter().zip(answers) {
        let error = match answer {
            Ok((entries, is_cut)) => {
                found.extend(entries.into_iter().map(|mut entry| {
                    entry["server"] = server.as_str().into();
                    entry
                }));
                is_cut.then(|| "the list is longer; the rest is left out".to_owned())
            }
            Err(ToolError::Model(error)) => {
                n_failed += 1;
                Some(error)
            }
            Err(error) => return Err(error),
        };
        errors.extend(error.map(|error| json!({ "server": server, "error": error })));
    }
    if n_failed == servers.len() {
        let messages =
            errors.iter().map(|it| format!("{what} of {}: {}", text(it, "server"), text(it, "error")));
        return Err(ToolError::Model(format!("Cannot list {}", messages.collect::<Vec<_>>().join("; "))));
    }
    let metadata = encode(&Resources { count: found.len(), servers: &servers, server: server.as_deref() });
    let mut output = json!({ key: found });
    if !errors.is_empty() {
        output["errors"] = errors.into();
    }
    let title = server.map_or_else(|| what.to_owned(), |server| format!("{what}: {server}"));
    Ok(ToolOutput { title, output: format!("{output:#}"), metadata, attachments: Vec::new() })
}

/// Removes denied servers, unless all are denied: then the denial is the answer.
async fn undenied(cx: &ToolCx<'_>, servers: Vec<String>) -> Vec<String> {
    let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
    let is_denied = |server: &String| {
        permission::resolve("read", &mcp::pattern(server, "*"), &policy, &answers) == Action::Deny
    };
    if servers.iter().all(is_denied) {
        servers
    } else {
        servers.into_iter().filter(|server| !is_denied(server)).collect()
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
