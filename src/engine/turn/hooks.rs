//! The hooks of plugins in a turn: each gets what it may change, and what it changed takes its place.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::FilePart,
    provider::{Provider, ProviderModel},
};

pub mod message;

use super::{call_host::CallHost, toolbox::Toolbox};
use crate::{
    base::ids,
    engine::session::{context::TurnCx, state::SessionState},
    plugin::host::{HookError, Host, Shown},
    provider::{Prompt, ProviderError},
    tool::{
        ToolError, ToolOutput,
        row::{Run, Schema, Tool},
    },
};

const MESSAGES: &str = "experimental.chat.messages.transform";
const SYSTEM: &str = "experimental.chat.system.transform";
const PARAMS: &str = "chat.params";
const HEADERS: &str = "chat.headers";
const BEFORE_TOOL: &str = "tool.execute.before";
const AFTER_TOOL: &str = "tool.execute.after";

/// Lets plugins change the arguments of a call.
pub async fn change_arguments(
    host: &Host,
    tool: &str,
    call: &CallHost,
    args: Value,
) -> Result<Value, ToolError> {
    if !host.declares(BEFORE_TOOL) {
        return Ok(args);
    }
    let input = json!({ "tool": tool, "sessionID": call.session_id, "callID": call.call_id });
    let changed = host.hook(BEFORE_TOOL, input, json!({ "args": args })).await;
    // The model reads the plugin's own words.
    let mut changed = changed.map_err(|error| ToolError::Model(error.message))?;
    Ok(changed.remove("args").unwrap_or(args))
}

/// Lets plugins change the result of a call. That of an MCP server has its own form.
pub async fn change_result(
    host: &Host,
    tool: &Tool,
    call: &CallHost,
    args: Value,
    tool_output: ToolOutput,
) -> Result<ToolOutput, ToolError> {
    if !host.declares(AFTER_TOOL) {
        return Ok(tool_output);
    }
    let is_servers = matches!(tool.run, Run::Shared(_));
    let input =
        json!({ "tool": tool.name, "sessionID": call.session_id, "callID": call.call_id, "args": args });
    let output = if is_servers {
        json!({ "content": [{ "type": "text", "text": tool_output.output }], "metadata": tool_output.metadata })
    } else {
        json!({ "title": tool_output.title, "output": tool_output.output, "metadata": tool_output.metadata })
    };
    let changed = host.hook(AFTER_TOOL, input, output).await;
    let changed = changed.map_err(|error| ToolError::Model(error.message))?;
    Ok(changed_output(tool_output, changed))
}

fn changed_output(mut tool_output: ToolOutput, changed: Map<String, Value>) -> ToolOutput {
    for (key, value) in changed {
        match (key.as_str(), value) {
            ("title", Value::String(title)) => tool_output.title = title,
            ("output", Value::String(output)) => tool_output.output = output,
            ("metadata", Value::Object(metadata)) => tool_output.metadata = metadata,
            ("content", Value::Array(content)) => {
                let texts = content.iter().filter_map(|it| it.get("text")?.as_str());
                tool_output.output = texts.collect::<Vec<_>>().join("\n");
            }
            ("attachments", Value::Array(list)) => {
                let files = list.into_iter().filter_map(|it| serde_json::from_value::<FilePart>(it).ok());
                tool_output.attachments = files.collect();
            }
            _ => {}
        }
    }
    tool_output
}

/// Lets plugins change the descriptions of all tools, in one request.
pub async fn define_tools(cx: &TurnCx<'_>, toolbox: &mut Toolbox) -> Result<(), ProviderError> {
    let Some(host) = cx.plugins.as_ref().filter(|host| host.declares("tool.definition")) else {
        return Ok(());
    };
    let tools = toolbox
        .tools_mut()
        .map(|tool| json!({ "toolID": tool.name, "description": tool.text, "jsonSchema": tool.schema() }));
    let tools = tools.collect();
    let changed = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Ok(()),
        changed = host.definitions(tools) => changed.map_err(|error| failed(&error))?,
    };
    for change in changed {
        let text = |key: &str| change.get(key).and_then(Value::as_str);
        let Some(tool) = toolbox.tools_mut().find(|tool| text("toolID") == Some(&tool.name)) else {
            continue;
        };
        if let Some(description) = text("description") {
            tool.text = Cow::Owned(description.to_owned());
        }
        if let Some(schema) = change.get("jsonSchema").filter(|it| it.is_object()) {
            tool.schema = Schema::Shared(Arc::new(schema.clone()));
        }
    }
    Ok(())
}

/// Returns the session as plugins show it to the model in this request; `None` where they leave it as it is.
pub async fn change_messages(
    cx: &TurnCx<'_>,
    state: &SessionState,
) -> Result<Option<SessionState>, ProviderError> {
    let Some(host) = cx.plugins.as_ref().filter(|host| host.declares(MESSAGES)) else { return Ok(None) };
    let changed = host.hook(MESSAGES, json!({}), json!({ "messages": &*state.history })).await;
    let Some(messages) = changed.map_err(|error| failed(&error))?.remove("messages") else { return Ok(None) };
    let messages = whole_messages(state, messages);
    let messages: Vec<MessageWithParts> = serde_json::from_value(messages).map_err(|error| {
        let message = format!("a plugin left messages that cannot be read: {error}");
        ProviderError::Api { message, status: None, body: None }
    })?;
    Ok(Some(SessionState::new(state.info.clone(), messages)))
}

