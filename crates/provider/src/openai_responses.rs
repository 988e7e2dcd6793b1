//! The OpenAI responses wire.
//!
//! Nothing is stored at the provider: items go back without ids, thoughts as their encrypted content.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    AssistantContent, Encoded, Media, Model, Prompt, PromptMessage, Quirk, ToolResult, UserContent,
    http::{
        body::{self, Accepted, Fields, ListItem},
        schema,
    },
};

mod decoder;
#[cfg(test)]
mod tests;

pub use self::decoder::Decoder;

/// Returns the URL for requests.
pub fn url(model: &Model) -> String {
    body::join(&model.base_url, "/responses")
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let Options { set_cache_key, reasoning, text, others } = options(model, prompt);
    let is_thinking = model.reasons && reasoning.get("effort").is_none_or(|effort| effort != "none");

    let mut fields = Fields::new();
    fields.json("model", model.api_id.as_str());
    fields.list("input", &items(model, prompt));
    if model.has(Quirk::Instructions) {
        fields.json("instructions", system(prompt));
    }
    if model.takes_tools && !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| Tool::Ours {
            kind: "function",
            name: &tool.name,
            description: &tool.description,
            parameters: schema::plain_object(&tool.schema),
            strict: false,
        });
        let own = body::own_tools(model, &prompt.options).into_iter().map(Tool::Providers);
        fields.structured("tools", tools.chain(own).collect::<Vec<_>>());
        fields.json("tool_choice", "auto");
    }
    fields.json("stream", true);
    fields.json("store", false);
    if prompt.max_output_tokens.is_some() && !model.has(Quirk::NoOutputLimit) {
        fields.json("max_output_tokens", body::cap_output(model, prompt.max_output_tokens));
    }
    // A thinking model refuses sampling settings.
    if !is_thinking {
        if let Some(temperature) = prompt.temperature.filter(|_| model.takes_temperature) {
            fields.json("temperature", temperature);
        }
        if let Some(top_p) = prompt.top_p {
            fields.json("top_p", top_p);
        }
    }
    if set_cache_key && let Some(cache_key) = prompt.cache_key {
        fields.json("prompt_cache_key", cache_key);
    }
    if model.reasons {
        fields.json("include", json!(["reasoning.encrypted_content"]));
    }
    if !reasoning.is_empty() {
        fields.json("reasoning", Value::Object(reasoning));
    }
    if !text.is_empty() {
        fields.json("text", Value::Object(text));
    }
    for (name, value) in others {
        fields.borrowed(name, value);
    }
    fields.encode()
}

/// Options in the places where the wire has them.
struct Options<'a> {
    set_cache_key: bool,
    reasoning: Map<String, Value>,
    text: Map<String, Value>,
    others: Vec<(&'a str, &'a Value)>,
}

/// Translates the JavaScript SDK's names, which OpenCode's users write into `options`.
fn options<'a>(model: &'a Model, prompt: &'a Prompt<'_>) -> Options<'a> {
    let mut options = Options {
        set_cache_key: !model.has(Quirk::NoCacheKey),
        reasoning: Map::new(),
        text: Map::new(),
        others: Vec::new(),
    };
    for (key, value) in body::options(model, &prompt.options) {
        let (group, name) = match key.as_str() {
            "setCacheKey" => {
                options.set_cache_key = value == true;
                continue;
            }
            // Settings of the SDK itself, or of other wires.
            "tools" | "interleaved" | "strictJsonSchema" | "systemMessageMode" | "forceReasoning" => continue,
            "reasoningEffort" | "reasoning_effort" => (Some(&mut options.reasoning), "effort"),
            "reasoningSummary" if model.has(Quirk::NoSummary) => continue,
            "reasoningSummary" => (Some(&mut options.reasoning), "summary"),
            "textVerbosity" => (Some(&mut options.text), "verbosity"),
            "serviceTier" => (None, "service_tier"),
            "promptCacheKey" => (None, "prompt_cache_key"),
            "promptCacheRetention" => (None, "prompt_cache_retention"),
            "parallelToolCalls" => (None, "parallel_tool_calls"),
            "maxToolCalls" => (None, "max_tool_calls"),
            "previousResponseId" => (None, "previous_response_id"),
            "safetyIdentifier" => (None, "safety_identifier"),
            other => (None, other),
        };
        match (group, name, value) {
            (Some(group), name, value) => _ = group.insert(name.to_owned(), value.clone()),
            (None, "reasoning", Value::Object(fields)) => options.reasoning.extend(fields.clone()),
            (None, "text", Value::Object(fields)) => options.text.extend(fields.clone()),
            (None, name, value) => options.others.push((name, value)),
        }
    }
    options
}

