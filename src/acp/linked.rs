//! MCP servers that live in the client: `mcp/message` both ways (facts: ACP §2).

use std::sync::Arc;

use serde_json::json;
use windlass_engine::{AskServer, LinkAnswer, LinkNotification, LinkRequest};
use windlass_protocol_acp::schema::{
    McpServerAcpId, MessageMcpNotification, MessageMcpRequest, MessageMcpResponse,
};

use super::{
    client_call::{CallFailure, Notified},
    connection::Connection,
    outbox::Outbox,
};

/// The method of the requests, and of notifications about them.
pub const MESSAGE: &str = "mcp/message";

/// Returns the way to the servers in the client.
pub fn ask(outbox: &Arc<Outbox>) -> Arc<AskServer> {
    let outbox = outbox.clone();
    Arc::new(move |request| {
        let LinkRequest { server_id, request_id, method, params, notifications } = request;
        let message =
            MessageMcpRequest::new(McpServerAcpId::new(server_id.clone()), request_id.clone(), method)
                .params(params);
        let notified = Notified { server_id, request_id, notifications };
        let answer = outbox.call(None, MESSAGE, json!(message), Some(notified));
        Box::pin(async move {
            match answer.await {
                Err(CallFailure::Gone) => LinkAnswer::Gone,
                Err(CallFailure::Refused(reason)) => LinkAnswer::Refused(reason),
                Ok(response) => match serde_json::from_value(response) {
                    Ok(MessageMcpResponse::Result { result, .. }) => LinkAnswer::Result(result),
                    Ok(MessageMcpResponse::Error { error, .. }) => LinkAnswer::Error {
                        code: error.code,
                        message: error.message,
                        data: error.data.take(),
                    },
                    // The type is non-exhaustive.
                    Ok(_) | Err(_) => {
                        LinkAnswer::Refused("its answer holds neither `result` nor `error`".to_owned())
                    }
                },
            }
        })
    })
}

/// Passes on a notification of a server in the client about a request.
pub fn notification(connection: &Connection, params: Option<&str>) {
    let Ok(message) = serde_json::from_str::<MessageMcpNotification>(params.unwrap_or("{}")) else { return };
    let is_meant = |notified: &&Notified| {
        *notified.request_id == *message.request_id.0 && *notified.server_id == *message.server_id.0
    };
    let Some(notified) = connection.encoder.client_calls.notified().find(is_meant) else { return };
    let (request_id, method) = (notified.request_id.clone(), message.method);
    notified.notifications.push(LinkNotification { request_id, method, params: message.params });
}
