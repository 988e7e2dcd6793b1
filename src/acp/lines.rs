//! Messages to the client as lines: updates of a session, and whatever else is said.

use serde::Serialize;
use windlass_protocol::{
    acp::schema::{SessionNotification, SessionUpdate, ToolCall, ToolCallStatus, ToolKind},
    opencode::id::SessionId,
    rpc,
};

/// Encodes a `session/update` with its line feed.
pub fn update(id: &SessionId, update: SessionUpdate, out: &mut Vec<u8>) {
    write(&rpc::notification("session/update", SessionNotification::new(id.shared(), update)), out);
}

/// Encodes a `tool_call` with its status and kind, which the published type leaves out where they are the default:
/// clients that read the JSON by eye or by jq know them from OpenCode.
pub fn tool_call(id: &SessionId, call: &ToolCall, out: &mut Vec<u8>) {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Update<'a> {
        session_update: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
        #[serde(flatten)]
        call: &'a ToolCall,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        session_id: &'a SessionId,
        update: Update<'a>,
    }
    let update = Update {
        session_update: "tool_call",
        kind: (call.kind == ToolKind::default()).then_some("other"),
        status: (call.status == ToolCallStatus::default()).then_some("pending"),
        call,
    };
    write(&rpc::notification("session/update", Params { session_id: id, update }), out);
}

/// Encodes any message with its line feed.
pub fn write(message: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    match serde_json::to_writer(&mut *out, message) {
        Ok(()) => out.push(b'\n'),
        Err(error) => {
            out.truncate(start);
            tracing::error!(%error, "a message could not be encoded");
        }
    }
}
