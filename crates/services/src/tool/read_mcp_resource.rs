//! Reads a resource of an MCP server.

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_core::permission::Ask;
use windlass_protocol::opencode::tool_metadata::{Resource, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    mcp, path,
    webfetch::{self, address},
};

mod canonical;

/// The resource to read.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The name of the MCP server, as in the lists of resources.
    pub server: String,
    /// The resource's URI.
    pub uri: String,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let Args { server, uri } = arguments("read_mcp_resource", input)?;
    if uri.is_empty() {
        return Err(ToolError::Model("uri is required".to_owned()));
    }
    mcp::offering(cx.servers, &server)?;
    let asked = Resource { server: &server, uri: &uri, contents: None, attachments: None };
    let ask = Ask {
        permission: "read".to_owned(),
        patterns: patterns(&server, &uri),
        always: mcp::remembered(&[mcp::pattern(&server, "*")]),
        metadata: encode(&asked),
    };
    cx.host.ask(ask).await?;

    let lease = mcp::offering(cx.servers, &server)?;
    let read = lease.read_resource(&server, &uri, cx.cancel).await;
    let content = read.map_err(|error| match mcp::failed(error) {
        ToolError::Model(error) => {
            ToolError::Model(format!("Failed to read MCP resource: {server}/{uri}: {error}"))
        }
        error => error,
    })?;
    let (contents, attachments) = (Some(content.n_items), Some(content.attachments.len()));
    let metadata = encode(&Resource { contents, attachments, ..asked });
    let output = match content.n_items {
        0 => format!("The MCP resource {uri} of {server} is empty."),
        _ => content.text,
    };
    let title = format!("MCP resource: {uri}");
    Ok(ToolOutput { title, output, metadata, attachments: content.attachments })
}

/// Returns every form of a URI that a rule may mean: as written, in its canonical form, as servers parse URLs, without
/// a query, and the lower-case forms for the rules about `.env` files. The strictest verdict about them holds.
fn patterns(server: &str, uri: &str) -> Vec<String> {
    let mut forms = vec![uri.to_owned()];
    if let Ok(url) = Url::parse(uri) {
        let mut bare = url.clone();
        bare.set_query(None);
        for form in [url, bare].into_iter().flat_map(|url| webfetch::forms(uri, &address::normal(url))) {
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    for form in canonical::forms(uri) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    // Servers may take the parameters of a path's segments for none of its name.
    for form in forms.clone() {
        let bare = canonical::without_parameters(&form);
        if !forms.contains(&bare) {
            forms.push(bare);
        }
    }
    // Servers that treat it as a path see no difference.
    for form in forms.clone() {
        let short = form.trim_end_matches('/');
        if !short.is_empty() && !forms.iter().any(|known| known == short) {
            forms.push(short.to_owned());
        }
    }
    for form in forms.clone() {
        let lower = form.to_lowercase();
        if path::is_secret_name(&lower) && !forms.contains(&lower) {
            forms.push(lower);
        }
    }
    forms.iter().map(|form| mcp::pattern(server, form)).collect()
}

#[cfg(test)]
mod tests;
