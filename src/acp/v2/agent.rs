//! Answers in the words of version 2, where they have another form there. Pure.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use windlass_protocol_acp::schema::{
    AgentCapabilities, AuthMethod, AvailableCommand, Implementation, InitializeResponse, MessageId,
    SessionConfigOption,
};

/// Answer to `session/prompt`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptResponse<'a> {
    pub message_id: &'a MessageId,
}

/// Answer to `session/resume`, and the rest of those that begin a session.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenedSession {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<Arc<str>>,
    config_options: Vec<Value>,
    available_commands: Vec<Value>,
}

impl OpenedSession {
    pub fn new(options: &[SessionConfigOption], commands: &[AvailableCommand]) -> Self {
        Self {
            session_id: None,
            config_options: super::config_options(options),
            available_commands: super::available_commands(commands),
        }
    }

    /// Returns the answer to `session/new` or `session/fork`.
    pub fn of_session(self, id: Arc<str>) -> Self {
        Self { session_id: Some(id), ..self }
    }
}

/// Returns the answer to `session/set_config_option`.
pub fn options(options: &[SessionConfigOption]) -> Value {
    json!({ "configOptions": super::config_options(options) })
}

/// Returns the answer to `initialize`.
pub fn initialized(response: &InitializeResponse) -> Value {
    let info = response.agent_info.as_ref();
    json!({
        "protocolVersion": 2,
        "info": info.map(|it: &Implementation| json!(it)),
        "capabilities": capabilities(&response.agent_capabilities),
        "authMethods": response.auth_methods.iter().map(auth_method).collect::<Vec<_>>(),
        "_meta": response.meta,
    })
}

/// Every marker is an object, and the duties of every agent need none.
fn capabilities(capabilities: &AgentCapabilities) -> Value {
    let mut session = json!(capabilities.session_capabilities);
    if let Value::Object(fields) = &mut session {
        for baseline in ["list", "resume", "close"] {
            fields.remove(baseline);
        }
    }
    session["prompt"] = json!({ "image": {}, "embeddedContext": {} });
    session["mcp"] = json!({ "stdio": {}, "http": {}, "acp": {} });
    let mut auth = json!(capabilities.auth);
    if let Value::Object(fields) = &mut auth {
        fields.remove("logout");
    }
    json!({
        "session": session,
        "auth": auth,
        "providers": capabilities.providers,
        "_meta": capabilities.meta,
    })
}

fn auth_method(method: &AuthMethod) -> Value {
    let mut shown = json!(method);
    if let Value::Object(fields) = &mut shown {
        if let Some(id) = fields.remove("id") {
            fields.insert("methodId".to_owned(), id);
        }
        fields.entry("type").or_insert_with(|| "agent".into());
    }
    shown
}
