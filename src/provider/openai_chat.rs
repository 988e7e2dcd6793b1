//! The OpenAI chat-completions wire.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    AssistantContent, Delta, Encoded, Finish, Media, Model, Prompt, PromptMessage, ProviderError, Quirk,
    ToolResult, Usage, UserContent,
    http::{
        body::{self, Accepted, Fields},
        failure,
    },
};
use crate::base::sse;

#[cfg(test)]
mod tests;

/// Returns the URL for requests.
pub fn url(model: &Model) -> String {
    body::join(&model.base_url, "/chat/completions")
}

/// Encodes the request's JSON.
pub fn encode(model: &Model, prompt: &Prompt<'_>) -> Vec<u8> {
    let is_openai = model.base_url.contains("//api.openai.com");
    let set_cache_key = body::options(model, &prompt.options).find(|(key, _)| *key == "setCacheKey");
    let set_cache_key = set_cache_key.map_or(is_openai, |(_, value)| value == true);
    let reasoning_field = reasoning_field(model, &prompt.options);

    let mut fields = Fields::new();
    fields.json("model", model.api_id.as_str());
    fields.structured("messages", Structured::Messages(messages(model, prompt, reasoning_field)));
    if model.takes_tools && !prompt.tools.is_empty() {
        let tools = prompt.tools.iter().map(|tool| Tool {
            kind: "function",
            function: ToolFunction {
                name: &tool.name,
                description: &tool.description,
                parameters: &tool.schema,
            },
        });
        fields.structured("tools", Structured::Tools(tools.collect()));
    }
    fields.json("stream", true);
    fields.json("stream_options", json!({"include_usage": true}));
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
        let key = if is_openai { "max_completion_tokens" } else { "max_tokens" };
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

/// Returns the name of the field in which the model gets its thoughts back; `None` if it gets none.
fn reasoning_field<'a>(model: &'a Model, options: &'a Map<String, Value>) -> Option<&'a str> {
    let named = body::options(model, options).find(|(key, _)| *key == "interleaved");
    let named = named.and_then(|(_, value)| value.as_str().or_else(|| value.get("field")?.as_str()));
    if model.has(Quirk::NoReasoning) {
        None
    } else if model.has(Quirk::ReasoningField) || model.has(Quirk::ReasoningDetails) {
        Some("reasoning")
    } else {
        named.or(Some("reasoning_content"))
    }
}

/// Translates the JavaScript SDK's names, which OpenCode's users write into `options`.
fn wire_name(option: &str) -> Option<&str> {
    Some(match option {
        "setCacheKey" | "interleaved" => return None,
        "reasoningEffort" => "reasoning_effort",
        "textVerbosity" => "verbosity",
        "serviceTier" => "service_tier",
        "promptCacheKey" => "prompt_cache_key",
        "parallelToolCalls" => "parallel_tool_calls",
        "maxCompletionTokens" => "max_completion_tokens",
        other => other,
    })
}

/// A part of the body that is not plain JSON yet.
#[derive(Serialize)]
#[serde(untagged)]
enum Structured<'a> {
    Messages(Vec<Message<'a>>),
    Tools(Vec<Tool<'a>>),
}

#[derive(Serialize)]
struct Tool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: ToolFunction<'a>,
}

#[derive(Serialize)]
struct ToolFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: String,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<String>,
        #[serde(flatten)]
        reasoning: Option<Reasoning<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
    },
    Tool {
        tool_call_id: &'a str,
        content: &'a str,
    },
    #[serde(untagged)]
    Encoded(&'a RawValue),
}

/// A message's content, as plain text where possible: many servers take nothing else.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(String),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl },
    File { file: File<'a> },
}

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
}

impl Serialize for Reasoning<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map([(self.field, &self.text)])
    }
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: FunctionCall<'a>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    arguments: String,
}

fn messages<'a>(model: &Model, prompt: &'a Prompt<'_>, reasoning_field: Option<&'a str>) -> Vec<Message<'a>> {
    let mut res = Vec::with_capacity(prompt.messages.len() + 1);
    // One message, because chat templates of local models refuse a second one.
    let system: Vec<&str> =
        prompt.system.iter().map(|text| &**text).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        res.push(Message::System { content: system.join("\n\n") });
    }
    for message in &prompt.messages {
        push_message(model, message, reasoning_field, &mut res);
    }
    res
}

