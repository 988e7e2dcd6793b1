//! The OpenAI chat-completions wire.

use std::borrow::Cow;

use serde::{Serialize, ser::SerializeMap};
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
    body::join(&model.base_url, "/chat/completions")
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let is_openai = model.base_url.contains("//api.openai.com");
    let set_cache_key = body::options(model, &prompt.options).find(|(key, _)| *key == "setCacheKey");
    let set_cache_key =
        set_cache_key.map_or(is_openai || model.has(Quirk::CacheKey), |(_, value)| value == true);
    let reasoning_field = reasoning_field(model, &prompt.options);

    let mut fields = Fields::new();
    fields.json("model", model.api_id.as_str());
    fields.list("messages", &messages(model, prompt, reasoning_field));
    if model.takes_tools && !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| Tool::Ours {
            kind: "function",
            function: ToolFunction {
                name: &tool.name,
                description: &tool.description,
                parameters: parameters(model, &tool.schema),
            },
        });
        let own = body::own_tools(model, &prompt.options).into_iter().map(Tool::Providers);
        fields.structured("tools", tools.chain(own).collect::<Vec<_>>());
    }
    fields.json("stream", true);
    if model.has(Quirk::AsksForUsage) {
        fields.json("usage", json!({"include": true}));
    }
    if !model.has(Quirk::NoStreamOptions) {
        fields.json("stream_options", json!({"include_usage": true}));
    }
    if model.takes_temperature
        && let Some(temperature) = prompt.temperature
    {
        fields.json("temperature", temperature);
    }
    if let Some(top_p) = prompt.top_p {
        fields.json("top_p", top_p);
    }
    if prompt.max_output_tokens.is_some() {
        // OpenAI's reasoning models refuse the older name; most other servers do not know the newer one.
        let is_newer = is_openai || model.has(Quirk::MaxCompletionTokens);
        let key = if is_newer { "max_completion_tokens" } else { "max_tokens" };
        fields.json(key, body::cap_output(model, prompt.max_output_tokens));
    }
    if set_cache_key && let Some(cache_key) = prompt.cache_key {
        fields.json("prompt_cache_key", cache_key);
    }
    for (key, value) in body::options(model, &prompt.options) {
        if let Some(name) = wire_name(key) {
            fields.borrowed(name, value);
        }
    }
    fields.encode()
}

/// Implements [`encoded`](super::encoded()).
pub fn encoded(model: &Model, options: &Map<String, Value>, messages: &[PromptMessage<'_>]) -> Vec<Encoded> {
    let mut pieces = Vec::new();
    for message in messages {
        push_message(model, message, reasoning_field(model, options), &mut pieces);
    }
    let encode = |piece: &Message<'_>| body::encode_piece(matches!(piece, Message::Assistant { .. }), piece);
    pieces.iter().filter_map(encode).collect()
}

/// The field in which a model gets its thoughts back.
#[derive(Clone, Copy)]
struct ReasoningField<'a> {
    name: &'a str,
    /// True if it is there for answers without thoughts too.
    is_always: bool,
}

/// Returns the field for thoughts; `None` if the model gets none back.
fn reasoning_field<'a>(model: &'a Model, options: &'a Map<String, Value>) -> Option<ReasoningField<'a>> {
    let named = body::options(model, options).find(|(key, _)| *key == "interleaved");
    let named = named.and_then(|(_, value)| value.as_str().or_else(|| value.get("field")?.as_str()));
    if model.has(Quirk::NoReasoning) {
        None
    } else if model.has(Quirk::ReasoningField) || model.has(Quirk::ReasoningDetails) {
        Some(ReasoningField { name: "reasoning", is_always: false })
    } else {
        Some(ReasoningField { name: named.unwrap_or("reasoning_content"), is_always: named.is_some() })
    }
}

