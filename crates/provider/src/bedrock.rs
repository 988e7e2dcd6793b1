//! The Converse wire of Amazon Bedrock.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    AssistantContent, Encoded, Media, Model, Prompt, PromptMessage, ToolResult, UserContent, aws,
    http::{
        body::{self, Accepted, Fields},
        placeholder, schema,
    },
};

mod decoder;
mod documents;
mod regions;
#[cfg(test)]
mod tests;

pub use self::{decoder::Decoder, regions::regional_id};

/// Maximum bytes of a call's id.
const MAX_ID: usize = 64;

/// Returns the URL for requests.
pub fn url(model: &Model) -> String {
    let id = aws::sigv4::encode(&model.api_id);
    body::join(&model.base_url, &format!("/model/{id}/converse-stream"))
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let family = Family::of(model);
    let Options { thinking_budget, mut others, fields: own_fields } = options(model, prompt);
    let mut fields = Fields::new();
    let system = system(model, prompt);
    if !system.is_empty() {
        fields.structured("system", Structured::System(system));
    }
    fields.structured("messages", Structured::Messages(messages(model, prompt)));
    let mut inference = Map::new();
    let max_tokens = body::with_thinking(model, prompt.max_output_tokens, thinking_budget);
    inference.insert("maxTokens".to_owned(), max_tokens.into());
    // A thinking model refuses sampling settings, and newer ones refuse two of them at once.
    if thinking_budget.is_none() {
        match (prompt.temperature.filter(|_| model.takes_temperature), prompt.top_p) {
            (Some(temperature), _) => _ = inference.insert("temperature".to_owned(), temperature.into()),
            (None, Some(top_p)) => _ = inference.insert("topP".to_owned(), top_p.into()),
            (None, None) => {}
        }
        if let Some(top_k) = prompt.top_k.filter(|_| family == Family::Claude) {
            others.entry("top_k").or_insert(top_k.into());
        }
    }
    fields.json("inferenceConfig", Value::Object(inference));
    if let Some(tools) = tools(model, prompt) {
        fields.structured("toolConfig", Structured::Tools(tools));
    }
    if !others.is_empty() {
        fields.json("additionalModelRequestFields", Value::Object(others));
    }
    if family == Family::Claude {
        fields.json("additionalModelResponseFieldPaths", json!(["/delta/stop_sequence"]));
    }
    for (name, value) in own_fields {
        fields.borrowed(name, value);
    }
    fields.encode()
}

/// The makers of models, as far as the wire differs between them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Claude,
    Nova,
    Llama4,
    Mistral,
    OpenAi,
    Other,
}

impl Family {
    fn of(model: &Model) -> Family {
        let id = model.api_id.to_ascii_lowercase();
        let families = [
            ("claude", Family::Claude),
            ("anthropic", Family::Claude),
            ("amazon.nova", Family::Nova),
            ("llama4", Family::Llama4),
            ("mistral", Family::Mistral),
            ("openai.", Family::OpenAi),
        ];
        families.iter().find(|(name, _)| id.contains(name)).map_or(Family::Other, |(_, family)| *family)
    }
}

/// Options in the places where the wire has them.
struct Options<'a> {
    /// Set for a model that thinks; 0 if it decides how much.
    thinking_budget: Option<u64>,
    /// Fields that only the model's maker knows.
    others: Map<String, Value>,
    fields: Vec<(&'a str, &'a Value)>,
}

/// Translates the JavaScript SDK's names, which OpenCode's users write into `options`.
fn options<'a>(model: &'a Model, prompt: &'a Prompt<'_>) -> Options<'a> {
    let mut options = Options { thinking_budget: None, others: Map::new(), fields: Vec::new() };
    for (key, value) in body::options(model, &prompt.options) {
        match key.as_str() {
            "setCacheKey" | "interleaved" => {}
            "guardrailConfig" | "performanceConfig" | "promptVariables" | "requestMetadata" => {
                options.fields.push((key, value));
            }
            "thinking" => {
                options.thinking_budget = body::thinking_budget(value);
                options.others.insert("thinking".to_owned(), body::snake_case_budget(value));
            }
            "effort" => _ = options.others.insert("output_config".to_owned(), json!({"effort": value})),
            "reasoningEffort" => _ = options.others.insert("reasoning_effort".to_owned(), value.clone()),
            "additionalModelRequestFields" => {
                options.others.extend(value.as_object().cloned().unwrap_or_default());
            }
            _ => _ = options.others.insert(key.clone(), value.clone()),
        }
    }
    options
}