fn push_message<'a>(
    model: &Model,
    message: &'a PromptMessage<'_>,
    reasoning_field: Option<&'a str>,
    res: &mut Vec<Message<'a>>,
) {
    match message {
        PromptMessage::User(contents) => {
            let parts: Vec<Part<'a>> = contents
                .iter()
                .filter_map(|content| match content {
                    UserContent::Text(text) if text.is_empty() => None,
                    UserContent::Text(text) => Some(Part::Text { text: Cow::Borrowed(text) }),
                    UserContent::Media(media) => Some(media_part(model, media)),
                })
                .collect();
            if !parts.is_empty() {
                res.push(Message::User { content: content(parts) });
            }
        }
        PromptMessage::Assistant(contents) => res.extend(assistant(contents, reasoning_field)),
        PromptMessage::ToolResults(results) => tool_results(model, results, res),
        PromptMessage::Encoded(pieces) => {
            res.extend(pieces.iter().map(|piece| Message::Encoded(&piece.json)));
        }
    }
}

fn content(parts: Vec<Part<'_>>) -> Content<'_> {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|part| match part {
            Part::Text { text } => Some(&**text),
            Part::ImageUrl { .. } | Part::File { .. } => None,
        })
        .collect();
    match texts {
        Some(texts) => Content::Text(texts.join("\n\n")),
        None => Content::Parts(parts),
    }
}

fn media_part<'a>(model: &Model, media: &'a Media<'a>) -> Part<'a> {
    match body::accept(model, media) {
        Accepted::Image(media) => Part::ImageUrl { image_url: ImageUrl { url: body::data_url(media) } },
        Accepted::Pdf(media) => Part::File {
            file: File {
                filename: media.filename.unwrap_or("document.pdf"),
                file_data: body::data_url(media),
            },
        },
        Accepted::Note(note) => Part::Text { text: Cow::Owned(note) },
    }
}

fn assistant<'a>(
    contents: &'a [AssistantContent<'_>],
    reasoning_field: Option<&'a str>,
) -> Option<Message<'a>> {
    let mut texts = Vec::new();
    let mut thoughts = Vec::new();
    let mut tool_calls = Vec::new();
    for content in contents {
        match content {
            AssistantContent::Text(text) if text.is_empty() => {}
            AssistantContent::Text(text) => texts.push(&**text),
            AssistantContent::Reasoning { text, signature: _ } => thoughts.push(&**text),
            AssistantContent::ToolCall { call_id, name, input, signature: _ } => tool_calls.push(ToolCall {
                id: call_id,
                kind: "function",
                function: FunctionCall { name, arguments: body::input_object(input).to_string() },
            }),
        }
    }
    if texts.is_empty() && tool_calls.is_empty() {
        return None;
    }
    let reasoning = reasoning_field
        .filter(|_| !thoughts.is_empty())
        .map(|field| Reasoning { field, text: thoughts.concat() });
    let content = (!texts.is_empty()).then(|| texts.join("\n\n"));
    Some(Message::Assistant { content, reasoning, tool_calls })
}

fn tool_results<'a>(model: &Model, results: &'a [ToolResult<'_>], res: &mut Vec<Message<'a>>) {
    let mut media_parts = Vec::new();
    for result in results {
        res.push(Message::Tool { tool_call_id: result.call_id, content: &result.output });
        media_parts.extend(result.media.iter().map(|media| media_part(model, media)));
    }
    // Tool messages contain text only, and no other message may come between them.
    if !media_parts.is_empty() {
        media_parts.insert(0, Part::Text { text: Cow::Borrowed("Attached media from tool result:") });
        res.push(Message::User { content: content(media_parts) });
    }
}

/// A decoder of the fragments of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    n_blocks: u32,
    /// The text or thought being received.
    open: Option<Open>,
    calls: Vec<Call>,
    /// Set after a tool call was completed.
    has_calls: bool,
    finish: Option<Finish>,
    usage: Usage,
    done: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Text(u32),
    Reasoning(u32),
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    id: String,
    /// The block's number; `None` until the name has arrived, with which the call begins.
    block: Option<u32>,
    /// Arguments that arrived before the name.
    pending: String,
    has_input: bool,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    object: Value,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<ChoiceDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    usage: Value,
    #[serde(default)]
    error: Value,
}

#[derive(Default, Deserialize)]
struct ChoiceDelta {
    #[serde(default)]
    content: Value,
    #[serde(default)]
    refusal: Value,
    #[serde(default)]
    reasoning_content: Value,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    tool_calls: Option<Vec<CallDelta>>,
}

