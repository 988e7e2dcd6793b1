//! Reads the fragments of an answer on the chat-completions wire.

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_base::sse;

use crate::{
    Delta, Finish, ProviderError, Usage,
    http::{
        body,
        decode::{Answer, Decode},
        failure,
    },
};

/// A decoder of the fragments of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    /// The text or thought being received.
    open: Option<Open>,
    /// The thought's own form, as far as it has come.
    details: Vec<Map<String, Value>>,
    calls: Vec<Call>,
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
    #[serde(default)]
    x_groq: Value,
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
    reasoning_details: Option<Vec<Map<String, Value>>>,
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

impl Decode for Decoder {
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.answer.is_done || data.is_empty() {
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
        // Groq's place for it.
        self.count(chunk.x_groq.get("usage").unwrap_or(&Value::Null), deltas);
        // We request only one answer.
        let Some(choice) = chunk.choices.unwrap_or_default().into_iter().next() else { return Ok(()) };
        if !choice.error.is_null() {
            return Err(failure::from_event(&choice.error));
        }
        self.count(&choice.usage, deltas);
        self.delta(choice.delta.unwrap_or_default(), deltas);
        // Some servers send an empty reason with every chunk.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.answer.finish = Some(match reason.as_str() {
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

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn end_blocks(&mut self, deltas: &mut Vec<Delta>) {
        for at in 0..self.calls.len() {
            // A call without a name is shown to the model as one of an unknown tool.
            if self.calls[at].block.is_none() {
                self.start_call(at, String::new(), deltas);
            }
        }
        self.end_open(deltas);
        for call in std::mem::take(&mut self.calls) {
            self.answer.has_calls = true;
            let Some(block) = call.block else { continue };
            if !call.has_input {
                deltas.push(Delta::ToolCallInput { block, json: "{}".to_owned() });
            }
            deltas.push(Delta::BlockEnd { block });
        }
    }
}

impl Decoder {
    fn delta(&mut self, delta: ChoiceDelta, deltas: &mut Vec<Delta>) {
        let reasoning = match (body::text_of(delta.reasoning_content), body::text_of(delta.reasoning)) {
            // Servers that know both names send the same under both.
            (reasoning, _) if !reasoning.is_empty() => reasoning,
            (_, reasoning) => reasoning,
        };
        self.reasoning(reasoning, deltas);
        for detail in delta.reasoning_details.unwrap_or_default() {
            self.detail(detail, deltas);
        }
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

    /// Joins a fragment of a thought's own form to those of the same index and type.
    fn detail(&mut self, fragment: Map<String, Value>, deltas: &mut Vec<Delta>) {
        if !matches!(self.open, Some(Open::Reasoning(_))) {
            let block = self.begin(deltas);
            self.open = Some(Open::Reasoning(block));
            deltas.push(Delta::ReasoningStart { block });
        }
        let is_same = |known: &&mut Map<String, Value>| {
            ["index", "type"].iter().all(|key| known.get(*key) == fragment.get(*key))
        };
        let Some(known) = self.details.iter_mut().rev().find(is_same) else {
            self.details.push(fragment);
            return;
        };
        for (key, value) in fragment {
            match (known.get_mut(&key), value) {
                (Some(Value::String(text)), Value::String(more))
                    if ["text", "summary", "data"].contains(&&*key) =>
                {
                    text.push_str(&more);
                }
                (_, Value::Null) => {}
                (_, value) => _ = known.insert(key, value),
            }
        }
    }

    /// Ends the text or thought being received.
    fn end_open(&mut self, deltas: &mut Vec<Delta>) {
        let details = std::mem::take(&mut self.details);
        match self.open.take() {
            Some(Open::Reasoning(block)) => {
                if !details.is_empty() {
                    let details = Value::Array(details.into_iter().map(Value::Object).collect());
                    deltas.push(Delta::Signature { block, signature: details.to_string() });
                }
                deltas.push(Delta::BlockEnd { block });
            }
            Some(Open::Text(block)) => deltas.push(Delta::BlockEnd { block }),
            None => {}
        }
    }

    /// Ends the open block and numbers the next one.
    fn begin(&mut self, deltas: &mut Vec<Delta>) -> u32 {
        self.end_open(deltas);
        self.answer.next_block()
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
            // A server with a reasoning count above its output count counts the two separately.
            output: completion.checked_sub(reasoning).unwrap_or(completion),
            reasoning,
            cache_read,
            cache_write,
        };
        self.answer.count(usage, deltas);
    }
}
