//! The Anthropic messages wire.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use windlass_base::sse;

use super::{
    AssistantContent, Delta, Encoded, Finish, Media, Model, Prompt, PromptMessage, ProviderError, Quirk,
    ToolResult, Usage, UserContent, Wire,
    http::{
        blocks::Blocks,
        body::{self, Accepted, Fields},
        decode::{Answer, Decode},
        failure, schema,
    },
};

#[cfg(test)]
mod tests;

/// The version of the wire, which every request names.
pub(super) const VERSION: &str = "2023-06-01";

/// Returns the URL for requests.
pub fn url(model: &Model) -> String {
    if model.has(Quirk::Vertex) {
        body::join(&model.base_url, &format!("/models/{}:streamRawPredict", model.api_id))
    } else {
        body::join(&model.base_url, "/messages")
    }
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let mut thinking_budget = None;
    for (key, value) in body::options(model, &prompt.options) {
        if key == "thinking" {
            thinking_budget = body::thinking_budget(value);
        }
    }
    let max_tokens = body::with_thinking(model, prompt.max_output_tokens, thinking_budget);

    let mut fields = Fields::new();
    if model.has(Quirk::Vertex) {
        // The address names the model there.
        fields.json("anthropic_version", "vertex-2023-10-16");
    } else {
        fields.json("model", model.api_id.as_str());
    }
    fields.json("max_tokens", max_tokens);
    let system = system(prompt);
    if !system.is_empty() {
        fields.structured("system", Structured::Blocks(system));
    }
    fields.structured("messages", Structured::Messages(messages(model, prompt)));
    if model.takes_tools && !prompt.tools.is_empty() {
        // Only Anthropic's own models know the word.
        let is_eager = model.has(Quirk::EagerInput) && model.api_id.contains("claude");
        let tools = prompt.tools.iter().map(|tool| Tool::Ours {
            name: &tool.name,
            description: &tool.description,
            input_schema: schema::plain_object(&tool.schema),
            eager_input_streaming: is_eager,
        });
        let own = body::own_tools(model, &prompt.options).into_iter().map(Tool::Providers);
        fields.structured("tools", Structured::Tools(tools.chain(own).collect()));
    }
    fields.json("stream", true);
    // A thinking Claude refuses sampling settings, and newer ones refuse two of them at once; other families want all.
    let takes_all = model.sampling.top_k.is_some();
    let temperature = prompt.temperature.filter(|_| model.takes_temperature);
    if thinking_budget.is_none() || takes_all {
        if let Some(temperature) = temperature {
            fields.json("temperature", temperature);
        }
        if let Some(top_p) = prompt.top_p.filter(|_| temperature.is_none() || takes_all) {
            fields.json("top_p", top_p);
        }
        if let Some(top_k) = prompt.top_k.filter(|_| takes_all) {
            fields.json("top_k", top_k);
        }
    }
    for (key, value) in body::options(model, &prompt.options) {
        match key.as_str() {
            // OpenCode's users write the names of the JavaScript SDK.
            "thinking" => fields.json("thinking", thinking(model, &prompt.options, value)),
            "tools" | "blockBinding" => {}
            "effort" => fields.json("output_config", json!({ "effort": value })),
            key => fields.borrowed(key, value),
        }
    }
    fields.encode()
}

/// Returns the option `thinking` as the wire has it.
fn thinking(model: &Model, options: &Map<String, Value>, value: &Value) -> Value {
    let mut value = body::snake_case_budget(value);
    let is_off = body::options(model, options).any(|(key, value)| key == "blockBinding" && value == false);
    // Vertex knows no headers of features, so that nothing could switch the field on.
    if (is_off || model.has(Quirk::Vertex))
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("block_binding");
    }
    value
}

/// Returns the feature that a request's `thinking` needs a header for.
pub(super) fn beta(model: &Model, options: &Map<String, Value>) -> Option<&'static str> {
    let (_, value) = body::options(model, options).find(|(key, _)| *key == "thinking")?;
    let is_bound =
        model.wire == Wire::Anthropic && thinking(model, options, value).get("block_binding").is_some();
    is_bound.then_some("thinking-binding-controls-2026-08-01")
}