#[derive(Deserialize)]
struct CallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Value,
}

impl Decoder {
    /// Appends the deltas of `event` to `deltas`.
    pub fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == "[DONE]" {
            self.end(deltas);
            return Ok(());
        }
        let chunk: Chunk = body::parse(data)?;
        let is_error = !chunk.error.is_null()
            || chunk.object == "error"
            || (chunk.choices.is_none() && event.event.as_deref() == Some("error"));
        if is_error {
            return Err(failure::from_event(&body::parse(data)?));
        }
        self.count(&chunk.usage, deltas);
        // We request only one answer.
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() else { return Ok(()) };
        if !choice.error.is_null() {
            return Err(failure::from_event(&choice.error));
        }
        self.count(&choice.usage, deltas);
        self.delta(choice.delta.unwrap_or_default(), deltas);
        // Some servers send an empty reason with every chunk.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.finish = Some(match reason.as_str() {
                "stop" => Finish::Stop,
                "tool_calls" | "function_call" => Finish::ToolCalls,
                "length" => Finish::Length,
                "content_filter" => Finish::ContentFilter,
                _ => Finish::Unknown,
            });
            self.end_blocks(deltas);
        }
        Ok(())
    }

    /// Returns true after the last event.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Completes the answer at the end of the connection; returns an error if the answer is incomplete.
    pub fn finish(&mut self, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        if self.done {
            return Ok(());
        }
        if self.finish.is_none() {
            return Err(body::cut_off());
        }
        self.end(deltas);
        Ok(())
    }

    fn delta(&mut self, delta: ChoiceDelta, deltas: &mut Vec<Delta>) {
        let reasoning = match (body::text_of(delta.reasoning_content), body::text_of(delta.reasoning)) {
            // Servers that know both names send the same under both.
            (reasoning, _) if !reasoning.is_empty() => reasoning,
            (_, reasoning) => reasoning,
        };
        self.reasoning(reasoning, deltas);
        match delta.content {
            // Mistral sends thoughts and text as a list of parts.
            Value::Array(parts) => {
                for mut part in parts {
                    let thoughts = match part.get_mut("thinking").map(Value::take) {
                        Some(Value::Array(thoughts)) => thoughts
                            .into_iter()
                            .map(|mut thought| body::text_of(thought["text"].take()))
                            .collect(),
                        Some(thought) => body::text_of(thought),
                        None => String::new(),
                    };
                    self.reasoning(thoughts, deltas);
                    let text = part.get_mut("text").map(Value::take).unwrap_or_default();
                    self.text(body::text_of(text), deltas);
                }
            }
            content => self.text(body::text_of(content), deltas),
        }
        self.text(body::text_of(delta.refusal), deltas);
        for call in delta.tool_calls.unwrap_or_default() {
            self.call(call, deltas);
        }
    }

    fn text(&mut self, text: String, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let block = match self.open {
            Some(Open::Text(block)) => block,
            Some(Open::Reasoning(_)) | None => {
                let block = self.begin(deltas);
                self.open = Some(Open::Text(block));
                deltas.push(Delta::TextStart { block });
                block
            }
        };
        deltas.push(Delta::Text { block, text });
    }

    fn reasoning(&mut self, text: String, deltas: &mut Vec<Delta>) {
        if text.is_empty() {
            return;
        }
        let block = match self.open {
            Some(Open::Reasoning(block)) => block,
            Some(Open::Text(_)) | None => {
                let block = self.begin(deltas);
                self.open = Some(Open::Reasoning(block));
                deltas.push(Delta::ReasoningStart { block });
                block
            }
        };
        deltas.push(Delta::Reasoning { block, text });
    }

    /// Ends the open block and numbers the next one.
    fn begin(&mut self, deltas: &mut Vec<Delta>) -> u32 {
        match self.open.take() {
            Some(Open::Text(block) | Open::Reasoning(block)) => deltas.push(Delta::BlockEnd { block }),
            None => {}
        }
        let block = self.n_blocks;
        self.n_blocks += 1;
        block
    }

    fn call(&mut self, fragment: CallDelta, deltas: &mut Vec<Delta>) {
        let FunctionDelta { name, arguments } = fragment.function.unwrap_or_default();
        let name = name.filter(|name| !name.is_empty());
        let id = fragment.id.filter(|id| !id.is_empty());
        let json = match arguments {
            Value::Null => String::new(),
            Value::String(json) => json,
            // Some servers send the arguments as an object.
            other => other.to_string(),
        };
        let known = self.find_call(fragment.index, id.as_deref(), name.is_some());
        if known.is_none() && id.is_none() && name.is_none() && json.is_empty() {
            return;
        }
        let at = known.unwrap_or_else(|| {
            let id = id.clone().unwrap_or_default();
            let call =
                Call { index: fragment.index, id, block: None, pending: String::new(), has_input: false };
            self.calls.push(call);
            self.calls.len() - 1
        });
        if self.calls[at].block.is_none() {
            if let Some(id) = id {
                self.calls[at].id = id;
            }
            self.calls[at].pending.push_str(&json);
            if let Some(name) = name {
                self.start_call(at, name, deltas);
            }
            return;
        }
        let call = &mut self.calls[at];
        if let Some(block) = call.block
            && !json.is_empty()
        {
            call.has_input = true;
            deltas.push(Delta::ToolCallInput { block, json });
        }
    }

    /// Returns the call that a fragment continues; `None` if it begins a new one.
    fn find_call(&self, index: Option<u64>, id: Option<&str>, is_named: bool) -> Option<usize> {
        let at = match (index, id) {
            (Some(_), _) => self.calls.iter().rposition(|call| call.index == index)?,
            (None, Some(id)) => return self.calls.iter().position(|call| call.id == id),
            (None, None) if is_named => return None,
            (None, None) => return self.calls.len().checked_sub(1),
        };
        let call = &self.calls[at];
        // Servers that give every call the index 0 distinguish calls by id. Others make up a new id per
        // fragment, but only a new call has a name.
        let is_other = call.block.is_some() && is_named && id.is_some_and(|id| id != call.id);
        (!is_other).then_some(at)
    }

    fn start_call(&mut self, at: usize, name: String, deltas: &mut Vec<Delta>) {
        let block = self.begin(deltas);
        let call = &mut self.calls[at];
        call.block = Some(block);
        if call.id.is_empty() {
            call.id = format!("call_{block}");
        }
        deltas.push(Delta::ToolCallStart { block, call_id: call.id.clone(), name });
        let json = std::mem::take(&mut call.pending);
        if !json.is_empty() {
            call.has_input = true;
            deltas.push(Delta::ToolCallInput { block, json });
        }
    }

    fn count(&mut self, usage: &Value, deltas: &mut Vec<Delta>) {
        if !usage.is_object() {
            return;
        }
        let cache_read = match body::count(usage, "/prompt_tokens_details/cached_tokens") {
            // DeepSeek's name for cached input.
            0 => body::count(usage, "/prompt_cache_hit_tokens"),
            cached => cached,
        };
        let cache_write = body::count(usage, "/prompt_tokens_details/cache_write_tokens");
        let reasoning = body::count(usage, "/completion_tokens_details/reasoning_tokens");
        let completion = body::count(usage, "/completion_tokens");
        let usage = Usage {
            input: body::count(usage, "/prompt_tokens").saturating_sub(cache_read + cache_write),
            // A server whose reasoning count exceeds its output count counts the two separately.
            output: completion.checked_sub(reasoning).unwrap_or(completion),
            reasoning,
            cache_read,
            cache_write,
        };
        if usage != self.usage {
            self.usage = usage;
            deltas.push(Delta::Usage(usage));
        }
    }

    fn end_blocks(&mut self, deltas: &mut Vec<Delta>) {
        for at in 0..self.calls.len() {
            // A call without a name is shown to the model as one of an unknown tool.
            if self.calls[at].block.is_none() {
                self.start_call(at, String::new(), deltas);
            }
        }
        match self.open.take() {
            Some(Open::Text(block) | Open::Reasoning(block)) => deltas.push(Delta::BlockEnd { block }),
            None => {}
        }
        for call in std::mem::take(&mut self.calls) {
            self.has_calls = true;
            let Some(block) = call.block else { continue };
            if !call.has_input {
                deltas.push(Delta::ToolCallInput { block, json: "{}".to_owned() });
            }
            deltas.push(Delta::BlockEnd { block });
        }
    }

    fn end(&mut self, deltas: &mut Vec<Delta>) {
        self.end_blocks(deltas);
        let finish = match self.finish {
            Some(Finish::Stop | Finish::Unknown) | None if self.has_calls => Finish::ToolCalls,
            Some(finish) => finish,
            None => Finish::Unknown,
        };
        deltas.push(Delta::Finish(finish));
        self.done = true;
    }
}