/// Implements [`encoded`](super::encoded()).
pub fn encoded(model: &Model, messages: &[PromptMessage<'_>]) -> Vec<Encoded> {
    let mut items = Vec::new();
    for message in messages {
        push_message(model, message, &mut items);
    }
    let is_models = |item: &Item<'_>| match item {
        Item::Said { role, .. } => *role == "assistant",
        Item::FunctionCall { .. } | Item::Reasoning { .. } => true,
        Item::FunctionCallOutput { .. } | Item::Encoded(_) => false,
    };
    items.iter().filter_map(|item| body::encode_piece(is_models(item), item)).collect()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Ours {
        #[serde(rename = "type")]
        kind: &'static str,
        name: &'a str,
        description: &'a str,
        parameters: Cow<'a, Value>,
        strict: bool,
    },
    Providers(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Reasoning {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        encrypted_content: &'a str,
        summary: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    FunctionCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a str>,
        call_id: &'a str,
        name: &'a str,
        arguments: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    FunctionCallOutput {
        call_id: &'a str,
        output: Content<'a>,
    },
    #[serde(untagged)]
    Said {
        role: &'static str,
        content: Content<'a>,
    },
    #[serde(untagged)]
    Encoded(&'a RawValue),
}

impl ListItem for Item<'_> {
    fn encoded(&self) -> Option<&RawValue> {
        match self {
            Item::Encoded(json) => Some(json),
            _new => None,
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    InputText { text: Cow<'a, str> },
    OutputText { text: &'a str },
    SummaryText { text: &'a str },
    InputImage { image_url: String },
    InputFile { filename: &'a str, file_data: String },
}

fn system(prompt: &Prompt<'_>) -> String {
    let texts = prompt.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<&str>>().join("\n\n")
}

fn items<'a>(model: &Model, prompt: &'a Prompt<'_>) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(prompt.messages.len() + 1);
    let system = system(prompt);
    if !system.is_empty() && !model.has(Quirk::Instructions) {
        let is_developer = model.reasons && !model.has(Quirk::SystemRole);
        let role = if is_developer { "developer" } else { "system" };
        items.push(Item::Said { role, content: Content::Text(Cow::Owned(system)) });
    }
    for message in &prompt.messages {
        push_message(model, message, &mut items);
    }
    items
}

fn push_message<'a>(model: &Model, message: &'a PromptMessage<'_>, items: &mut Vec<Item<'a>>) {
    match message {
        PromptMessage::User(contents) => {
            let parts: Vec<Part<'a>> = contents
                .iter()
                .filter_map(|content| match content {
                    UserContent::Text(text) if text.is_empty() => None,
                    UserContent::Text(text) => Some(Part::InputText { text: Cow::Borrowed(text) }),
                    UserContent::Media(media) => Some(media_part(model, media)),
                })
                .collect();
            if !parts.is_empty() {
                items.push(Item::Said { role: "user", content: Content::Parts(parts) });
            }
        }
        PromptMessage::Assistant(contents) => push_answer(model, contents, items),
        PromptMessage::ToolResults(results) => {
            items.extend(results.iter().map(|result| result_item(model, result)));
        }
        PromptMessage::Encoded(pieces) => items.extend(pieces.iter().map(|piece| Item::Encoded(&piece.json))),
    }
}

fn push_answer<'a>(model: &Model, contents: &'a [AssistantContent<'_>], items: &mut Vec<Item<'a>>) {
    for (at, content) in contents.iter().enumerate() {
        match content {
            AssistantContent::Text(text) if text.is_empty() => {}
            AssistantContent::Text(text) => items.push(Item::Said {
                role: "assistant",
                content: Content::Parts(vec![Part::OutputText { text }]),
            }),
            AssistantContent::Reasoning { signature: None, .. } => {}
            // A thought that nothing follows, as that of a cancelled answer, is refused.
            AssistantContent::Reasoning { text, signature: Some(signature) } => {
                let is_followed = contents[at + 1..].iter().any(|content| match content {
                    AssistantContent::Text(text) => !text.is_empty(),
                    AssistantContent::ToolCall { .. } => true,
                    AssistantContent::Reasoning { .. } => false,
                });
                let summary = if text.is_empty() { Vec::new() } else { vec![Part::SummaryText { text }] };
                if is_followed {
                    let (id, encrypted_content) = decoder::split_signature(signature);
                    let id = id.filter(|_| model.has(Quirk::ItemIds));
                    let status = id.map(|_| "completed");
                    items.push(Item::Reasoning { id, encrypted_content, summary, status });
                }
            }
            AssistantContent::ToolCall { call_id, name, input, signature: _ } => {
                let has_id = model.has(Quirk::ItemIds);
                items.push(Item::FunctionCall {
                    id: has_id.then_some(call_id),
                    status: has_id.then_some("completed"),
                    call_id,
                    name,
                    arguments: body::input_object(input).to_string(),
                });
            }
        }
    }
}

fn result_item<'a>(model: &Model, result: &'a ToolResult<'_>) -> Item<'a> {
    let text = Cow::Borrowed(&*result.output);
    let output = if result.media.is_empty() {
        Content::Text(text)
    } else {
        let text = (!text.is_empty()).then_some(Part::InputText { text });
        let media = result.media.iter().map(|media| media_part(model, media));
        Content::Parts(text.into_iter().chain(media).collect())
    };
    Item::FunctionCallOutput { call_id: result.call_id, output }
}

fn media_part<'a>(model: &Model, media: &'a Media<'a>) -> Part<'a> {
    match body::accept(model, media) {
        Accepted::Image(media) => Part::InputImage { image_url: body::data_url(media) },
        Accepted::Pdf(media) => Part::InputFile {
            filename: media.filename.unwrap_or("document.pdf"),
            file_data: body::data_url(media),
        },
        Accepted::Note(note) => Part::InputText { text: Cow::Owned(note) },
    }
}
