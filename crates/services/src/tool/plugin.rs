//! Forwards a call to the host that runs the tool, under the tool's own permission.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};
use windlass_base::json_schema::JsonSchema;
use windlass_core::permission::Ask;
use windlass_protocol::opencode::{part::FilePart, tool::Look};

use super::{
    ToolCx, ToolError, ToolOutput, find,
    row::{Offered, Run, Schema, Tool},
};
use crate::plugin::{
    host::{
        Host,
        call::{Call, Progress, Question, ToolAnswer},
    },
    offer::PluginTool,
};

/// The host of the session's directory, and the conversation for the tools that it runs.
pub struct Plugins {
    pub host: Arc<Host>,
    /// The session's messages before the answer that calls.
    pub messages: Value,
    /// The model that calls, as plugins are shown it.
    pub model: Value,
}

/// Returns the row of a plugin's tool. One that takes a built-in tool's place keeps its permission.
pub fn row(tool: &Arc<PluginTool>) -> Tool {
    let replaced = find(&tool.id);
    let (name, permission) = Tool::named(&tool.id, replaced.and_then(|built_in| built_in.permission.clone()));
    Tool {
        name,
        text: Cow::Owned(tool.description.clone()),
        schema: Schema::Shared(tool.schema.clone()),
        permission,
        look: replaced.map_or(Look::OTHER, |built_in| built_in.look),
        offered: Offered::Always,
        run: Run::Plugin(tool.clone()),
    }
}

/// Asks for permission, calls the tool, and answers its questions meanwhile.
pub(super) async fn run(cx: &ToolCx<'_>, tool: &PluginTool, input: Value) -> Result<ToolOutput, ToolError> {
    let Some(plugins) = cx.plugins else {
        return Err(ToolError::Internal(format!("there is no host for the tool {}", tool.id)));
    };
    let input = if tool.plain { checked(tool, input)? } else { input };
    let any = || vec!["*".to_owned()];
    let metadata = input.as_object().cloned().unwrap_or_default();
    let permission = row_permission(tool);
    let ask = Ask { permission, patterns: any(), always: any(), metadata };
    // In the place of a built-in tool it may do anything that this one does.
    if find(&tool.id).is_some() {
        cx.host.ask_opaque(ask).await.map(drop)?
    } else {
        cx.host.ask(ask).await?
    }
    let context = json!({
        "sessionID": cx.session_id,
        "messageID": cx.message_id,
        "callID": cx.call_id,
        "agent": cx.agent,
        "directory": cx.config.directory,
        "worktree": cx.config.worktree,
        "messages": plugins.messages,
        "extra": { "model": plugins.model, "bypassAgentCheck": false },
    });
    let call = plugins.host.call(&tool.id, input, context).await.map_err(ToolError::Model)?;
    output(tool, converse(cx, call).await?)
}

/// Fills in defaults and checks arguments by a schema that is written as JSON. zod does both in the host.
fn checked(tool: &PluginTool, mut input: Value) -> Result<Value, ToolError> {
    let properties = tool.schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    if let Value::Object(given) = &mut input {
        for (name, property) in properties {
            if let Some(default) = property.get("default") {
                given.entry(name.clone()).or_insert_with(|| default.clone());
            }
        }
    }
    // Tools with one that is no JSON schema are not offered.
    let Ok(schema) = JsonSchema::compile(&tool.schema) else { return Ok(input) };
    schema.check(&input).map_err(|issues| misfit(tool, &issues))?;
    Ok(input)
}

fn misfit(tool: &PluginTool, issues: &str) -> ToolError {
    ToolError::Model(format!(
        "The {} tool was called with invalid arguments: {issues}.\nPlease rewrite the input so it satisfies the expected schema.",
        tool.id
    ))
}

fn row_permission(tool: &PluginTool) -> String {
    super::permission_name(&tool.id).to_owned()
}

/// Waits for the answer of a tool. A refusal of its question ends the call as one of ours.
async fn converse(cx: &ToolCx<'_>, mut call: Call) -> Result<ToolAnswer, ToolError> {
    let (mut refused, mut shown_title) = (None, None);
    let answer = loop {
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
            Ok(()) = call.receivers.progress.changed() => {
                let Progress { title, metadata } = call.receivers.progress.borrow_and_update().clone();
                shown_title.clone_from(&title);
                cx.host.progress(title, metadata);
            }
            Some(Question { id, ask }) = call.receivers.questions.recv() => {
                let patterns = if ask.patterns.is_empty() { vec!["*".to_owned()] } else { ask.patterns };
                let (permission, always, metadata) = (ask.permission, ask.always, ask.metadata);
                let result = tokio::select! {
                    biased;
                    result = cx.host.ask(Ask { permission, patterns, always, metadata }) => result,
                    // Nobody is asked any more for a call that has ended.
                    answer = &mut call.answer => break answer,
                };
                call.answer_ask(&id, result.as_ref().map(|_| ()).map_err(ToString::to_string));
                refused = result.err().or(refused);
            }
            answer = &mut call.answer => break answer,
        }
    };
    let mut answer = answer.map_err(ToolError::Model)?;
    answer.title = answer.title.filter(|title| !title.is_empty()).or(shown_title);
    match (answer.failed.is_some(), refused) {
        (true, Some(refusal)) => Err(refusal),
        (true | false, _) => Ok(answer),
    }
}

fn output(tool: &PluginTool, answer: ToolAnswer) -> Result<ToolOutput, ToolError> {
    let ToolAnswer { title, output, metadata, attachments, invalid, failed } = answer;
    if let Some(issues) = invalid {
        return Err(misfit(tool, &issues));
    }
    if let Some(reason) = failed {
        return Err(ToolError::Model(reason));
    }
    let attachments = attachments.unwrap_or_default().into_iter().map(serde_json::from_value::<FilePart>);
    let attachments = attachments.collect::<Result<_, _>>().map_err(|error| {
        ToolError::Model(format!("an attachment of the tool {} cannot be read: {error}", tool.id))
    })?;
    Ok(ToolOutput {
        title: title.unwrap_or_default(),
        output,
        metadata: metadata.unwrap_or_default(),
        attachments,
    })
}
