//! The words of version 2, a draft (facts: ACP §3): the encoder's updates and questions, as far as they have another
//! form there. Pure.

use std::{borrow::Cow, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_protocol::opencode::session::Todo;
use windlass_protocol_acp::schema::{
    AvailableCommand, AvailableCommandInput, Diff, IdleStateUpdate, IdleStopReason, MessageId,
    PermissionOption, RequestPermissionRequest, SessionConfigOption, SessionUpdate, StateUpdate, StopReason,
    ToolCall, ToolCallContent, ToolCallId, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolKind, Usage,
};

use super::{git_patch, to_proto::TODO_PLAN};

pub mod agent;

/// An update in the words of version 2.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Update<'a> {
    /// Has the same form in both versions.
    Same(&'a SessionUpdate),
    Call(Box<Call<'a>>),
    Other(Value),
}

/// Returns an update; `None` for one that version 2 says otherwise.
pub fn update(update: &SessionUpdate) -> Option<Update<'_>> {
    Some(match update {
        // Modes are a configuration option.
        SessionUpdate::CurrentModeUpdate(_) => return None,
        SessionUpdate::ToolCall(call) => Update::Call(Box::new(tool_call(call))),
        SessionUpdate::ToolCallUpdate(call) => Update::Call(Box::new(tool_call_update(call))),
        // Lists have states there that version 1 has no word for: [`plan`].
        SessionUpdate::Plan(_) => return None,
        SessionUpdate::AvailableCommandsUpdate(commands) => Update::Other(json!({
            "sessionUpdate": "available_commands_update",
            "availableCommands": available_commands(&commands.available_commands),
        })),
        SessionUpdate::ConfigOptionUpdate(options) => Update::Other(json!({
            "sessionUpdate": "config_option_update",
            "configOptions": config_options(&options.config_options),
        })),
        _same => Update::Same(update),
    })
}

/// A `tool_call_update`, which also begins a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_update: Option<&'static str>,
    tool_call_id: &'a ToolCallId,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<ToolKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Vec<Content<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    locations: Option<&'a [ToolCallLocation]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_input: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_output: Option<&'a Value>,
}

/// Content of a tool call.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Same(&'a ToolCallContent),
    Diff(Value),
}

/// Returns the first message about a tool call.
pub fn tool_call(call: &ToolCall) -> Call<'_> {
    Call {
        session_update: Some("tool_call_update"),
        tool_call_id: &call.tool_call_id,
        name: call.name.as_deref(),
        title: Some(&call.title),
        kind: Some(call.kind),
        status: Some(status(call.status, call.raw_output.as_ref())),
        content: (!call.content.is_empty()).then(|| content(&call.content)),
        locations: (!call.locations.is_empty()).then_some(&call.locations),
        raw_input: call.raw_input.as_ref(),
        raw_output: call.raw_output.as_ref(),
    }
}

fn tool_call_update(call: &ToolCallUpdate) -> Call<'_> {
    let fields = &call.fields;
    Call {
        session_update: Some("tool_call_update"),
        tool_call_id: &call.tool_call_id,
        name: fields.name.as_deref(),
        title: fields.title.as_deref(),
        kind: fields.kind,
        status: fields.status.map(|it| status(it, fields.raw_output.as_ref())),
        content: fields.content.as_deref().map(content),
        locations: fields.locations.as_deref(),
        raw_input: fields.raw_input.as_ref(),
        raw_output: fields.raw_output.as_ref(),
    }
}

/// Version 2 tells a call that was interrupted from one that failed.
fn status(status: ToolCallStatus, raw_output: Option<&Value>) -> &'static str {
    let is_interrupted = || raw_output.is_some_and(|raw| raw["metadata"]["interrupted"] == true);
    match status {
        ToolCallStatus::InProgress => "in_progress",
        ToolCallStatus::Completed => "completed",
        ToolCallStatus::Failed if is_interrupted() => "cancelled",
        ToolCallStatus::Failed => "failed",
        _pending => "pending",
    }
}

fn content(content: &[ToolCallContent]) -> Vec<Content<'_>> {
    let content = content.iter().map(|it| match it {
        ToolCallContent::Diff(it) => Content::Diff(diff(it)),
        _same => Content::Same(it),
    });
    content.collect()
}

fn diff(diff: &Diff) -> Value {
    let is_deleted = diff.meta.as_ref().is_some_and(|meta| meta.get("kind") == Some(&"delete".into()));
    let before = diff.old_text.as_deref();
    let after = (!is_deleted).then_some(diff.new_text.as_str());
    let operation = match (before, after) {
        (_, None) => "delete",
        (None, Some(_)) => "add",
        (Some(_), Some(_)) => "modify",
    };
    json!({
        "type": "diff",
        "changes": [{ "operation": operation, "path": diff.path, "fileType": "text" }],
        "patch": { "format": "git_patch", "text": git_patch::of_file(&diff.path, before, after) },
    })
}