/// A part of the body that is not plain JSON yet.
#[derive(Serialize)]
#[serde(untagged)]
enum Structured<'a> {
    System(Vec<Block<'a>>),
    Messages(Vec<Message<'a>>),
    Tools(Tools<'a>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    tools: Vec<Tool<'a>>,
    tool_choice: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    tool_spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: Cow<'a, Value>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: Role,
    content: Vec<Block<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Block<'a> {
    Text(Cow<'a, str>),
    Image(Image<'a>),
    Document(Document<'a>),
    ReasoningContent(Reasoning<'a>),
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: String,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: String,
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'static str>,
    },
    CachePoint(CachePoint),
    #[serde(untagged)]
    Encoded(Cow<'a, RawValue>),
}

#[derive(Serialize)]
struct CachePoint {
    #[serde(rename = "type")]
    kind: &'static str,
}

const CACHE_POINT: Block<'static> = Block::CachePoint(CachePoint { kind: "default" });

#[derive(Serialize)]
struct Image<'a> {
    format: &'a str,
    source: Source<'a>,
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    name: String,
    source: Source<'a>,
}

#[derive(Serialize)]
struct Source<'a> {
    bytes: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Reasoning<'a> {
    ReasoningText { text: &'a str, signature: &'a str },
    RedactedContent(&'a str),
}

fn system<'a>(model: &Model, prompt: &'a Prompt<'_>) -> Vec<Block<'a>> {
    let texts = prompt.system.iter().filter(|text| !text.trim().is_empty());
    let mut blocks: Vec<Block<'a>> = texts.map(|text| Block::Text(Cow::Borrowed(text))).collect();
    if !blocks.is_empty() && Family::of(model) == Family::Claude {
        blocks.push(CACHE_POINT);
    }
    blocks
}

fn tools<'a>(model: &Model, prompt: &'a Prompt<'_>) -> Option<Tools<'a>> {
    let tools: Vec<Tool<'a>> = prompt
        .tools
        .iter()
        .filter(|tool| model.takes_tools || tool.name == placeholder::NAME)
        .map(|tool| {
            let input_schema = Schema { json: schema::plain_object(&tool.schema) };
            Tool { tool_spec: Spec { name: &tool.name, description: &tool.description, input_schema } }
        })
        .collect();
    (!tools.is_empty()).then(|| Tools { tools, tool_choice: json!({"auto": {}}) })
}

fn messages<'a>(model: &Model, prompt: &'a Prompt<'_>) -> Vec<Message<'a>> {
    let mut messages: Vec<Message<'a>> = Vec::with_capacity(prompt.messages.len());
    for message in &prompt.messages {
        for (role, content) in blocks(model, message) {
            match messages.last_mut() {
                Some(last) if last.role == role => last.content.extend(content),
                Some(_) | None => messages.push(Message { role, content }),
            }
        }
    }
    documents::name_apart(&mut messages);
    // An answer that is to be continued must not end in white space.
    if let Some(Message { role: Role::Assistant, content }) = messages.last_mut()
        && let Some(Block::Text(text)) = content.last_mut()
    {
        *text = Cow::Owned(text.trim_end().to_owned());
    }
    if Family::of(model) == Family::Claude {
        for message in messages.iter_mut().rev().take(2) {
            message.content.push(CACHE_POINT);
        }
    }
    messages
}

/// Implements [`encoded`](super::encoded()).
pub fn encoded(model: &Model, messages: &[PromptMessage<'_>]) -> Vec<Encoded> {
    let mut pieces = Vec::new();
    for (role, blocks) in messages.iter().flat_map(|message| blocks(model, message)) {
        pieces.extend(blocks.iter().filter_map(|block| body::encode_piece(role == Role::Assistant, block)));
    }
    pieces
}

/// Returns the blocks of a message by role; nothing for a message without blocks.
fn blocks<'a>(model: &Model, message: &'a PromptMessage<'_>) -> Vec<(Role, Vec<Block<'a>>)> {
    let mut by_role = match message {
        PromptMessage::User(contents) => {
            let blocks = contents.iter().filter_map(|content| match content {
                UserContent::Text(text) if text.trim().is_empty() => None,
                UserContent::Text(text) => Some(Block::Text(Cow::Borrowed(text))),
                UserContent::Media(media) => Some(media_block(model, media)),
            });
            vec![(Role::User, blocks.collect())]
        }
        PromptMessage::Assistant(contents) => vec![(Role::Assistant, answer_blocks(model, contents))],
        PromptMessage::ToolResults(results) => vec![(Role::User, result_blocks(model, results))],
        PromptMessage::Encoded(pieces) => body::runs(pieces)
            .map(|(is_models, run)| {
                let role = if is_models { Role::Assistant } else { Role::User };
                (role, run.iter().map(|piece| Block::Encoded(Cow::Borrowed(&*piece.json))).collect())
            })
            .collect(),
    };
    by_role.retain(|(_, blocks): &(Role, Vec<Block<'_>>)| !blocks.is_empty());
    by_role
}

fn answer_blocks<'a>(model: &Model, contents: &'a [AssistantContent<'_>]) -> Vec<Block<'a>> {
    let mut blocks = Vec::with_capacity(contents.len());
    let mut calls = Vec::new();
    for content in contents {
        match content {
            AssistantContent::Text(text) if text.trim().is_empty() => {}
            AssistantContent::Text(text) => blocks.push(Block::Text(Cow::Borrowed(text))),
            AssistantContent::Reasoning { signature: None, .. } => {}
            AssistantContent::Reasoning { text, signature: Some(signature) } => {
                blocks.push(Block::ReasoningContent(match signature.strip_prefix(body::REDACTED) {
                    Some(data) => Reasoning::RedactedContent(data),
                    None => Reasoning::ReasoningText { text, signature },
                }));
            }
            // Calls must be the last blocks of a message.
            AssistantContent::ToolCall { call_id, name, input, signature: _ } => {
                let (tool_use_id, input) = (call_id_of(model, call_id), body::input_object(input));
                calls.push(Block::ToolUse { tool_use_id, name, input });
            }
        }
    }
    blocks.append(&mut calls);
    blocks
}

fn result_blocks<'a>(model: &Model, results: &'a [ToolResult<'_>]) -> Vec<Block<'a>> {
    let family = Family::of(model);
    let mut blocks = Vec::with_capacity(results.len());
    let mut apart = Vec::new();
    for result in results {
        let mut content = Vec::with_capacity(1 + result.media.len());
        if !result.output.trim().is_empty() {
            content.push(Block::Text(Cow::Borrowed(&result.output)));
        }
        for media in &result.media {
            let block = media_block(model, media);
            let is_native = match &block {
                Block::Image(_) => matches!(family, Family::Claude | Family::Nova | Family::Llama4),
                Block::Document(_) => matches!(family, Family::Claude | Family::Nova),
                _ => true,
            };
            if is_native { content.push(block) } else { apart.push(block) }
        }
        if content.is_empty() {
            content.push(Block::Text(Cow::Borrowed("(no output)")));
        }
        // The others do not know it.
        let knows_errors = matches!(family, Family::Claude | Family::Nova);
        blocks.push(Block::ToolResult {
            tool_use_id: call_id_of(model, result.call_id),
            content,
            status: (result.is_error && knows_errors).then_some("error"),
        });
    }
    if !apart.is_empty() {
        blocks.push(Block::Text(Cow::Borrowed("Attached media from tool result:")));
        blocks.append(&mut apart);
    }
    blocks
}

fn media_block<'a>(model: &Model, media: &'a Media<'a>) -> Block<'a> {
    let source = |media: &Media<'a>| Source { bytes: media.base64 };
    match body::accept(model, media) {
        Accepted::Image(media) => {
            let format = media.mime.strip_prefix("image/").unwrap_or(media.mime);
            let format = if format == "jpg" { "jpeg" } else { format };
            Block::Image(Image { format, source: source(media) })
        }
        Accepted::Pdf(media) => Block::Document(Document {
            format: "pdf",
            name: document_name(media.filename),
            source: source(media),
        }),
        Accepted::Note(note) => Block::Text(Cow::Owned(note)),
    }
}

/// Returns a document's name in the characters that are allowed.
fn document_name(filename: Option<&str>) -> String {
    let stem = filename.map(|name| name.rsplit_once('.').map_or(name, |(stem, _)| stem)).unwrap_or_default();
    let is_allowed = |c: &char| c.is_ascii_alphanumeric() || ['-', '(', ')', '[', ']'].contains(c);
    let words: Vec<String> =
        stem.split(|c: char| !is_allowed(&c)).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let name = words.join(" ");
    if name.is_empty() { "document".to_owned() } else { name.chars().take(100).collect() }
}

/// Returns a call's id in the form that the model takes.
fn call_id_of(model: &Model, id: &str) -> String {
    if Family::of(model) == Family::Mistral {
        return body::short_call_id(id).into_owned();
    }
    let id = body::plain_call_id(id);
    // Long ids that begin alike must not become one.
    if id.len() > MAX_ID { format!("w{:08x}", crc32fast::hash(id.as_bytes())) } else { id }
}

/// Returns true if a model thinks in Anthropic's way, which defaults and variants depend on.
pub(crate) fn is_claude(api_id: &str) -> bool {
    api_id.contains("claude") || api_id.contains("anthropic")
}
