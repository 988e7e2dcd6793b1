//! Reads the chunks of an answer on the Gemini wire.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_base::sse;

use crate::{
    Delta, Finish, ProviderError, Usage,
    http::{
        body::{self, Count},
        decode::{Answer, Decode},
        failure,
    },
};

/// A decoder of the chunks of one answer.
#[derive(Debug, Default)]
pub struct Decoder {
    answer: Answer,
    /// The text or thought being received.
    open: Option<Open>,
    n_calls: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Open {
    block: u32,
    is_thought: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Option<Vec<Candidate>>,
    #[serde(default)]
    usage_metadata: Option<TokenCounts>,
    #[serde(default)]
    prompt_feedback: Value,
    #[serde(default)]
    error: Value,
    #[serde(default, rename = "type")]
    kind: Value,
}

/// Token counts, which come with every chunk.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenCounts {
    prompt_token_count: Count,
    tool_use_prompt_token_count: Count,
    cached_content_token_count: Count,
    candidates_token_count: Count,
    thoughts_token_count: Count,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
    #[serde(default)]
    grounding_metadata: Value,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Option<Vec<Part>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<Call>,
    #[serde(default)]
    executable_code: Option<Value>,
    #[serde(default)]
    code_execution_result: Option<Value>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Value,
}

impl Decode for Decoder {
    fn push(&mut self, event: &sse::Event, deltas: &mut Vec<Delta>) -> Result<(), ProviderError> {
        let data = event.data.trim();
        if self.answer.is_done || data.is_empty() || data == "[DONE]" {
            return Ok(());
        }
        let chunk = match body::parse::<Chunk>(data) {
            Ok(chunk) if chunk.error.is_null() && chunk.kind != "error" => chunk,
            // An error has another form, and may be in a list.
            parsed => {
                let json: Value = body::parse(data)?;
                let holds_error =
                    failure::holds_error(&json) || json.get(0).is_some_and(failure::holds_error);
                if holds_error {
                    return Err(failure::from_event(&json));
                }
                parsed?
            }
        };
        if let Some(counts) = chunk.usage_metadata {
            self.count(&counts, deltas);
        }
        if chunk.prompt_feedback.get("blockReason").is_some_and(|reason| !reason.is_null()) {
            self.answer.finish = Some(Finish::ContentFilter);
        }
        // We request only one answer.
        let Some(candidate) = chunk.candidates.unwrap_or_default().into_iter().next() else { return Ok(()) };
        for part in candidate.content.and_then(|content| content.parts).unwrap_or_default() {
            self.part(part, deltas);
        }
        self.ground(&candidate.grounding_metadata, deltas);
        if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
            self.answer.finish = Some(match reason.as_str() {
                "STOP" => Finish::Stop,
                "MAX_TOKENS" => Finish::Length,
                "SAFETY" | "IMAGE_SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST"
                | "PROHIBITED_CONTENT" | "SPII" => Finish::ContentFilter,
                // The model's own slip, of which nothing was passed on.
                "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" if self.n_calls == 0 => {
                    let message = candidate.finish_message.filter(|message| !message.is_empty());
                    let message =
                        message.unwrap_or_else(|| "the model made a malformed tool call".to_owned());
                    return Err(ProviderError::Overloaded { message, status: None, after: None });
                }
                _ => Finish::Unknown,
            });
        }
        Ok(())
    }

    fn answer(&mut self) -> &mut Answer {
        &mut self.answer
    }

    fn end_blocks(&mut self, deltas: &mut Vec<Delta>) {
        if let Some(Open { block, .. }) = self.open.take() {
            deltas.push(Delta::BlockEnd { block });
        }
    }
}

// Nothing but the end of the connection marks the end of an answer.
impl Decoder {
    fn part(&mut self, part: Part, deltas: &mut Vec<Delta>) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            self.end_blocks(deltas);
            let block = self.answer.next_block();
            self.n_calls += 1;
            self.answer.has_calls = true;
            deltas.push(Delta::ToolCallStart {
                block,
                call_id: format!("call_{}", self.n_calls),
                name: call.name,
            });
            deltas.push(Delta::ToolCallInput { block, json: body::input_object(&call.args).to_string() });
            deltas.extend(signature.map(|signature| Delta::Signature { block, signature }));
            deltas.push(Delta::BlockEnd { block });
            return;
        }
        let code = part.executable_code.map(|code| ("executableCode", "code", code));
        let result = part.code_execution_result.map(|result| ("codeExecutionResult", "output", result));
        if let Some((key, shown, json)) = code.or(result) {
            self.end_blocks(deltas);
            let shown = json[shown].as_str().unwrap_or_default().to_owned();
            deltas.extend(body::provided(self.answer.next_block(), shown, Some(&json!({key: json}))));
            return;
        }
        let is_thought = part.thought;
        let Some(text) = part.text.filter(|text| !text.is_empty()) else {
            if !is_thought {
                self.sign(signature, deltas);
            }
            return;
        };
        let block = match self.open {
            Some(open) if open.is_thought == is_thought => open.block,
            Some(_) | None => {
                self.end_blocks(deltas);
                let block = self.answer.next_block();
                self.open = Some(Open { block, is_thought });
                deltas.push(if is_thought {
                    Delta::ReasoningStart { block }
                } else {
                    Delta::TextStart { block }
                });
                block
            }
        };
        if is_thought {
            deltas.push(Delta::Reasoning { block, text });
            deltas.extend(signature.map(|signature| Delta::Signature { block, signature }));
        } else {
            deltas.push(Delta::Text { block, text });
            self.sign(signature, deltas);
        }
    }

    /// Shows the queries and the results of Google's own search.
    fn ground(&mut self, metadata: &Value, deltas: &mut Vec<Delta>) {
        let Some(queries) = metadata.get("webSearchQueries") else { return };
        self.end_blocks(deltas);
        let chunks = metadata["groundingChunks"].as_array().map_or(&[][..], Vec::as_slice);
        let sources = body::sources(chunks.iter().map(|it| (&it["web"]["title"], &it["web"]["uri"])));
        let shown = format!("google_search: {queries}\n{sources}");
        deltas.extend(body::provided(self.answer.next_block(), shown, None));
    }

    /// Keeps the signature of a text as that of an empty thought behind it, which goes back in the same place.
    fn sign(&mut self, signature: Option<String>, deltas: &mut Vec<Delta>) {
        let Some(signature) = signature else { return };
        self.end_blocks(deltas);
        let block = self.answer.next_block();
        deltas.extend([
            Delta::ReasoningStart { block },
            Delta::Signature { block, signature },
            Delta::BlockEnd { block },
        ]);
    }

    fn count(&mut self, counts: &TokenCounts, deltas: &mut Vec<Delta>) {
        let cache_read = counts.cached_content_token_count.0;
        let prompt = counts.prompt_token_count.0.saturating_add(counts.tool_use_prompt_token_count.0);
        let usage = Usage {
            input: prompt.saturating_sub(cache_read),
            output: counts.candidates_token_count.0,
            reasoning: counts.thoughts_token_count.0,
            cache_read,
            cache_write: 0,
        };
        self.answer.count(usage, deltas);
    }
}
