//! Checks every line of an agent by ACP's own schema, and by a round trip through its types.
//!
//! The schema is that of the protocol's own crate; the round trip finds fields that the schema would let pass.

use std::{any::type_name, cell::RefCell, collections::HashMap, fmt::Debug};

use agent_client_protocol_schema::v1 as acp;
use boon::{Compiler, SchemaIndex, Schemas};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub mod second;

/// Fields outside the schema that clients still read: `models` belongs to the older `session/set_model`.
const KNOWN_EXTRAS: &[(&str, &str)] = &[
    ("session/new", "models"),
    ("session/load", "models"),
    ("session/resume", "models"),
    ("session/fork", "models"),
];

/// Checks a notification or request from the agent.
pub fn check_call(method: &str, params: &Value, is_request: bool) -> Result<(), String> {
    match (method, is_request) {
        ("session/update", false) => check::<acp::SessionNotification>(method, params),
        ("session/request_permission", true) => check::<acp::RequestPermissionRequest>(method, params),
        ("fs/read_text_file", true) => check::<acp::ReadTextFileRequest>(method, params),
        ("fs/write_text_file", true) => check::<acp::WriteTextFileRequest>(method, params),
        ("elicitation/create", true) => check::<acp::CreateElicitationRequest>(method, params),
        ("mcp/message", true) => check::<acp::MessageMcpRequest>(method, params),
        ("$/cancel_request", false) => check_withdrawal(params),
        ("elicitation/complete", false) => check::<acp::CompleteElicitationNotification>(method, params),
        ("auth/status_update", false) => check::<acp::AuthStatusUpdateNotification>(method, params),
        ("_session/list/changes", false) => {
            let lists = ["sessions", "removed"].iter().all(|key| params[key].is_array());
            let is_known = lists && params["subscriptionId"].is_string();
            if is_known { Ok(()) } else { Err(format!("no changes of a list: {params}")) }
        }
        ("_windlass/event", false) => check_event(params),
        _ => Err(format!("the agent called `{method}`, which the client does not offer")),
    }
}

fn check_withdrawal(params: &Value) -> Result<(), String> {
    match params {
        Value::Object(fields) if fields.get("requestId").is_some_and(|id| id.is_i64() || id.is_string()) => {
            Ok(())
        }
        _ => Err(format!("$/cancel_request needs a requestId: {params}")),
    }
}

