//! The words of version 1: the encoder's own, but for words that clients know from elsewhere.

use serde::Serialize;
use serde_json::{Map, json};
use windlass_protocol::opencode::session::Todo;
use windlass_protocol_acp::schema::{
    Plan, PlanUpdate, PlanUpdateContent, RequestPermissionRequest, SessionUpdate, ToolCall, ToolCallContent,
    ToolCallStatus, ToolKind,
};

use super::{git_patch, to_proto, to_proto::TODO_PLAN};

/// Returns an update, with patches where the client shows those.
pub fn update(mut update: SessionUpdate, has_diff_patches: bool) -> SessionUpdate {
    if has_diff_patches && let SessionUpdate::ToolCallUpdate(call) = &mut update {
        call.fields.content.iter_mut().flatten().for_each(add_patch);
    }
    update
}

/// Returns a question, with patches where the client shows those.
pub fn question(mut question: RequestPermissionRequest, has_diff_patches: bool) -> RequestPermissionRequest {
    if has_diff_patches {
        question.tool_call.fields.content.iter_mut().flatten().for_each(add_patch);
    }
    question
}

/// Returns the update for a session's todo list: one of its plans by an id, or the only one. A cancelled entry is left
/// out, because version 1 has no word for it.
pub fn plan(todos: &[Todo], has_ids: bool) -> SessionUpdate {
    let entries = todos.iter().filter_map(to_proto::plan_entry).collect();
    if has_ids {
        SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(TODO_PLAN, entries)))
    } else {
        SessionUpdate::Plan(Plan::new(entries))
    }
}

/// Adds the patch of a change in the form of JetBrains' `diffPatch`.
fn add_patch(content: &mut ToolCallContent) {
    let ToolCallContent::Diff(diff) = content else { return };
    let text = git_patch::of_file(&diff.path, diff.old_text.as_deref(), Some(&diff.new_text));
    let patch = json!({ "version": 1, "diffPatch": {"version": 1, "format": "git_patch", "text": text} });
    diff.meta = Some(Map::from_iter([("jetbrains".to_owned(), json!({ "air": patch }))]));
}

/// A `tool_call` with its status and kind, which the published type leaves out where they are the default: clients
/// that read the JSON by eye or by jq know them from OpenCode.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call<'a> {
    session_update: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(flatten)]
    call: &'a ToolCall,
}

/// Returns the first message about a tool call.
pub fn tool_call(call: &ToolCall) -> Call<'_> {
    Call {
        session_update: "tool_call",
        kind: (call.kind == ToolKind::default()).then_some("other"),
        status: (call.status == ToolCallStatus::default()).then_some("pending"),
        call,
    }
}
