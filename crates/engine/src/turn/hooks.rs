//! The hooks of plugins in a turn: each gets the value that it may change, and the changed value takes its place.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts},
    model_ref::ModelRef,
    part::FilePart,
    provider::{Provider, ProviderModel},
};

pub mod command;
pub mod message;

use super::{call_host::CallHost, toolbox::Toolbox};
use crate::{
    Engine,
    session::{context::TurnCx, state::SessionState},
    workspace::loaded::Loaded,
};
use windlass_base::ids;
use windlass_provider::{Model, Prompt, ProviderError};
use windlass_services::{
    plugin::host::{HookError, Host, RequestModel},
    tool::{
        ToolError, ToolOutput,
        row::{Schema, Tool},
    },
};

const MESSAGES: &str = "experimental.chat.messages.transform";
const SYSTEM: &str = "experimental.chat.system.transform";
const PARAMS: &str = "chat.params";
const HEADERS: &str = "chat.headers";
const SMALL_MODEL: &str = "experimental.provider.small_model";
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
    let mut changed = changed.map_err(|error| ToolError::Model(error.for_model()))?;
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
    let is_servers = tool.is_servers();
    let input =
        json!({ "tool": tool.name, "sessionID": call.session_id, "callID": call.call_id, "args": args });
    let output =
        if is_servers { json!({ "content": content(&tool_output) }) } else { shown_result(&tool_output) };
    let changed = host.hook(AFTER_TOOL, input, output).await;
    let changed = changed.map_err(|error| ToolError::Model(error.for_model()))?;
    Ok(changed_output(tool_output, changed))
}

/// Returns a result as plugins are shown it.
fn shown_result(tool_output: &ToolOutput) -> Value {
    let ToolOutput { title, output, metadata, attachments } = tool_output;
    let mut shown = json!({ "title": title, "output": output, "metadata": metadata });
    if !attachments.is_empty() {
        let files = attachments.iter().map(|file| {
            let mut shown = json!(file);
            shown["type"] = "file".into();
            shown
        });
        shown["attachments"] = files.collect();
    }
    shown
}

/// Returns a result in the form in which MCP servers give theirs.
fn content(tool_output: &ToolOutput) -> Vec<Value> {
    let images = tool_output.attachments.iter().filter_map(|file| {
        let (_, data) = file.url.split_once(";base64,")?;
        Some(json!({ "type": "image", "data": data, "mimeType": file.mime }))
    });
    std::iter::once(json!({ "type": "text", "text": tool_output.output })).chain(images).collect()
}

