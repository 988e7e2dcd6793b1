//! Measures the wires alone: MB of stream decoded in a second, the time to encode a long history, and that of an update
//! for an ACP client: `wires run`.
#![allow(clippy::print_stdout, reason = "a program of its own that prints a table")]

mod updates;

use std::{
    borrow::Cow,
    hint::black_box,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use windlass_provider::{
    self as provider, AssistantContent, Auth, Model, Prompt, PromptMessage, Quirks, Sampling, Timeouts,
    ToolResult, ToolSpec, UserContent, Wire,
    http::{self, framing::Framing},
};

const WIRES: [Wire; 5] =
    [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Anthropic, Wire::Google, Wire::Bedrock];

/// Bytes of a stream, so few that a run fits between two interruptions, and of one read of it.
const STREAM: usize = 1 << 20;
const READ: usize = 16 << 10;

/// The least that is decoded, and the longest that is encoded.
const LEAST_MB: f64 = 200.0;
const LONGEST_MS: f64 = 3.0;
/// For a step with a history that was encoded before: copies half a megabyte.
const LONGEST_STEP_MS: f64 = 1.0;

fn main() {
    // `cargo test --all-targets` starts every bench without arguments; that must not measure anything.
    if !std::env::args().any(|argument| argument == "run") {
        println!("nothing measured: wires run");
        return;
    }
    for wire in WIRES {
        let stream = stream(wire);
        let taken = best(|| decode(wire, &stream));
        let speed = stream.len() as f64 / 1e6 / taken.as_secs_f64();
        let verdict = if speed >= LEAST_MB { "ok" } else { "UNDER" };
        println!("decode {}, MB/s: {speed:.0} (at least {LEAST_MB:.0}) {verdict}", wire.name());
    }
    for wire in WIRES {
        let model = model(wire);
        let (input, schema) = (json!({"filePath": "src/main.rs"}), schema());
        let prompt = prompt(&input, &schema);
        let taken = best(|| _ = black_box(http::encode(&model, &prompt)));
        report(&format!("encode 500 messages for {}", wire.name()), taken, LONGEST_MS);
        // Of a later step, only the new messages are encoded.
        let Some(pieces) = provider::encoded(&model, &Map::new(), &prompt.messages) else { continue };
        let new = PromptMessage::User(vec![UserContent::Text("And now?".into())]);
        let later = Prompt { messages: vec![PromptMessage::Encoded(&pieces), new], ..prompt };
        let taken = best(|| _ = black_box(http::encode(&model, &later)));
        report(&format!("encode a step behind them for {}", wire.name()), taken, LONGEST_STEP_MS);
    }
    updates::measure();
}

fn report(row: &str, taken: Duration, longest_ms: f64) {
    let taken_ms = taken.as_secs_f64() * 1e3;
    let verdict = if taken_ms <= longest_ms { "ok" } else { "OVER" };
    println!("{row}, ms: {taken_ms:.2} (at most {longest_ms}) {verdict}");
}

/// Returns the shortest of many runs within a second.
fn best(mut run: impl FnMut()) -> Duration {
    let began = Instant::now();
    let mut best = Duration::MAX;
    while began.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    best
}

fn decode(wire: Wire, stream: &[u8]) {
    let (mut framing, mut decoder) = (Framing::of(wire), http::decoder(wire));
    let (mut events, mut deltas) = (Vec::new(), Vec::new());
    for read in stream.chunks(READ) {
        events.clear();
        deltas.clear();
        let mut is_whole = framing.push(read, &mut events).is_ok();
        for event in &events {
            is_whole &= decoder.push(event, &mut deltas).is_ok();
        }
        assert!(is_whole, "the stream is damaged");
        black_box(&deltas);
    }
}

/// Makes an answer of many short texts, as each provider sends them.
fn stream(wire: Wire) -> Vec<u8> {
    let text = " and then some words";
    let event = match wire {
        Wire::OpenAiChat => format!(
            "data: {{\"id\":\"chatcmpl-8a1\",\"object\":\"chat.completion.chunk\",\"created\":1763712000,\"model\":\
             \"acme-large-1\",\"service_tier\":\"default\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\
             \"logprobs\":null,\"finish_reason\":null}}]}}\n\n"
        )
        .into_bytes(),
        Wire::OpenAiResponses => format!(
            "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":12,\
             \"item_id\":\"msg_68f0a1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\",\"logprobs\":[],\
             \"obfuscation\":\"a8Kd0\"}}\n\n"
        )
        .into_bytes(),
        Wire::Anthropic => format!(
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\
             \"text_delta\",\"text\":\"{text}\"}}}}\n\n"
        )
        .into_bytes(),
        Wire::Google => format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{text}\"}}],\"role\": \"model\"}},\
             \"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 500,\"totalTokenCount\": 520}},\"modelVersion\": \
             \"gemini-3.8-flash\",\"responseId\": \"r1\"}}\r\n\r\n"
        )
        .into_bytes(),
        Wire::Bedrock => message(&format!(
            "{{\"contentBlockIndex\":0,\"delta\":{{\"text\":\"{text}\"}},\"p\":\"abcdefghijklmnopqrstuvwxyz\"}}"
        )),
        Wire::Demo => Vec::new(),
    };
    let mut stream = match wire {
        Wire::Anthropic => {
            b"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
                .to_vec()
        }
        _ => Vec::new(),
    };
    while stream.len() < STREAM {
        stream.extend_from_slice(&event);
    }
    stream
}

