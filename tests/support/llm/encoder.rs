//! The streams of the scripted model, in the form of each wire.

use serde_json::{Value, json};

use super::{Finish, Wire};

/// Maximum bytes of a large call's arguments in one event.
const PIECE_BYTES: usize = 1 << 20;

/// Writes the stream of one wire.
pub(super) struct Encoder {
    wire: Wire,
    pub out: String,
    tokens: (u64, u64),
    /// For Anthropic: the open block and its kind.
    block: Option<&'static str>,
    n_blocks: usize,
    n_calls: usize,
}

impl Encoder {
    pub fn new(wire: Wire, tokens: (u64, u64)) -> Self {
        Self { wire, out: String::new(), tokens, block: None, n_blocks: 0, n_calls: 0 }
    }

    fn event(&mut self, event: Value) {
        if matches!(self.wire, Wire::Anthropic | Wire::Responses) {
            self.out.push_str(&format!("event: {}\n", event["type"].as_str().unwrap()));
        }
        self.out.push_str(&format!("data: {event}\n\n"));
    }

    fn chat(&mut self, delta: Value, finish: Value) {
        self.event(json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }));
    }

    pub fn begin(&mut self) {
        match self.wire {
            Wire::OpenAi => self.chat(json!({"role": "assistant", "content": ""}), Value::Null),
            Wire::Responses => self.event(json!({"type": "response.created", "response": {"id": "resp_1"}})),
            Wire::Google => {}
            Wire::Anthropic => {
                let usage = json!({"input_tokens": self.tokens.0, "output_tokens": 1});
                self.event(json!({"type": "message_start", "message": {
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": [],
                    "stop_reason": null, "stop_sequence": null, "usage": usage,
                }}));
            }
        }
    }

    fn gemini(&mut self, part: Value) {
        self.event(json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}));
    }

    fn open_item(&mut self, kind: &'static str, item: Value) {
        if self.block == Some(kind) {
            return;
        }
        self.close_item();
        self.block = Some(kind);
        self.event(
            json!({"type": "response.output_item.added", "output_index": self.n_blocks, "item": item}),
        );
    }

    fn close_item(&mut self) {
        let Some(kind) = self.block.take() else { return };
        let mut item = json!({"type": kind});
        if kind == "reasoning" {
            item["encrypted_content"] = json!("c2ln");
        }
        self.event(json!({"type": "response.output_item.done", "output_index": self.n_blocks, "item": item}));
        self.n_blocks += 1;
    }

    fn open_block(&mut self, kind: &'static str, start: Value) {
        if self.block == Some(kind) && kind != "tool_use" {
            return;
        }
        self.close_block();
        self.block = Some(kind);
        self.event(json!({"type": "content_block_start", "index": self.n_blocks, "content_block": start}));
    }

    fn close_block(&mut self) {
        let Some(kind) = self.block.take() else { return };
        if kind == "thinking" {
            self.block_delta(json!({"type": "signature_delta", "signature": "c2ln"}));
        }
        self.event(json!({"type": "content_block_stop", "index": self.n_blocks}));
        self.n_blocks += 1;
    }

    fn block_delta(&mut self, delta: Value) {
        self.event(json!({"type": "content_block_delta", "index": self.n_blocks, "delta": delta}));
    }

    pub fn text(&mut self, text: &str) {
        match self.wire {
            Wire::OpenAi => self.chat(json!({"content": text}), Value::Null),
            Wire::Responses => {
                self.open_item("message", json!({"type": "message", "role": "assistant", "content": []}));
                let index = self.n_blocks;
                self.event(
                    json!({"type": "response.output_text.delta", "output_index": index, "delta": text}),
                );
            }
            Wire::Google => self.gemini(json!({"text": text})),
            Wire::Anthropic => {
                self.open_block("text", json!({"type": "text", "text": ""}));
                self.block_delta(json!({"type": "text_delta", "text": text}));
            }
        }
    }

    pub fn reasoning(&mut self, text: &str) {
        match self.wire {
            Wire::OpenAi => self.chat(json!({"reasoning_content": text}), Value::Null),
            Wire::Responses => {
                self.open_item("reasoning", json!({"type": "reasoning", "summary": []}));
                let index = self.n_blocks;
                self.event(json!({
                    "type": "response.reasoning_summary_text.delta", "output_index": index, "delta": text,
                }));
            }
            Wire::Google => self.gemini(json!({"text": text, "thought": true})),
            Wire::Anthropic => {
                self.open_block("thinking", json!({"type": "thinking", "thinking": "", "signature": ""}));
                self.block_delta(json!({"type": "thinking_delta", "thinking": text}));
            }
        }
    }

    /// Writes a call with the arguments in two pieces, as real models do.
    pub fn call(&mut self, id: &str, name: &str, arguments: &str) {
        let half = (0..=arguments.len() / 2).rev().find(|at| arguments.is_char_boundary(*at)).unwrap_or(0);
        // Events of a stream have a maximum size.
        let is_small = arguments.len() < 2 * PIECE_BYTES;
        let pieces = if is_small {
            vec![&arguments[..half], &arguments[half..]]
        } else {
            let pieces = arguments.as_bytes().chunks(PIECE_BYTES);
            pieces.map(|piece| str::from_utf8(piece).expect("large arguments are ASCII")).collect()
        };
        match self.wire {
            Wire::OpenAi => {
                let index = self.n_calls;
                self.n_calls += 1;
                let start = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
                self.chat(json!({"tool_calls": [start]}), Value::Null);
                for piece in pieces {
                    let call = json!({"index": index, "function": {"arguments": piece}});
                    self.chat(json!({"tool_calls": [call]}), Value::Null);
                }
            }
            Wire::Responses => {
                self.close_item();
                let item = json!({"type": "function_call", "call_id": id, "name": name, "arguments": ""});
                self.open_item("function_call", item);
                for piece in pieces {
                    self.event(json!({
                        "type": "response.function_call_arguments.delta", "output_index": self.n_blocks,
                        "delta": piece,
                    }));
                }
                self.close_item();
            }
            Wire::Google => {
                let args: Value =
                    serde_json::from_str(arguments).expect("Gemini sends arguments as an object");
                self.gemini(
                    json!({"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2ln"}),
                );
            }
            Wire::Anthropic => {
                self.open_block("tool_use", json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                for piece in pieces {
                    self.block_delta(json!({"type": "input_json_delta", "partial_json": piece}));
                }
            }
        }
    }

    pub fn finish(&mut self, finish: Finish) {
        let (input, output) = self.tokens;
        match self.wire {
            Wire::OpenAi => {
                let reason = match finish {
                    Finish::Stop | Finish::Pause => "stop",
                    Finish::Calls => "tool_calls",
                    Finish::Length => "length",
                    Finish::Filter => "content_filter",
                };
                self.chat(json!({}), json!(reason));
                let usage = json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output});
                self.event(json!({
                    "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
                    "choices": [], "usage": usage,
                }));
                self.out.push_str("data: [DONE]\n\n");
            }
            Wire::Responses => {
                self.close_item();
                let usage = json!({"input_tokens": input, "output_tokens": output});
                let mut response = json!({"id": "resp_1", "usage": usage});
                let reason = match finish {
                    Finish::Stop | Finish::Calls | Finish::Pause => None,
                    Finish::Length => Some("max_output_tokens"),
                    Finish::Filter => Some("content_filter"),
                };
                if let Some(reason) = reason {
                    response["incomplete_details"] = json!({"reason": reason});
                }
                let kind = if reason.is_some() { "response.incomplete" } else { "response.completed" };
                self.event(json!({"type": kind, "response": response}));
            }
            Wire::Google => {
                let reason = match finish {
                    Finish::Stop | Finish::Calls | Finish::Pause => "STOP",
                    Finish::Length => "MAX_TOKENS",
                    Finish::Filter => "SAFETY",
                };
                let usage = json!({"promptTokenCount": input, "candidatesTokenCount": output});
                self.event(json!({
                    "candidates": [{"content": {"role": "model", "parts": []}, "finishReason": reason}],
                    "usageMetadata": usage,
                }));
            }
            Wire::Anthropic => {
                self.close_block();
                let reason = match finish {
                    Finish::Stop => "end_turn",
                    Finish::Calls => "tool_use",
                    Finish::Length => "max_tokens",
                    Finish::Filter => "refusal",
                    Finish::Pause => "pause_turn",
                };
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                self.event(
                    json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": output}}),
                );
                self.event(json!({"type": "message_stop"}));
            }
        }
    }
}
