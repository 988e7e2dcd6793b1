//! Requests of plugins to windlass: calls of the SDK's client, answered as the HTTP server answers them.

use std::{future::ready, path::Path, sync::Arc};

use futures_util::{future::BoxFuture, stream::BoxStream};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::{Value, json};

/// A request of a plugin's client.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ApiRequest {
    /// The plugin that asks.
    pub plugin: String,
    pub method: String,
    /// The path with its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<String>,
}

/// The answer to a request.
pub struct ApiResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: ApiBody,
}

/// The body of an answer.
pub enum ApiBody {
    Whole(String),
    /// A stream of events, which ends when either side drops it.
    Stream(BoxStream<'static, String>),
}

/// The function that answers the requests of plugins.
pub type Api = Arc<dyn Fn(ApiRequest) -> BoxFuture<'static, ApiResponse> + Send + Sync>;

/// Returns a function that refuses requests that lead out of the plugins' sandbox: commands and terminals,
/// answers to permissions, changes of rules and of the configuration, and other directories than their own.
pub fn held(api: Api, directory: &Path) -> Api {
    let directory = directory.to_owned();
    Arc::new(move |request| {
        if is_harmless(&request) && is_about(&request, &directory) {
            return api(request);
        }
        let ApiRequest { method, path, .. } = request;
        let path = path.split('?').next().unwrap_or_default();
        let message = format!(
            "{method} {path} is refused: plugins run in a sandbox here (`windlass.sandbox.plugins`), which it would lead \
             out of"
        );
        let body = json!({ "name": "BadRequest", "data": { "message": message } }).to_string();
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Box::pin(ready(ApiResponse { status: 403, headers, body: ApiBody::Whole(body) }))
    })
}

/// Returns true for a request that reads, or that the rules of its session bound.
fn is_harmless(request: &ApiRequest) -> bool {
    let path = request.path.split('?').next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match (request.method.as_str(), parts.as_slice()) {
        ("GET" | "HEAD", _) | ("POST", ["log"] | ["tui", "show-toast"]) => true,
        ("POST", ["session", _, "abort" | "summarize"]) => true,
        ("POST", ["session"] | ["session", _, "message" | "prompt_async"]) | ("PATCH", ["session", _]) => {
            !loosens(request.body.as_deref().unwrap_or_default())
        }
        _ => false,
    }
}

/// Returns true for a request that names no other directory: other rules hold there.
fn is_about(request: &ApiRequest, directory: &Path) -> bool {
    let query = request.path.split_once('?').map_or("", |(_, query)| query);
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let in_query = pairs.filter(|(key, _)| decoded(key) == "directory").map(|(_, value)| decoded(value));
    let is_named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("x-opencode-directory");
    // The SDK escapes the directory that it puts there.
    let of_headers = request.headers.iter().filter(is_named);
    let of_headers = of_headers.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned());
    in_query.chain(of_headers).all(|named| Path::new(&named) == directory)
}

/// Returns true for a body that sets rules, or switches a tool on.
fn loosens(body: &str) -> bool {
    if body.is_empty() {
        return false;
    }
    // Unreadable, it is refused behind this too.
    let Ok(Value::Object(body)) = serde_json::from_str(body) else { return true };
    let switches_on = |tools: &Value| match tools {
        Value::Object(tools) => tools.values().any(|is_on| *is_on != Value::Bool(false)),
        other => !other.is_null(),
    };
    body.contains_key("permission") || body.get("tools").is_some_and(switches_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_in_a_sandbox_reads_and_prompts_and_does_not_get_out() {
        let request = |method: &str, path: &str, body: &str| ApiRequest {
            plugin: "p".to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: (!body.is_empty()).then(|| body.to_owned()),
        };
        for (method, path, body) in [
            ("GET", "/config?directory=/x", ""),
            ("POST", "/session", ""),
            ("POST", "/session?directory=/x", r#"{"title": "t"}"#),
            ("POST", "/session/ses_1/message", r#"{"parts": [], "tools": {"bash": false}}"#),
            ("POST", "/session/ses_1/abort", ""),
            ("PATCH", "/session/ses_1", r#"{"title": "t"}"#),
            ("POST", "/log", "{}"),
        ] {
            assert!(is_harmless(&request(method, path, body)), "{method} {path} {body}");
        }
        let mut other = request("GET", "/session", "");
        for (path, header, is_own) in [
            ("/session?directory=%2Fx", None, true),
            ("/session?directory=/x", Some("%2Fx"), true),
            ("/session", None, true),
            ("/file/content?path=a&directory=%2Fhome", None, false),
            ("/session?directory=/x&directory=/y", None, false),
            ("/session", Some("%2Fhome"), false),
        ] {
            other.path = path.to_owned();
            other.headers = header
                .map(|value| ("X-Opencode-Directory".to_owned(), value.to_owned()))
                .into_iter()
                .collect();
            let is_seen = is_about(&other, Path::new("/x"));
            assert_eq!(is_seen && is_harmless(&other), is_own, "{path} {header:?}");
        }
        for (method, path, body) in [
            ("POST", "/pty", r#"{"command": "sh"}"#),
            ("POST", "/session/ses_1/shell", r#"{"command": "id"}"#),
            ("POST", "/session/ses_1/command", r#"{"command": "init"}"#),
            ("POST", "/permission/per_1/reply", r#"{"reply": "always"}"#),
            ("POST", "/session/ses_1/permissions/per_1", r#"{"response": "always"}"#),
            (
                "POST",
                "/session",
                r#"{"permission": [{"permission": "*", "pattern": "*", "action": "allow"}]}"#,
            ),
            ("POST", "/session/ses_1/message", r#"{"parts": [], "tools": {"bash": true}}"#),
            ("POST", "/session/ses_1/message", "[]"),
            ("PATCH", "/session/ses_1", r#"{"permission": []}"#),
            ("PATCH", "/config", "{}"),
            ("PUT", "/auth/x", "{}"),
            ("POST", "/mcp", "{}"),
            ("post", "/pty", "{}"),
            ("POST", "/session/ses_1/message/../shell", "{}"),
            ("DELETE", "/session/ses_1", ""),
        ] {
            assert!(!is_harmless(&request(method, path, body)), "{method} {path} {body}");
        }
    }
}