/// Frames a delta as AWS does.
fn message(payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    let fields = [
        (":event-type", "contentBlockDelta"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    for (name, value) in fields {
        headers.push(name.len() as u8);
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&(value.len() as u16).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let mut message = Vec::new();
    message.extend_from_slice(&((16 + headers.len() + payload.len()) as u32).to_be_bytes());
    message.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message.extend_from_slice(&headers);
    message.extend_from_slice(payload.as_bytes());
    message.extend_from_slice(&crc32fast::hash(&message).to_be_bytes());
    message
}

fn model(wire: Wire) -> Model {
    Model {
        provider_id: "acme".to_owned(),
        provider_name: "Acme".to_owned(),
        id: "large".to_owned(),
        api_id: "anthropic.claude-large-5".to_owned(),
        name: "Large".to_owned(),
        wire,
        base_url: "https://api.acme.example/v1".to_owned(),
        is_foreign: false,
        api_key: None,
        auth: Auth::Bearer,
        aws: None,
        exchange: None,
        has_login: false,
        key_variable: None,
        quirks: Quirks::default(),
        headers: Vec::new(),
        fetch: None,
        limit: serde_json::from_value(json!({"context": 200_000, "output": 64_000})).unwrap_or_default(),
        cost: serde_json::from_value(json!({"input": 1.0, "output": 1.0})).unwrap_or_default(),
        takes_images: true,
        takes_pdf: true,
        takes_tools: true,
        takes_temperature: true,
        reasons: true,
        sampling: Sampling::default(),
        options: Map::new(),
        variants: Vec::new(),
        timeouts: Timeouts::DEFAULT,
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"filePath": {"type": "string", "description": "The path."}, "limit": {"type": "integer"}},
        "required": ["filePath"],
    })
}

/// Makes a conversation of 500 messages, 100 of them with a result of 2 KB.
fn prompt<'a>(input: &'a Value, schema: &'a Value) -> Prompt<'a> {
    let mut messages = Vec::new();
    for at in 0..500 {
        messages.push(match at % 5 {
            0 | 2 => {
                PromptMessage::User(vec![UserContent::Text("Please look at the next file.".repeat(4).into())])
            }
            1 => PromptMessage::Assistant(vec![AssistantContent::Text("It is in order.".repeat(20).into())]),
            3 => PromptMessage::Assistant(vec![AssistantContent::ToolCall {
                call_id: "call_1",
                name: "read",
                input,
                signature: None,
            }]),
            _ => PromptMessage::ToolResults(vec![ToolResult {
                call_id: "call_1",
                name: "read",
                output: "0001: fn main() {}\n".repeat(107).into(),
                is_error: false,
                media: Vec::new(),
            }]),
        });
    }
    let tool = |at: usize| ToolSpec {
        name: format!("tool_{at}").into(),
        description: "Reads a file and says what is in it.".repeat(10).into(),
        schema: Cow::Borrowed(schema),
    };
    Prompt {
        system: vec!["You help.".repeat(500).into()],
        messages,
        tools: (0..15).map(tool).collect(),
        max_output_tokens: Some(32_000),
        ..Prompt::default()
    }
}