/// Checks a result by the method of the request it answers.
pub fn check_result(method: &str, result: &Value) -> Result<(), String> {
    let mut result = result.clone();
    for (_, extra) in KNOWN_EXTRAS.iter().filter(|(known, _)| *known == method) {
        result.as_object_mut().and_then(|fields| fields.remove(*extra));
    }
    match method {
        "initialize" => check::<acp::InitializeResponse>(method, &result),
        "authenticate" => check::<acp::AuthenticateResponse>(method, &result),
        "logout" => check::<acp::LogoutResponse>(method, &result),
        "auth/status" => check::<acp::AuthStatusResponse>(method, &result),
        "providers/list" => check::<acp::ListProvidersResponse>(method, &result),
        "providers/set" => check::<acp::SetProviderResponse>(method, &result),
        "providers/disable" => check::<acp::DisableProviderResponse>(method, &result),
        "session/new" => check::<acp::NewSessionResponse>(method, &result),
        "session/load" => check::<acp::LoadSessionResponse>(method, &result),
        "session/resume" => check::<acp::ResumeSessionResponse>(method, &result),
        "session/fork" => check::<acp::ForkSessionResponse>(method, &result),
        "session/list" => check::<acp::ListSessionsResponse>(method, &result),
        "session/options" => check::<acp::SessionOptionsResponse>(method, &result),
        "_session/list/subscribe" if result["subscriptionId"].is_string() => Ok(()),
        "_session/list/unsubscribe" => Ok(()),
        "session/archive" => check::<acp::ArchiveSessionResponse>(method, &result),
        "session/unarchive" => check::<acp::UnarchiveSessionResponse>(method, &result),
        "session/status" => check::<acp::SessionStatusResponse>(method, &result),
        "session/set_title" => check::<acp::SetSessionTitleResponse>(method, &result),
        "session/close" => check::<acp::CloseSessionResponse>(method, &result),
        "session/delete" => check::<acp::DeleteSessionResponse>(method, &result),
        "session/set_mode" => check::<acp::SetSessionModeResponse>(method, &result),
        "session/set_config_option" => check::<acp::SetSessionConfigOptionResponse>(method, &result),
        "session/prompt" => check::<acp::PromptResponse>(method, &result),
        "_session/archive" => check::<acp::ArchiveSessionResponse>(method, &result),
        "_session/unarchive" => check::<acp::UnarchiveSessionResponse>(method, &result),
        "_session/rename" => check::<acp::SetSessionTitleResponse>(method, &result),
        "_session/steering" => {
            let known = ["injected", "startedNewTurn", "promptRequired", "failed"];
            let is_known = result["outcome"].as_str().is_some_and(|outcome| known.contains(&outcome));
            if is_known { Ok(()) } else { Err(format!("no outcome of steering: {result}")) }
        }
        "_windlass/queue/list" => {
            let rows = result["prompts"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_row = |row: &Value| ["id", "delivery", "text"].iter().all(|key| row[key].is_string());
            let is_list = result["prompts"].is_array() && rows.iter().all(is_row);
            if is_list { Ok(()) } else { Err(format!("no list of prompts: {result}")) }
        }
        "session/set_model"
        | "_windlass/queue/change"
        | "_windlass/queue/withdraw"
        | "_windlass/permission/reply"
        | "_windlass/question/reply"
        | "_windlass/question/reject"
            if result.is_object() =>
        {
            Ok(())
        }
        _ => Err(format!("a result for `{method}`, which has no schema: {result}")),
    }
}

/// Checks the JSON-RPC envelope: its fields and their types.
pub fn check_envelope(message: &Value) -> Result<(), String> {
    let Value::Object(fields) = message else { return Err(format!("not an object: {message}")) };
    if fields.get("jsonrpc") != Some(&json!("2.0")) {
        return Err(format!("jsonrpc is not \"2.0\": {message}"));
    }
    let allowed: &[&str] = match (fields.contains_key("method"), fields.contains_key("error")) {
        (true, _) => &["jsonrpc", "id", "method", "params"],
        (false, true) => &["jsonrpc", "id", "error"],
        (false, false) => &["jsonrpc", "id", "result"],
    };
    if let Some(odd) = fields.keys().find(|key| !allowed.contains(&key.as_str())) {
        return Err(format!("field `{odd}` does not belong in {message}"));
    }
    if fields.contains_key("method") {
        let is_called = fields["method"].is_string() && fields.get("params").is_none_or(Value::is_object);
        let is_identified = fields.get("id").is_none_or(|id| id.is_i64() || id.is_string());
        return if is_called && is_identified { Ok(()) } else { Err(format!("malformed call: {message}")) };
    }
    if !fields.contains_key("id") || !(fields.contains_key("result") || fields.contains_key("error")) {
        return Err(format!("a response needs an id and a result or error: {message}"));
    }
    match fields.get("error") {
        None => Ok(()),
        Some(error) => {
            let is_error = error["code"].is_i64()
                && error["message"].as_str().is_some_and(|text| !text.is_empty())
                && error.as_object().is_some_and(|error| {
                    error.keys().all(|key| ["code", "message", "data"].contains(&key.as_str()))
                });
            if is_error { Ok(()) } else { Err(format!("malformed error: {message}")) }
        }
    }
}

fn check_event(params: &Value) -> Result<(), String> {
    let event = &params["event"];
    let is_of_no_session =
        ["config.updated", "file.edited", "mcp.tools.changed"].map(Value::from).contains(&event["type"]);
    let is_named = match params["sessionId"].as_str() {
        Some(id) => !is_of_no_session && id.starts_with("ses_"),
        None => is_of_no_session,
    };
    let is_event = is_named
        && event["id"].as_str().is_some_and(|id| id.starts_with("evt_"))
        && event["type"].as_str().is_some_and(|name| name.contains('.'))
        && event["properties"].is_object()
        && params.as_object().is_some_and(|params| params.len() == if is_of_no_session { 1 } else { 2 })
        && event.as_object().is_some_and(|event| event.len() == 3);
    if is_event {
        Ok(())
    } else {
        Err(format!("not {{sessionId, event: {{id, type, properties}}}}: {params}"))
    }
}

fn check<T: JsonSchema + Serialize + DeserializeOwned + Debug>(
    method: &str,
    value: &Value,
) -> Result<(), String> {
    validate::<T>(value).map_err(|problem| format!("{method} breaks the schema: {problem}\nin {value}"))?;
    let decoded: T = serde_json::from_value(value.clone())
        .map_err(|error| format!("{method} does not decode: {error}: {value}"))?;
    let encoded = serde_json::to_value(&decoded).unwrap();
    match lost(value, &encoded, "") {
        None => Ok(()),
        Some(path) => Err(format!("{method}: `{path}` is not part of the protocol\nin {value}")),
    }
}

/// Returns the path of a value that the round trip dropped or changed. Nulls, empty lists and defaults may be
/// left out.
fn lost(sent: &Value, kept: &Value, path: &str) -> Option<String> {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => sent.iter().find_map(|(key, value)| {
            let path = format!("{path}/{key}");
            match kept.get(key) {
                Some(kept) => lost(value, kept, &path),
                None => {
                    let is_default = value.is_null()
                        || value.as_array().is_some_and(Vec::is_empty)
                        || (key == "kind" && value == "other")
                        || (key == "status" && value == "pending");
                    (!is_default).then_some(path)
                }
            }
        }),
        (Value::Array(sent), Value::Array(kept)) => {
            if sent.len() != kept.len() {
                return Some(path.to_owned());
            }
            sent.iter()
                .zip(kept)
                .enumerate()
                .find_map(|(idx, (sent, kept))| lost(sent, kept, &format!("{path}/{idx}")))
        }
        (Value::Number(sent), Value::Number(kept)) => {
            (sent.as_f64() != kept.as_f64()).then(|| path.to_owned())
        }
        _ => (sent != kept).then(|| path.to_owned()),
    }
}