fn changed_output(mut tool_output: ToolOutput, changed: Map<String, Value>) -> ToolOutput {
    for (key, value) in changed {
        match (key.as_str(), value) {
            ("title", Value::String(title)) => tool_output.title = title,
            ("output", Value::String(output)) => tool_output.output = output,
            ("metadata", Value::Object(metadata)) => tool_output.metadata = metadata,
            ("content", Value::Array(content)) => {
                let texts = content.iter().filter_map(|it| it.get("text")?.as_str());
                tool_output.output = texts.collect::<Vec<_>>().join("\n\n");
                let images = content.iter().filter_map(|it| {
                    let (data, mime) = (it.get("data")?.as_str()?, it.get("mimeType")?.as_str()?);
                    let url = format!("data:{mime};base64,{data}");
                    Some(FilePart { mime: mime.to_owned(), filename: None, url, source: None })
                });
                tool_output.attachments = images.collect();
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
    let messages = transformed(host, state, json!(&*state.history)).await?;
    Ok(messages.map(|messages| SessionState::new(state.info.clone(), messages)))
}

/// Returns the messages that a summary is made from as plugins leave them; `None` where they leave them as they are.
pub async fn change_some(
    cx: &TurnCx<'_>,
    state: &SessionState,
    head: &[(MessageId, String)],
) -> Result<Option<Vec<MessageWithParts>>, ProviderError> {
    let Some(host) = cx.plugins.as_ref().filter(|host| host.declares(MESSAGES)) else { return Ok(None) };
    let ids: HashSet<&MessageId> = head.iter().map(|(id, _)| id).collect();
    let messages: Vec<_> = state.history.iter().filter(|message| ids.contains(message.info.id())).collect();
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => Ok(None),
        messages = transformed(host, state, json!(messages)) => messages,
    }
}

async fn transformed(
    host: &Host,
    state: &SessionState,
    messages: Value,
) -> Result<Option<Vec<MessageWithParts>>, ProviderError> {
    let changed = host.hook(MESSAGES, json!({}), json!({ "messages": messages })).await;
    let Some(messages) = changed.map_err(|error| failed(&error))?.remove("messages") else { return Ok(None) };
    let messages = serde_json::from_value(whole_messages(state, messages)).map_err(|error| {
        ProviderError::Unsent { message: format!("a plugin left messages that cannot be read: {error}") }
    })?;
    Ok(Some(messages))
}

/// Fills in the fields that plugins leave out of the messages that they add: the user's newest one has them.
fn whole_messages(state: &SessionState, mut messages: Value) -> Value {
    let defaults = serde_json::to_value(newest_prompt(state)).unwrap_or_default();
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

/// The origin of a request to a model, as plugins are shown it.
pub struct Origin<'a> {
    pub host: &'a Host,
    pub engine: &'a Engine,
    pub loaded: &'a Arc<Loaded>,
    pub session_id: &'a SessionId,
    pub agent: &'a str,
    pub model: &'a Model,
    /// The user's newest message.
    pub message: Option<&'a Message>,
}

impl<'a> Origin<'a> {
    /// Returns the origin of a turn's requests; `None` where no plugins run.
    pub fn of(cx: &'a TurnCx<'_>, state: &'a SessionState) -> Option<Self> {
        Some(Self {
            host: cx.plugins.as_deref()?,
            engine: &cx.session.engine,
            loaded: &cx.loaded,
            session_id: &state.info.id,
            agent: &cx.agent.name,
            model: &cx.model,
            message: newest_prompt(state),
        })
    }
}

/// Returns the user's newest message.
pub fn newest_prompt(state: &SessionState) -> Option<&Message> {
    state.history.iter().rev().map(|it| &it.info).find(|it| matches!(it, Message::User(_)))
}

/// Lets plugins change the system prompt, the parameters and the headers of a request, in one call.
pub async fn change_request(origin: &Origin<'_>, prompt: &mut Prompt<'_>) -> Result<(), ProviderError> {
    let Origin { host, engine, loaded, session_id, agent, model, message } = origin;
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
    let input = json!({ "sessionID": session_id, "agent": agent, "message": message });
    let providers = engine.plugins().shown_providers(loaded).await;
    let request_model =
        RequestModel { providers: &providers, provider: &model.provider_id, model: &model.id };
    let mut changed =
        host.request_hooks(request_model, input, outputs).await.map_err(|error| failed(&error))?;
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

/// Lets plugins change the system prompt of a request that belongs to no session.
pub async fn change_system(
    engine: &Engine,
    loaded: &Arc<Loaded>,
    model: &Model,
    prompt: &mut Prompt<'_>,
) -> Result<(), ProviderError> {
    let host = engine.plugins().host(&loaded.config.directory).filter(|host| host.declares(SYSTEM));
    let Some(host) = host else { return Ok(()) };
    let whole = prompt.system.join("\n\n");
    let outputs = Map::from_iter([(SYSTEM.to_owned(), json!({ "system": [whole] }))]);
    let providers = engine.plugins().shown_providers(loaded).await;
    let request_model =
        RequestModel { providers: &providers, provider: &model.provider_id, model: &model.id };
    let mut changed =
        host.request_hooks(request_model, json!({}), outputs).await.map_err(|error| failed(&error))?;
    if let Some(Value::Object(changed)) = changed.get_mut(SYSTEM).map(Value::take) {
        take_system(&whole, &changed, prompt);
    }
    Ok(())
}

/// Returns the small model that plugins want asked for a title, where neither the agent nor `small_model` names one.
pub async fn small_model(
    host: &Host,
    engine: &Engine,
    loaded: &Arc<Loaded>,
    main: &Model,
) -> Result<Option<Model>, HookError> {
    if !host.declares(SMALL_MODEL) {
        return Ok(None);
    }
    let providers = engine.plugins().shown_providers(loaded).await;
    let request_model = RequestModel { providers: &providers, provider: &main.provider_id, model: &main.id };
    let Some(model_id) = host.small_model(request_model).await? else { return Ok(None) };
    let reference = ModelRef { provider_id: main.provider_id.clone(), model_id, variant: None };
    let model = loaded.checked_model(&reference);
    if let Err(unusable) = &model {
        tracing::warn!(%unusable, "a plugin named a small model that cannot be asked");
    }
    Ok(model.ok())
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
pub async fn shown_model(
    engine: &Engine,
    loaded: &Arc<Loaded>,
    model: &ModelRef,
) -> Option<(Provider, ProviderModel)> {
    let providers = engine.plugins().shown_providers(loaded).await;
    let provider = providers.providers.iter().find(|it| it.id == model.provider_id)?;
    Some((provider.clone(), provider.models.get(&model.model_id)?.clone()))
}

/// Makes a hook's failure an error of the request, which ends the step.
fn failed(error: &HookError) -> ProviderError {
    ProviderError::Unsent { message: error.to_string() }
}