/// Translates the JavaScript SDK's names, which OpenCode's users write into `options`.
fn wire_name(option: &str) -> Option<&str> {
    Some(match option {
        "setCacheKey" | "interleaved" | "tools" => return None,
        "reasoningEffort" => "reasoning_effort",
        "textVerbosity" => "verbosity",
        "serviceTier" => "service_tier",
        "promptCacheKey" => "prompt_cache_key",
        "parallelToolCalls" => "parallel_tool_calls",
        "maxCompletionTokens" => "max_completion_tokens",
        other => other,
    })
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Ours {
        #[serde(rename = "type")]
        kind: &'static str,
        function: ToolFunction<'a>,
    },
    Providers(&'a Value),
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, Value>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Developer {
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    User {
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Assistant {
        content: Option<Content<'a>>,
        #[serde(flatten)]
        reasoning: Option<Reasoning<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        content: Content<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Encoded(&'a RawValue),
}

impl ListItem for Message<'_> {
    fn encoded(&self) -> Option<&RawValue> {
        match self {
            Message::Encoded(json) => Some(json),
            _new => None,
        }
    }
}

fn parameters<'a>(model: &Model, schema: &'a Value) -> Cow<'a, Value> {
    let parameters = schema::plain_object(schema);
    if model.has(Quirk::PlainReferences) {
        Cow::Owned(schema::with_plain_references(&parameters))
    } else {
        parameters
    }
}

/// A message's content, as plain text where possible: many servers take nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

impl Content<'_> {
    /// Turns a plain text into a part.
    fn part(&mut self) {
        if let Content::Text(text) = self {
            *self = Content::Parts(vec![Part::text(std::mem::take(text))]);
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ImageUrl {
        image_url: ImageUrl,
    },
    #[serde(rename = "image_url")]
    PlainImage {
        image_url: String,
    },
    File {
        file: File<'a>,
    },
}

impl<'a> Part<'a> {
    fn text(text: Cow<'a, str>) -> Part<'a> {
        Part::Text { text, cache_control: None }
    }
}

/// A mark up to which the provider keeps the conversation (facts: provider requests §4.5).
#[derive(Clone, Copy, Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

const MARK: Option<CacheControl> = Some(CacheControl { kind: "ephemeral" });

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

/// Thoughts under the name in the model's `interleaved` option.
struct Reasoning<'a> {
    field: &'a str,
    text: String,
    /// The thoughts in the provider's own form, with their signatures.
    details: Vec<Value>,
}

impl Serialize for Reasoning<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.field, &self.text)?;
        if !self.details.is_empty() {
            map.serialize_entry("reasoning_details", &self.details)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionCall<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: String,
}

fn messages<'a>(
    model: &Model,
    prompt: &'a Prompt<'_>,
    reasoning_field: Option<ReasoningField<'a>>,
) -> Vec<Message<'a>> {
    let mut res = Vec::with_capacity(prompt.messages.len() + 1);
    // One message, because chat templates of local models refuse a second one.
    let system: Vec<&str> =
        prompt.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        let content = text_content(model, Cow::Owned(system.join("\n\n")));
        let cache_control = None;
        res.push(if model.has(Quirk::DeveloperRole) {
            Message::Developer { content, cache_control }
        } else {
            Message::System { content, cache_control }
        });
    }
    for message in &prompt.messages {
        push_message(model, message, reasoning_field, &mut res);
    }
    let id = model.api_id.to_ascii_lowercase();
    if id.contains("claude") || id.contains("anthropic") || model.has(Quirk::MarksAll) {
        let is_system = |message: &&mut Message<'_>| matches!(message, Message::System { .. });
        res.iter_mut().filter(is_system).for_each(|message| mark(model, message));
        res.iter_mut().rev().take(2).for_each(|message| mark(model, message));
    }
    res
}

/// Marks a message: on itself or on its last call, or on its last part where the server looks there.
fn mark(model: &Model, message: &mut Message<'_>) {
    let is_on_parts = model.has(Quirk::CacheControl) || model.has(Quirk::MarksAll) || model.has(Quirk::Parts);
    let (content, cache_control) = match message {
        Message::System { content, cache_control }
        | Message::Developer { content, cache_control }
        | Message::User { content, cache_control } => {
            if is_on_parts {
                content.part();
            }
            (Some(content), cache_control)
        }
        Message::Assistant { content: Some(Content::Text(_)), .. } if is_on_parts => return,
        Message::Assistant { tool_calls, .. } if !is_on_parts && !tool_calls.is_empty() => {
            if let Some(call) = tool_calls.last_mut() {
                call.cache_control = MARK;
            }
            return;
        }
        Message::Assistant { content, cache_control, .. } => (content.as_mut(), cache_control),
        Message::Tool { content, cache_control, .. } => {
            if model.has(Quirk::MarksAll) {
                content.part();
            }
            (Some(content), cache_control)
        }
        Message::Encoded(_) => return,
    };
    if let Some(Content::Parts(parts)) = content
        && let Some(Part::Text { cache_control, .. }) = parts.last_mut()
    {
        *cache_control = MARK;
    } else {
        *cache_control = MARK;
    }
}

fn push_message<'a>(
    model: &Model,
    message: &'a PromptMessage<'_>,
    reasoning_field: Option<ReasoningField<'a>>,
    res: &mut Vec<Message<'a>>,
) {
    match message {
        PromptMessage::User(contents) => {
            let parts: Vec<Part<'a>> = contents
                .iter()
                .filter_map(|content| match content {
                    UserContent::Text(text) if text.is_empty() => None,
                    UserContent::Text(text) => Some(Part::text(Cow::Borrowed(text))),
                    UserContent::Media(media) => Some(media_part(model, media)),
                })
                .collect();
            if !parts.is_empty() {
                res.push(Message::User { content: content(model, parts), cache_control: None });
            }
        }
        PromptMessage::Assistant(contents) => res.extend(assistant(model, contents, reasoning_field)),
        PromptMessage::ToolResults(results) => tool_results(model, results, res),
        PromptMessage::Encoded(pieces) => {
            res.extend(pieces.iter().map(|piece| Message::Encoded(&piece.json)));
        }
    }
}