/// A part of the body that is not plain JSON yet.
#[derive(Serialize)]
#[serde(untagged)]
enum Structured<'a> {
    Blocks(Vec<Block<'a>>),
    Messages(Vec<Message<'a>>),
    Tools(Vec<Tool<'a>>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum Tool<'a> {
    Ours {
        name: &'a str,
        description: &'a str,
        input_schema: Cow<'a, Value>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        eager_input_streaming: bool,
    },
    Providers(&'a Value),
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
#[serde(untagged)]
enum Block<'a> {
    Plain {
        #[serde(flatten)]
        content: BlockContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Encoded(&'a RawValue),
    /// A call or result of a tool of the provider's own.
    Provided(Box<RawValue>),
}

impl<'a> From<BlockContent<'a>> for Block<'a> {
    fn from(content: BlockContent<'a>) -> Block<'a> {
        Block::Plain { content, cache_control: None }
    }
}

#[derive(Serialize)]
struct CacheControl {
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum BlockContent<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Cow<'a, Value>,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<ResultContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// The result of a tool: its text, or a list where there is more.
#[derive(Serialize)]
#[serde(untagged)]
enum ResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<BlockContent<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'a str,
    data: &'a str,
}

fn system<'a>(prompt: &'a Prompt<'_>) -> Vec<Block<'a>> {
    let texts = prompt.system.iter().filter(|text| !text.trim().is_empty());
    let mut blocks: Vec<Block<'a>> =
        texts.map(|text| BlockContent::Text { text: Cow::Borrowed(text) }.into()).collect();
    // Four marks are allowed: two here, two on messages. The first text is the one that sessions share.
    if let Some(first) = blocks.first_mut() {
        mark(first);
    }
    if let Some(last) = blocks.last_mut() {
        mark(last);
    }
    blocks
}

fn mark(block: &mut Block<'_>) {
    match block {
        Block::Plain { cache_control, .. } => *cache_control = Some(CacheControl { kind: "ephemeral" }),
        Block::Encoded(_) | Block::Provided(_) => {}
    }
}

fn messages<'a>(model: &Model, prompt: &'a Prompt<'_>) -> Vec<Message<'a>> {
    let mut res: Vec<Message<'a>> = Vec::with_capacity(prompt.messages.len());
    for message in &prompt.messages {
        for (role, content) in blocks(model, message) {
            match res.last_mut() {
                Some(last) if last.role == role => last.content.extend(content),
                Some(_) | None => res.push(Message { role, content }),
            }
        }
    }
    // An answer that is to be continued must not end in white space.
    if let Some(last) = res.last_mut()
        && last.role == Role::Assistant
        && let Some(Block::Plain { content: BlockContent::Text { text }, .. }) = last.content.last_mut()
    {
        *text = Cow::Owned(text.trim_end().to_owned());
    }
    for message in res.iter_mut().rev().take(2) {
        let can_be_marked = |block: &&mut Block<'_>| match block {
            Block::Plain { content, .. } => {
                !matches!(content, BlockContent::Thinking { .. } | BlockContent::RedactedThinking { .. })
            }
            Block::Encoded(_) | Block::Provided(_) => false,
        };
        if let Some(block) = message.content.iter_mut().rev().find(can_be_marked) {
            mark(block);
        }
    }
    res
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
            let blocks = contents.iter().filter_map(|content| user_block(model, content));
            vec![(Role::User, blocks.collect())]
        }
        PromptMessage::Assistant(contents) => vec![(Role::Assistant, assistant_blocks(contents))],
        PromptMessage::ToolResults(results) => {
            vec![(Role::User, results.iter().map(|result| result_block(model, result)).collect())]
        }
        PromptMessage::Encoded(pieces) => body::runs(pieces)
            .map(|(is_models, run)| {
                let role = if is_models { Role::Assistant } else { Role::User };
                (role, run.iter().map(|piece| Block::Encoded(&piece.json)).collect())
            })
            .collect(),
    };
    by_role.retain(|(_, blocks): &(Role, Vec<Block<'_>>)| !blocks.is_empty());
    by_role
}

fn user_block<'a>(model: &Model, content: &'a UserContent<'_>) -> Option<Block<'a>> {
    match content {
        UserContent::Text(text) if text.trim().is_empty() => None,
        UserContent::Text(text) => Some(BlockContent::Text { text: Cow::Borrowed(text) }.into()),
        UserContent::Media(media) => Some(media_block(model, media).into()),
    }
}

fn media_block<'a>(model: &Model, media: &'a Media<'a>) -> BlockContent<'a> {
    let source = |media: &'a Media<'a>| Source {
        kind: "base64",
        media_type: if media.mime == "image/jpg" { "image/jpeg" } else { media.mime },
        data: media.base64,
    };
    match body::accept(model, media) {
        Accepted::Image(media) => BlockContent::Image { source: source(media) },
        Accepted::Pdf(media) => BlockContent::Document { source: source(media), title: media.filename },
        Accepted::Note(note) => BlockContent::Text { text: Cow::Owned(note) },
    }
}

fn assistant_blocks<'a>(contents: &'a [AssistantContent<'_>]) -> Vec<Block<'a>> {
    let mut res: Vec<Block<'a>> = Vec::with_capacity(contents.len());
    let mut calls = Vec::new();
    for content in contents {
        match content {
            AssistantContent::Text(text) if text.trim().is_empty() => {}
            AssistantContent::Text(text) => res.push(BlockContent::Text { text: Cow::Borrowed(text) }.into()),
            AssistantContent::Reasoning { signature: None, .. } => {}
            AssistantContent::Reasoning { text, signature: Some(signature) } => {
                res.push(match (signature.strip_prefix(body::REDACTED), body::of_provider(signature)) {
                    (Some(data), _) => BlockContent::RedactedThinking { data }.into(),
                    (None, Some(block)) => Block::Provided(block),
                    (None, None) => BlockContent::Thinking { thinking: text, signature }.into(),
                });
            }
            // Calls must be the last blocks of a message.
            AssistantContent::ToolCall { call_id, name, input, signature: _ } => calls.push(
                BlockContent::ToolUse {
                    id: body::plain_call_id(call_id),
                    name,
                    input: body::input_object(input),
                }
                .into(),
            ),
        }
    }
    res.append(&mut calls);
    res
}

fn result_block<'a>(model: &Model, result: &'a ToolResult<'_>) -> Block<'a> {
    let text = (!result.output.trim().is_empty()).then_some(&*result.output);
    let content = if result.media.is_empty() {
        text.map(ResultContent::Text)
    } else {
        let text = text.map(|text| BlockContent::Text { text: Cow::Borrowed(text) });
        let media = result.media.iter().map(|media| media_block(model, media));
        Some(ResultContent::Blocks(text.into_iter().chain(media).collect()))
    };
    BlockContent::ToolResult {
        tool_use_id: body::plain_call_id(result.call_id),
        content,
        is_error: result.is_error,
    }
    .into()
}

/// A decoder of the events of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    blocks: Blocks,
    /// The call or result of a tool of the provider's own that is being received, and its arguments.
    provided: Option<(Value, String)>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    index: u64,
    #[serde(default)]
    message: Value,
    // Boxed like all that few events hold: the others are moved faster.
    #[serde(default)]
    content_block: Option<Box<ContentBlock>>,
    #[serde(default)]
    delta: EventDelta,
    #[serde(default)]
    usage: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentBlock {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EventDelta {
    #[serde(rename = "type")]
    kind: DeltaKind,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeltaKind {
    TextDelta,
    ThinkingDelta,
    SignatureDelta,
    InputJsonDelta,
    /// A later addition.
    #[default]
    #[serde(other)]
    Other,
}

impl Decode for Decoder {
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.answer.is_done || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        // An error has fields of other types under the names read here.
        if event.event.as_deref() == Some("error") {
            return Err(failure::from_event(&body::parse(data)?));
        }
        let event: Event = body::parse(data)?;
        match event.kind.as_str() {
            "message_start" => {
                self.count(event.message.get("usage").unwrap_or(&Value::Null), deltas);
            }
            "content_block_start" => match event.content_block {
                Some(block) if is_provided(&block.kind) => {
                    let block = body::parse::<Value>(data)?["content_block"].take();
                    self.provided = Some((block, String::new()));
                }
                block => self.start(event.index, *block.unwrap_or_default(), deltas),
            },
            "content_block_delta" if self.provided.is_some() => {
                let json = event.delta.partial_json.unwrap_or_default();
                self.provided.iter_mut().for_each(|(_, input)| input.push_str(&json));
            }
            "content_block_stop" if self.provided.is_some() => self.end_provided(deltas),
            "content_block_delta" => self.delta(event.index, event.delta, deltas),
            "content_block_stop" => self.blocks.end(event.index, deltas),
            "message_delta" => {
                self.count(&event.usage, deltas);
                if let Some(reason) = event.delta.stop_reason {
                    self.answer.finish = Some(match reason.as_str() {
                        "end_turn" | "stop_sequence" => Finish::Stop,
                        "tool_use" => Finish::ToolCalls,
                        "max_tokens" | "model_context_window_exceeded" => Finish::Length,
                        "refusal" => Finish::ContentFilter,
                        "pause_turn" => Finish::Paused,
                        _ => Finish::Unknown,
                    });
                }
            }
            "message_stop" => self.end(deltas),
            "error" => return Err(failure::from_event(&body::parse(data)?)),
            "" if failure::holds_error(&body::parse(data)?) => {
                return Err(failure::from_event(&body::parse(data)?));
            }
            // `ping`, and any later additions: unknown events are to be ignored.
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn end_blocks(&mut self, deltas: &mut Vec<Delta>) {
        self.blocks.end_all(deltas);
    }
}

impl Decoder {
    fn start(&mut self, index: u64, content: ContentBlock, deltas: &mut Vec<Delta>) {
        let answer = &mut self.answer;
        match content.kind.as_str() {
            "text" => {
                let block = self.blocks.begin(answer, index, deltas, |block| Delta::TextStart { block });
                push_some(deltas, content.text, |text| Delta::Text { block, text });
            }
            "thinking" => {
                let block = self.blocks.begin(answer, index, deltas, |block| Delta::ReasoningStart { block });
                push_some(deltas, content.thinking, |text| Delta::Reasoning { block, text });
                push_some(deltas, content.signature, |signature| Delta::Signature { block, signature });
            }
            "redacted_thinking" => {
                let block = self.blocks.begin(answer, index, deltas, |block| Delta::ReasoningStart { block });
                let signature = format!("{}{}", body::REDACTED, content.data.unwrap_or_default());
                deltas.push(Delta::Signature { block, signature });
            }
            "tool_use" => {
                let input = body::input_object(&content.input).to_string();
                let call = (content.id, content.name.unwrap_or_default(), input);
                self.blocks.begin_call(answer, index, deltas, call);
            }
            // Later additions.
            _ => {}
        }
    }

    /// Shows the input or the results of a tool of the provider's own.
    fn end_provided(&mut self, deltas: &mut Vec<Delta>) {
        let Some((mut block, input)) = self.provided.take() else { return };
        if let Ok(input) = serde_json::from_str::<Value>(&input) {
            block["input"] = input;
        }
        let shown = match block["content"].as_array() {
            None => format!("{}: {}", block["name"].as_str().unwrap_or("tool"), block["input"]),
            Some(found) => body::sources(found.iter().map(|it| (&it["title"], &it["url"]))),
        };
        deltas.extend(body::provided(self.answer.next_block(), shown, Some(&block)));
    }

    fn delta(&mut self, index: u64, delta: EventDelta, deltas: &mut Vec<Delta>) {
        let Some(block) = self.blocks.find(index) else { return };
        match delta.kind {
            DeltaKind::TextDelta => push_some(deltas, delta.text, |text| Delta::Text { block, text }),
            DeltaKind::ThinkingDelta => {
                push_some(deltas, delta.thinking, |text| Delta::Reasoning { block, text })
            }
            DeltaKind::SignatureDelta => {
                push_some(deltas, delta.signature, |signature| Delta::Signature { block, signature })
            }
            DeltaKind::InputJsonDelta => {
                self.blocks.call_input(index, delta.partial_json.unwrap_or_default(), deltas);
            }
            DeltaKind::Other => {}
        }
    }

    fn count(&mut self, usage: &Value, deltas: &mut Vec<Delta>) {
        let before = self.answer.usage();
        // The counts are totals, and the last event may leave out those of the first one.
        let usage = Usage {
            input: before.input.max(body::count(usage, "/input_tokens")),
            output: before.output.max(body::count(usage, "/output_tokens")),
            reasoning: 0,
            cache_read: before.cache_read.max(body::count(usage, "/cache_read_input_tokens")),
            cache_write: before.cache_write.max(body::count(usage, "/cache_creation_input_tokens")),
        };
        self.answer.count(usage, deltas);
    }
}

/// Returns true for a block of a tool that the provider runs itself.
fn is_provided(kind: &str) -> bool {
    kind == "server_tool_use" || (kind.ends_with("_tool_result") && kind != "tool_result")
}

fn push_some(deltas: &mut Vec<Delta>, text: Option<String>, delta: impl FnOnce(String) -> Delta) {
    deltas.extend(text.filter(|text| !text.is_empty()).map(delta));
}
