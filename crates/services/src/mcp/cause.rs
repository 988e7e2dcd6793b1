//! The reasons that a server cannot be used, in plain words instead of the libraries' messages.

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};
use windlass_base::{cause, stderr::MAX_LOG_BYTES, text};

/// Maximum bytes of an answer that are shown.
const MAX_SAID: usize = 200;

/// The message for every answer that is not MCP.
const NO_SERVER: &str = "what answers there is no MCP server";

/// Returns the reason that a connection was not made.
pub(super) fn of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks only versions of MCP that windlass does not".to_owned()
        }
        // All other errors mean an answer to something else.
        _ => NO_SERVER.to_owned(),
    }
}

/// Returns the reason that a request was not answered.
pub(super) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => "it closed the connection".to_owned(),
        ServiceError::Timeout { .. } => "it did not answer in time".to_owned(),
        ServiceError::Cancelled { .. } => "the request was cancelled".to_owned(),
        // The enum is non-exhaustive.
        _ => "its answer does not fit the request".to_owned(),
    }
}

/// Returns the reason that a message did not reach a server, without its URL, which may carry a key.
fn of_transport(error: &DynamicTransportError) -> String {
    let cause = match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => match std::error::Error::source(error) {
            Some(source) => cause::innermost(source),
            None => "the request failed".to_owned(),
        },
        Some(StreamableHttpError::SessionExpired) => {
            "it no longer knows the session that was begun with it".to_owned()
        }
        Some(StreamableHttpError::ReinitializationFailed(error)) => {
            format!("it began no new session: {}", error.message)
        }
        Some(StreamableHttpError::HttpStatus(error)) => format!("it answered HTTP {}", error.status),
        Some(StreamableHttpError::UnexpectedServerResponse(said)) => {
            let line = said.lines().next().unwrap_or_default();
            format!("it answered {}", text::head(line, MAX_SAID))
        }
        Some(StreamableHttpError::Io(error)) => cause::innermost(error),
        // The enum is non-exhaustive.
        Some(_) => NO_SERVER.to_owned(),
        None => cause::innermost(&*error.error),
    };
    text::head(&cause, MAX_LOG_BYTES).to_owned()
}
