//! Reads the events of an answer on the Converse wire.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::sse;

use crate::{
    Delta, Finish, ProviderError, Usage,
    http::{
        blocks::Blocks,
        body,
        decode::{Answer, Decode},
        failure,
    },
};

/// A decoder of the events of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    blocks: Blocks,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Payload {
    content_block_index: u64,
    start: Start,
    delta: ContentDelta,
    stop_reason: Option<String>,
    usage: Option<TokenUsage>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Start {
    tool_use: Option<ToolStart>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ToolStart {
    tool_use_id: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContentDelta {
    text: Option<String>,
    tool_use: Option<ToolDelta>,
    reasoning_content: Option<ReasoningDelta>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ToolDelta {
    input: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ReasoningDelta {
    text: Option<String>,
    signature: Option<String>,
    redacted_content: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl Decode for Decoder {
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let name = event.event.as_deref().unwrap_or_default();
        if self.answer.is_done {
            return Ok(());
        }
        if name == "error" || name.ends_with("Exception") {
            return Err(exception(name, &event.data));
        }
        let data = if event.data.trim().is_empty() { "{}" } else { event.data.as_str() };
        let payload: Payload = body::parse(data)?;
        let index = payload.content_block_index;
        match name {
            "contentBlockStart" => {
                if let Some(ToolStart { tool_use_id, name }) = payload.start.tool_use {
                    let call = (Some(tool_use_id), name, "{}".to_owned());
                    self.blocks.begin_call(&mut self.answer, index, deltas, call);
                }
            }
            "contentBlockDelta" => self.delta(index, payload.delta, deltas),
            "contentBlockStop" => self.blocks.end(index, deltas),
            "messageStop" => {
                self.answer.finish = payload.stop_reason.map(|reason| match reason.as_str() {
                    "end_turn" | "stop_sequence" => Finish::Stop,
                    "tool_use" => Finish::ToolCalls,
                    "max_tokens" | "model_context_window_exceeded" => Finish::Length,
                    "content_filtered" | "guardrail_intervened" => Finish::ContentFilter,
                    _ => Finish::Unknown,
                });
            }
            "metadata" => {
                if let Some(usage) = payload.usage {
                    let usage = Usage {
                        input: usage.input_tokens,
                        output: usage.output_tokens,
                        reasoning: 0,
                        cache_read: usage.cache_read_input_tokens,
                        cache_write: usage.cache_write_input_tokens,
                    };
                    self.answer.count(usage, deltas);
                }
                if self.answer.finish.is_some() {
                    self.end(deltas);
                }
            }
            // `messageStart`, and later additions.
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
    /// Appends a piece of a block. Only calls are announced; the others begin with their first piece.
    fn delta(&mut self, index: u64, delta: ContentDelta, deltas: &mut Vec<Delta>) {
        if let Some(text) = delta.text.filter(|text| !text.is_empty()) {
            let block = self.block(index, deltas, |block| Delta::TextStart { block });
            deltas.push(Delta::Text { block, text });
        }
        if let Some(ToolDelta { input }) = delta.tool_use {
            self.blocks.call_input(index, input, deltas);
        }
        if let Some(ReasoningDelta { text, signature, redacted_content }) = delta.reasoning_content {
            let block = self.block(index, deltas, |block| Delta::ReasoningStart { block });
            let text = text.filter(|text| !text.is_empty());
            deltas.extend(text.map(|text| Delta::Reasoning { block, text }));
            let secret = redacted_content.map(|data| format!("{}{data}", body::REDACTED));
            let signature = signature.filter(|signature| !signature.is_empty()).or(secret);
            deltas.extend(signature.map(|signature| Delta::Signature { block, signature }));
        }
    }

    fn block(&mut self, index: u64, deltas: &mut Vec<Delta>, start: fn(u32) -> Delta) -> u32 {
        match self.blocks.find(index) {
            Some(block) => block,
            None => self.blocks.begin(&mut self.answer, index, deltas, start),
        }
    }
}

/// Classifies an exception, which the stream names instead of a status.
fn exception(name: &str, data: &str) -> ProviderError {
    let mut error: Value = serde_json::from_str(data).unwrap_or_else(|_| json!({"message": data}));
    if let Some(fields) = error.as_object_mut() {
        let code = fields.get("code").and_then(Value::as_str).unwrap_or(name).to_owned();
        fields.insert("code".to_owned(), code.into());
    }
    failure::from_event(&error)
}