fn content<'a>(model: &Model, parts: Vec<Part<'a>>) -> Content<'a> {
    if model.has(Quirk::Mistral) || model.has(Quirk::Parts) {
        return Content::Parts(parts);
    }
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text, .. } => Some(&**text),
            Part::ImageUrl { .. } | Part::PlainImage { .. } | Part::File { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => Content::Text(Cow::Owned(texts.join("\n\n"))),
        None => Content::Parts(parts),
    }
}

fn text_content<'a>(model: &Model, text: Cow<'a, str>) -> Content<'a> {
    if model.has(Quirk::Parts) { Content::Parts(vec![Part::text(text)]) } else { Content::Text(text) }
}

fn media_part<'a>(model: &Model, media: &'a Media<'a>) -> Part<'a> {
    match body::accept(model, media) {
        Accepted::Image(media) if model.has(Quirk::Mistral) => {
            Part::PlainImage { image_url: body::data_url(media) }
        }
        Accepted::Image(media) => Part::ImageUrl { image_url: ImageUrl { url: body::data_url(media) } },
        Accepted::Pdf(media) => Part::File {
            file: File {
                filename: media.filename.unwrap_or("document.pdf"),
                file_data: body::data_url(media),
            },
        },
        Accepted::Note(note) => Part::text(Cow::Owned(note)),
    }
}

fn assistant<'a>(
    model: &Model,
    contents: &'a [AssistantContent<'_>],
    reasoning_field: Option<ReasoningField<'a>>,
) -> Option<Message<'a>> {
    let mut texts = Vec::new();
    let mut thoughts = Vec::new();
    let mut details: Vec<Value> = Vec::new();
    let mut tool_calls = Vec::new();
    for content in contents {
        match content {
            AssistantContent::Text(text) if text.is_empty() => {}
            AssistantContent::Text(text) => texts.push(&**text),
            AssistantContent::Reasoning { text, signature } => {
                thoughts.push(&**text);
                if model.has(Quirk::ReasoningDetails)
                    && let Some(Ok(Value::Array(more))) = signature.map(serde_json::from_str)
                {
                    details.extend(more);
                }
            }
            AssistantContent::ToolCall { call_id, name, input, signature: _ } => tool_calls.push(ToolCall {
                id: call_id_of(model, call_id),
                kind: "function",
                function: FunctionCall { name, arguments: body::input_object(input).to_string() },
                cache_control: None,
            }),
        }
    }
    if texts.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let is_sent = !thoughts.is_empty()
        || model.has(Quirk::EmptyReasoning)
        || reasoning_field.is_some_and(|it| it.is_always);
    let reasoning_field = reasoning_field.map(|it| it.name);
    let text = thoughts.concat();
    let reasoning = reasoning_field.filter(|_| is_sent).map(|field| Reasoning { field, text, details });
    let content = match texts[..] {
        [] if model.has(Quirk::NullContent) => None,
        [] => Some(text_content(model, Cow::Borrowed(if model.has(Quirk::Parts) { "\n" } else { "" }))),
        _ => Some(text_content(model, Cow::Owned(texts.join("\n\n")))),
    };
    Some(Message::Assistant { content, reasoning, tool_calls, cache_control: None })
}

fn tool_results<'a>(model: &Model, results: &'a [ToolResult<'_>], res: &mut Vec<Message<'a>>) {
    let mut media_parts = Vec::new();
    for result in results {
        let name = model.has(Quirk::NamedResults).then_some(result.name);
        let tool_call_id = call_id_of(model, result.call_id);
        let content = text_content(model, Cow::Borrowed(&result.output));
        res.push(Message::Tool { tool_call_id, name, content, cache_control: None });
        media_parts.extend(result.media.iter().map(|media| media_part(model, media)));
    }
    // Tool messages contain text only, and no other message may come between them.
    if !media_parts.is_empty() {
        if model.has(Quirk::Mistral) {
            let content = Some(Content::Text(Cow::Borrowed("Done.")));
            let tool_calls = Vec::new();
            res.push(Message::Assistant { content, reasoning: None, tool_calls, cache_control: None });
        }
        media_parts.insert(0, Part::text(Cow::Borrowed("Attached media from tool result:")));
        res.push(Message::User { content: content(model, media_parts), cache_control: None });
    }
}

/// Returns a call's id in the form that the provider takes.
fn call_id_of<'a>(model: &Model, id: &'a str) -> Cow<'a, str> {
    if model.has(Quirk::Mistral) { body::short_call_id(id) } else { Cow::Borrowed(id) }
}