/// Returns the update for a session's todo list.
pub fn plan(todos: &[Todo]) -> Value {
    let entry =
        |todo: &Todo| json!({ "content": todo.content, "priority": todo.priority, "status": todo.status });
    let entries: Vec<Value> = todos.iter().map(entry).collect();
    json!({
        "sessionUpdate": "plan_update",
        "plan": { "type": "items", "planId": TODO_PLAN, "entries": entries },
    })
}

/// A question about a permission.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question<'a> {
    session_id: Value,
    title: Cow<'a, str>,
    subject: Subject<'a>,
    options: &'a [PermissionOption],
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Subject<'a> {
    #[serde(rename_all = "camelCase")]
    ToolCall { tool_call: Call<'a> },
}

/// Returns a question to the user.
pub fn question(question: &RequestPermissionRequest) -> Question<'_> {
    let tool_call = Call { session_update: None, ..tool_call_update(&question.tool_call) };
    Question {
        session_id: json!(question.session_id),
        title: tool_call.title.map_or(Cow::Borrowed("A permission is needed."), Cow::Borrowed),
        subject: Subject::ToolCall { tool_call },
        options: &question.options,
    }
}

/// Returns the commands of a session.
pub fn available_commands(commands: &[AvailableCommand]) -> Vec<Value> {
    let command = |command: &AvailableCommand| {
        let mut shown =
            json!({ "type": "command", "name": command.name, "description": command.description });
        if let Some(AvailableCommandInput::Unstructured(input)) = &command.input {
            shown["input"] = json!({ "type": "text", "hint": input.hint });
        }
        shown
    };
    commands.iter().map(command).collect()
}

/// Returns the options of a session, which have other names for their ids.
pub fn config_options(options: &[SessionConfigOption]) -> Vec<Value> {
    let option = |option: &SessionConfigOption| {
        let mut shown = json!(option);
        if let Value::Object(fields) = &mut shown
            && let Some(id) = fields.remove("id")
        {
            fields.insert("configId".to_owned(), id);
        }
        shown
    };
    options.iter().map(option).collect()
}

/// State of a session's foreground work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Running,
    /// Nothing goes on before the user has answered.
    RequiresAction,
}

/// Returns the message of a prompt; its content follows in chunks.
pub fn user_message(message_id: &MessageId) -> Value {
    json!({ "sessionUpdate": "user_message", "messageId": message_id })
}

/// Returns the state of a session that works.
pub fn state(state: State) -> Value {
    let name = match state {
        State::Running => "running",
        State::RequiresAction => "requires_action",
    };
    json!({ "sessionUpdate": "state_update", "state": name })
}

/// Returns the state of a session that does not work, without the end of any work.
pub fn idle() -> Value {
    json!({ "sessionUpdate": "state_update", "state": "idle" })
}

/// Returns the end of a subagent's work.
pub fn idle_of_child(end: &IdleStopReason) -> Value {
    let mut state = json!(StateUpdate::Idle(IdleStateUpdate::new().stop_reason(end.clone())));
    state["sessionUpdate"] = "state_update".into();
    state
}

/// Returns the mark behind a session's past, before all that has come meanwhile.
pub fn replay_complete() -> Value {
    json!({ "sessionUpdate": "replay_complete" })
}

/// Returns the end of a session's work.
pub fn ended(stop: StopReason, usage: Option<&Usage>) -> Value {
    let mut ended = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": stop });
    if let Some(usage) = usage {
        ended["usage"] = json!(usage);
    }
    ended
}

/// Returns the end of a session's work by an error.
pub fn failed(error: &impl Serialize) -> Value {
    json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error })
}

/// Returns the beginning of a terminal.
pub fn terminal_begin(terminal_id: &str, command: Option<&str>, cwd: &Path) -> Value {
    let mut begin = json!({ "sessionUpdate": "terminal_update", "terminalId": terminal_id, "cwd": cwd });
    if let Some(command) = command {
        begin["command"] = command.into();
    }
    begin
}

/// Returns all that a terminal holds.
pub fn terminal_snapshot(terminal_id: &str, output: &str) -> Value {
    let data = BASE64_STANDARD.encode(output);
    json!({ "sessionUpdate": "terminal_update", "terminalId": terminal_id, "output": {"data": data} })
}

/// Returns more bytes of a terminal.
pub fn terminal_output(terminal_id: &str, output: &str) -> Value {
    let data = BASE64_STANDARD.encode(output);
    json!({ "sessionUpdate": "terminal_output_chunk", "terminalId": terminal_id, "data": data })
}

/// End of a command in a terminal.
#[derive(Debug, Clone, Copy, Default)]
pub struct Exit<'a> {
    pub code: Option<i64>,
    pub signal: Option<&'a str>,
}

/// Returns the end of a terminal.
pub fn terminal_exit(terminal_id: &str, exit: Exit<'_>) -> Value {
    let mut status = json!({});
    if let Some(code) = exit.code {
        status["exitCode"] = code.into();
    }
    if let Some(signal) = exit.signal {
        status["signal"] = signal.into();
    }
    json!({ "sessionUpdate": "terminal_update", "terminalId": terminal_id, "exitStatus": status })
}