#[derive(Default)]
struct Compiled {
    schemas: Schemas,
    index: HashMap<String, SchemaIndex>,
}

thread_local! {
    static COMPILED: RefCell<Compiled> = RefCell::default();
}

fn validate<T: JsonSchema>(value: &Value) -> Result<(), String> {
    COMPILED.with_borrow_mut(|compiled| {
        // Types of both versions have the same names.
        let name = type_name::<T>().to_owned();
        let index = match compiled.index.get(&name) {
            Some(index) => *index,
            None => {
                let url = format!("http://schema.invalid/{}.json", compiled.index.len());
                let mut compiler = Compiler::new();
                compiler.add_resource(&url, schemars::schema_for!(T).to_value()).unwrap();
                let index = compiler.compile(&url, &mut compiled.schemas).unwrap();
                compiled.index.insert(name, index);
                index
            }
        };
        compiled.schemas.validate(value, index).map_err(|error| format!("{error:#}"))
    })
}

#[test]
fn unknown_fields_are_found() {
    let update = |extra: &str| {
        let mut update = json!({"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": {"type": "text", "text": "hi"}});
        update[extra] = json!("x");
        json!({"sessionId": "ses_1", "update": update})
    };
    assert_eq!(check_call("session/update", &update("messageId"), false), Ok(()));
    assert!(check_call("session/update", &update("colour"), false).unwrap_err().contains("/update/colour"));
}

#[test]
fn wrong_types_are_found() {
    let update = json!({"sessionId": "ses_1", "update": {"sessionUpdate": "tool_call", "toolCallId": "1", "title": "t", "locations": [{"path": "/a", "line": "two"}]}});
    assert!(check_call("session/update", &update, false).unwrap_err().contains("breaks the schema"));
}