/// Fills in what plugins leave out of the messages that they add: the user's newest one has it.
fn whole_messages(state: &SessionState, mut messages: Value) -> Value {
    let mut known = state.history.iter().rev().map(|it| &it.info);
    let newest = known.find(|it| matches!(it, Message::User(_)));
    let defaults = serde_json::to_value(newest).unwrap_or_default();
    for message in messages.as_array_mut().into_iter().flatten() {
        let Some(info) = message.get_mut("info").and_then(Value::as_object_mut) else { continue };
        info.entry("id").or_insert_with(|| json!(ids::message()));
        let id = info.get("id").cloned();
        if info.get("role") == defaults.get("role") {
            for (key, value) in defaults.as_object().into_iter().flatten() {
                info.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        for part in message.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(part) = part.as_object_mut() else { continue };
            part.entry("id").or_insert_with(|| json!(ids::part()));
            part.entry("sessionID").or_insert_with(|| json!(state.info.id));
            part.entry("messageID").or_insert_with(|| id.clone().unwrap_or_default());
        }
    }
    messages
}

/// Lets plugins change the system prompt, the parameters and the headers of a request, in one call.
pub async fn change_request(
    cx: &TurnCx<'_>,
    state: &SessionState,
    prompt: &mut Prompt<'_>,
) -> Result<(), ProviderError> {
    let Some(host) = &cx.plugins else { return Ok(()) };
    let whole = prompt.system.join("\n\n");
    let outputs = [
        (SYSTEM, json!({ "system": [whole] })),
        (PARAMS, shown_params(prompt)),
        (HEADERS, json!({ "headers": {} })),
    ];
    let declared = outputs.into_iter().filter(|(hook, _)| host.declares(hook));
    let outputs: Map<String, Value> = declared.map(|(hook, output)| (hook.to_owned(), output)).collect();
    if outputs.is_empty() {
        return Ok(());
    }
    let mut messages = state.history.iter().rev().map(|it| &it.info);
    let message = messages.find(|it| matches!(it, Message::User(_)));
    let input = json!({ "sessionID": state.info.id, "agent": cx.agent.name, "message": message });
    let providers = cx.session.engine.shown_providers(&cx.loaded).await;
    let shown = Shown { providers: &providers, provider: &cx.model.provider_id, model: &cx.model.id };
    let mut changed = host.request_hooks(shown, input, outputs).await.map_err(|error| failed(&error))?;
    let mut changed = |hook: &str| match changed.get_mut(hook).map(Value::take) {
        Some(Value::Object(changed)) => changed,
        _ => Map::new(),
    };
    take_system(&whole, &changed(SYSTEM), prompt);
    take_params(changed(PARAMS), prompt);
    let headers = changed(HEADERS);
    let headers = headers.get("headers").and_then(Value::as_object).into_iter().flatten();
    let headers = headers.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    prompt.headers.extend(headers);
    Ok(())
}

fn take_system(whole: &str, changed: &Map<String, Value>, prompt: &mut Prompt<'_>) {
    let Some(Value::Array(texts)) = changed.get("system") else { return };
    let texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    // Blocks that no plugin changed stay as they are, so that a provider's cache holds.
    if texts.first() != Some(&whole) {
        prompt.system.clear();
        prompt.system.extend(texts.first().map(|text| Cow::Owned((*text).to_owned())));
    }
    let more = texts.get(1..).unwrap_or_default().join("\n");
    if !more.is_empty() {
        prompt.system.push(Cow::Owned(more));
    }
}

fn shown_params(prompt: &Prompt<'_>) -> Value {
    let mut output = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            output.insert(key.to_owned(), value);
        }
    };
    set("temperature", prompt.temperature.map(Value::from));
    set("topP", prompt.top_p.map(Value::from));
    set("topK", prompt.top_k.map(Value::from));
    set("maxOutputTokens", prompt.max_output_tokens.map(Value::from));
    set("options", Some(Value::Object(prompt.options.clone())));
    Value::Object(output)
}

fn take_params(changed: Map<String, Value>, prompt: &mut Prompt<'_>) {
    for (key, value) in changed {
        match key.as_str() {
            "temperature" => prompt.temperature = value.as_f64(),
            "topP" => prompt.top_p = value.as_f64(),
            "topK" => prompt.top_k = value.as_u64(),
            "maxOutputTokens" => prompt.max_output_tokens = value.as_u64(),
            "options" => prompt.options = value.as_object().cloned().unwrap_or_default(),
            _ => {}
        }
    }
}

/// Returns the provider and the model as clients see them.
async fn shown_model(cx: &TurnCx<'_>) -> Option<(Provider, ProviderModel)> {
    let providers = cx.session.engine.shown_providers(&cx.loaded).await;
    let provider = providers.providers.iter().find(|it| it.id == cx.model.provider_id)?;
    Some((provider.clone(), provider.models.get(&cx.model.id)?.clone()))
}

/// Makes a hook's failure an error of the request, which ends the step.
fn failed(error: &HookError) -> ProviderError {
    ProviderError::Api { message: error.to_string(), status: None, body: None }
}
