//! Why a server cannot be used, in plain words: what a library says of it is for its own authors.

use rmcp::{
    ServiceError,
    service::ClientInitializeError,
    transport::{DynamicTransportError, streamable_http_client::StreamableHttpError},
};

use crate::base::{cause, stderr::MAX_LOG_BYTES, text};

/// Bytes of an answer that is shown.
const MAX_SAID: usize = 200;

/// Said of everything that no MCP server answers.
const NO_SERVER: &str = "what answers there is no MCP server";

/// The reason for which a connection was not made.
pub(super) fn of_handshake(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => of_transport(error),
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::JsonRpcError(error) => error.message.to_string(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
            "it speaks only versions of MCP that windlass does not".to_owned()
        }
        // Everything else is an answer to another question.
        _ => NO_SERVER.to_owned(),
    }
}

/// The reason for which a request was not answered.
pub(super) fn of_request(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => of_transport(error),
        ServiceError::TransportClosed => "it closed the connection".to_owned(),
        ServiceError::Timeout { .. } => "it did not answer in time".to_owned(),
        ServiceError::Cancelled { .. } => "the request was cancelled".to_owned(),
        // The enum is open.
        _ => "its answer is none to the request".to_owned(),
    }
}

/// The reason for which a message did not reach a server, without its URL: that may carry a key.
fn of_transport(error: &DynamicTransportError) -> String {
    let cause = match error.error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) => match std::error::Error::source(error) {
            Some(source) => cause::innermost(source),
            None => "the request failed".to_owned(),
        },
        Some(StreamableHttpError::HttpStatus(error)) => format!("it answered HTTP {}", error.status),
        Some(StreamableHttpError::UnexpectedServerResponse(said)) => {
            let line = said.lines().next().unwrap_or_default();
            format!("it answered {}", text::head(line, MAX_SAID))
        }
        Some(StreamableHttpError::Io(error)) => cause::innermost(error),
        // The enum is open.
        Some(_) => NO_SERVER.to_owned(),
        None => cause::innermost(&*error.error),
    };
    text::head(&cause, MAX_LOG_BYTES).to_owned()
}
