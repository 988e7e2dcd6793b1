//! The same checks for version 2 of the protocol.

use agent_client_protocol_schema::v2 as acp;
use serde_json::Value;

use super::{check, check_event, check_withdrawal};

/// Checks a notification or request from the agent.
pub fn check_call(method: &str, params: &Value, is_request: bool) -> Result<(), String> {
    match (method, is_request) {
        ("session/update", false) => check::<acp::UpdateSessionNotification>(method, params),
        ("session/request_permission", true) => check::<acp::RequestPermissionRequest>(method, params),
        ("elicitation/create", true) => check::<acp::CreateElicitationRequest>(method, params),
        ("mcp/message", true) => check::<acp::MessageMcpRequest>(method, params),
        ("$/cancel_request", false) => check_withdrawal(params),
        ("elicitation/complete", false) => check::<acp::CompleteElicitationNotification>(method, params),
        ("_windlass/event", false) => check_event(params),
        _ => Err(format!("the agent called `{method}`, which the client does not offer")),
    }
}

/// Checks a result by the method of the request it answers.
pub fn check_result(method: &str, result: &Value) -> Result<(), String> {
    match method {
        "initialize" => check::<acp::InitializeResponse>(method, result),
        "auth/login" => check::<acp::LoginAuthResponse>(method, result),
        "auth/logout" => check::<acp::LogoutAuthResponse>(method, result),
        "auth/status" => check::<acp::AuthStatusResponse>(method, result),
        "providers/list" => check::<acp::ListProvidersResponse>(method, result),
        "session/new" => check::<acp::NewSessionResponse>(method, result),
        "session/resume" => check::<acp::ResumeSessionResponse>(method, result),
        "session/fork" => check::<acp::ForkSessionResponse>(method, result),
        "session/list" => check::<acp::ListSessionsResponse>(method, result),
        "session/archive" => check::<acp::ArchiveSessionResponse>(method, result),
        "session/unarchive" => check::<acp::UnarchiveSessionResponse>(method, result),
        "session/status" => check::<acp::SessionStatusResponse>(method, result),
        "session/set_title" => check::<acp::SetSessionTitleResponse>(method, result),
        "session/close" => check::<acp::CloseSessionResponse>(method, result),
        "session/delete" => check::<acp::DeleteSessionResponse>(method, result),
        "session/set_config_option" => check::<acp::SetSessionConfigOptionResponse>(method, result),
        "session/prompt" => check::<acp::PromptResponse>(method, result),
        _ => Err(format!("a result for `{method}`, which has no schema: {result}")),
    }
}
