//! Errors that refuse a request: those of JSON-RPC, and the engine's as such.

use jsonrpsee::types::ErrorObjectOwned;
use windlass_engine::{EngineError, EngineErrorKind};
use windlass_protocol::{opencode::id::SessionId, rpc::code};
use windlass_protocol_acp::decode::InvalidParams;

/// Says in the data of an error that another node has the session.
pub const OTHER_NODE: &str = "otherNode";

/// Makes an error object.
pub fn error(code: i32, message: &str) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(code, message, None::<()>)
}

/// Parameters that cannot be used.
pub fn invalid_params(reason: &InvalidParams) -> ErrorObjectOwned {
    error(code::INVALID_PARAMS, &reason.0)
}

/// Parses a session id; any other text is a session that does not exist.
pub fn session_id(text: &str) -> Result<SessionId, ErrorObjectOwned> {
    SessionId::parse(text).map_err(|_| no_session(text))
}

/// Returns the error for a session that does not exist.
pub fn no_session(id: &str) -> ErrorObjectOwned {
    let data = serde_json::json!({ "sessionId": id });
    ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, format!("Session not found: {id}"), Some(data))
}

/// Returns the error for a session that this client has not opened, or that was closed or archived since.
pub fn not_open(id: &str) -> ErrorObjectOwned {
    let data = serde_json::json!({ "sessionId": id });
    let message = format!("Session not open: {id}; open it with `session/load` or `session/resume`");
    ErrorObjectOwned::owned(code::RESOURCE_NOT_FOUND, message, Some(data))
}

/// Maps the engine's errors to JSON-RPC codes.
pub fn engine_error(failure: &EngineError) -> ErrorObjectOwned {
    match &failure.kind {
        EngineErrorKind::SessionNotFound(id) => no_session(id.as_str()),
        EngineErrorKind::SessionExists
        | EngineErrorKind::SessionBusy
        | EngineErrorKind::NoTurn
        | EngineErrorKind::MessageNotFound
        | EngineErrorKind::InvalidInput => error(code::INVALID_PARAMS, &failure.message),
        EngineErrorKind::OtherNode => {
            let data = serde_json::json!({ OTHER_NODE: true });
            ErrorObjectOwned::owned(code::INVALID_PARAMS, failure.message.clone(), Some(data))
        }
        EngineErrorKind::AuthRequired => error(code::AUTH_REQUIRED, &failure.message),
        EngineErrorKind::ModelUnusable
        | EngineErrorKind::StructuredOutput { .. }
        | EngineErrorKind::ContextOverflow
        | EngineErrorKind::Provider
        | EngineErrorKind::Store
        | EngineErrorKind::Internal => error(code::INTERNAL_ERROR, &failure.message),
    }
}
