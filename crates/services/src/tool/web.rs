//! Search services on the web: their choice, their addresses and their protocol.

use std::{sync::LazyLock, time::Duration};

use reqwest::{
    Response,
    header::{ACCEPT, AUTHORIZATION},
};
use serde_json::{Value, json};
use windlass_base::{sse, text};
use windlass_core::config::{Config, Environment};
use windlass_provider::http;

use super::{ToolCx, ToolError, row::Offer};

/// Maximum bytes of an answer, and of an error's text.
const MAX_ANSWER_BYTES: usize = 4 << 20;
const MAX_ERROR_BYTES: usize = 2 << 10;

static CLIENT: LazyLock<http::Client> = LazyLock::new(http::Client::default);

/// Returns true if Exa may search: for models of OpenCode or by request, since searches cost money
/// (facts: OpenCode §5.7).
pub(super) fn has_exa(offer: &Offer<'_>) -> bool {
    matches!(offer.provider_id, "opencode" | "opencode-go") || wants_exa(&offer.config.environment)
}

/// Returns true if Parallel may search by request.
pub(super) fn has_parallel(offer: &Offer<'_>) -> bool {
    wants_parallel(&offer.config.environment)
}

fn wants_exa(environment: &Environment) -> bool {
    ["OPENCODE_ENABLE_EXA", "OPENCODE_EXPERIMENTAL_EXA", "OPENCODE_EXPERIMENTAL"]
        .iter()
        .any(|name| environment.is_on(name))
}

fn wants_parallel(environment: &Environment) -> bool {
    ["OPENCODE_ENABLE_PARALLEL", "OPENCODE_EXPERIMENTAL_PARALLEL"].iter().any(|name| environment.is_on(name))
}

/// A search service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Exa,
    Parallel,
}

impl Service {
    /// Returns the service for a session: the configured one, or one by the session's id, so that it stays the
    /// same.
    pub(super) fn of_session(config: &Config, session_id: &str) -> Self {
        let environment = &config.environment;
        match environment.get("OPENCODE_WEBSEARCH_PROVIDER") {
            Some("exa") => return Self::Exa,
            Some("parallel") => return Self::Parallel,
            Some(_) | None => {}
        }
        if wants_parallel(environment) {
            return Self::Parallel;
        }
        if wants_exa(environment) || fnv1a(session_id).is_multiple_of(2) {
            return Self::Exa;
        }
        Self::Parallel
    }

    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Exa => "exa",
            Self::Parallel => "parallel",
        }
    }

    /// Returns the URL, and true if the user's key may be sent there: a project's configuration can name any
    /// address.
    fn url(self, config: &Config) -> (String, bool) {
        let own = &config.settings.windlass;
        let (variable, configured, default) = match self {
            Self::Exa => ("WINDLASS_EXA_URL", &own.exa_url, "https://mcp.exa.ai/mcp"),
            Self::Parallel => ("WINDLASS_PARALLEL_URL", &own.parallel_url, "https://search.parallel.ai/mcp"),
        };
        let configured = configured.as_ref().filter(|url| !url.is_empty());
        match (config.environment.get(variable), configured) {
            (Some(url), _) => (url.to_owned(), true),
            (None, Some(url)) => (url.clone(), false),
            (None, None) => (default.to_owned(), true),
        }
    }
}

/// A call of one of a service's tools.
pub(super) struct Request<'a> {
    pub(super) service: Service,
    pub(super) tool: &'a str,
    pub(super) arguments: Value,
    pub(super) timeout: Duration,
    /// The beginning of error texts, such as `Search`.
    pub(super) what: &'a str,
}

/// Returns the text of the answer; `None` if nothing was found.
pub(super) async fn call(cx: &ToolCx<'_>, request: Request<'_>) -> Result<Option<String>, ToolError> {
    let what = request.what;
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Err(ToolError::Cancelled { partial: None }),
        answer = tokio::time::timeout(request.timeout, exchange(cx.config, &request)) => match answer {
            Ok(Ok(answer)) => Ok(answer.filter(|text| !text.trim().is_empty())),
            Ok(Err(why)) => Err(ToolError::Model(format!("{what} error{why}"))),
            Err(_) => Err(ToolError::Model(format!("{what} request timed out"))),
        },
    }
}

async fn exchange(config: &Config, request: &Request<'_>) -> Result<Option<String>, String> {
    let (url, takes_key) = request.service.url(config);
    let body = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": { "name": request.tool, "arguments": request.arguments },
    });
    let client = CLIENT.reqwest().map_err(|error| format!(": {error}"))?;
    let mut post = client.post(url).header(ACCEPT, "application/json, text/event-stream");
    let key = match request.service {
        Service::Exa => config.environment.get("EXA_API_KEY").map(|key| ("x-api-key", key.to_owned())),
        Service::Parallel => config
            .environment
            .get("PARALLEL_API_KEY")
            .map(|key| (AUTHORIZATION.as_str(), format!("Bearer {key}"))),
    };
    if let Some((name, value)) = key.filter(|_| takes_key) {
        post = post.header(name, value);
    }
    let post = post.header("content-type", "application/json").body(body.to_string());
    let broken = |error: reqwest::Error| format!(": {}", http::causes(error));
    let mut response = post.send().await.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        let body = read(&mut response, MAX_ERROR_BYTES).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        return Err(format!(" ({}): {}", status.as_u16(), text::head(&body, MAX_ERROR_BYTES)));
    }
    let body = read(&mut response, MAX_ANSWER_BYTES).await.map_err(broken)?;
    answer(&body)
}

/// Reads the beginning of the body.
async fn read(response: &mut Response, max_bytes: usize) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk[..chunk.len().min(max_bytes - body.len())]);
        if body.len() >= max_bytes {
            break;
        }
    }
    Ok(body)
}

/// Returns the first text in an answer, which is JSON or a stream of events with JSON in them.
fn answer(body: &[u8]) -> Result<Option<String>, String> {
    let mut messages: Vec<Value> = serde_json::from_slice(body).into_iter().collect();
    if messages.is_empty() {
        let mut events = Vec::new();
        let mut parser = sse::Parser::default();
        // A stream that ends without its last blank line counts as complete.
        parser
            .push(body, &mut events)
            .and_then(|()| parser.finish(&mut events))
            .map_err(|error| format!(": {error}"))?;
        messages.extend(events.iter().filter_map(|event| serde_json::from_str::<Value>(&event.data).ok()));
        if messages.is_empty() && !body.trim_ascii().is_empty() {
            return Err(": the answer is not one of an MCP server".to_owned());
        }
    }
    for message in messages {
        if let Some(error) = message.get("error") {
            let why = error.get("message").and_then(Value::as_str).unwrap_or("the service gave no reason");
            return Err(format!(": {}", text::head(why, MAX_ERROR_BYTES)));
        }
        let Some(result) = message.get("result") else { continue };
        let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
        let text = content.filter_map(|block| block.get("text")?.as_str()).find(|text| !text.is_empty());
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err(format!(
                ": {}",
                text::head(text.unwrap_or("the service gave no reason"), MAX_ERROR_BYTES)
            ));
        }
        if let Some(text) = text {
            return Ok(Some(text.to_owned()));
        }
    }
    Ok(None)
}

/// Hashes as OpenCode does, so that both choose the same service.
fn fnv1a(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests;
