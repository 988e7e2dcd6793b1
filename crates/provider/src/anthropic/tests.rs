//! The messages wire against recorded streams.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{encode, url};
use crate::{
    AssistantContent, Delta, Finish, Media, Prompt, PromptMessage, ProviderError, ToolResult, ToolSpec,
    Usage, UserContent, Wire,
    http::fixture::{call_input, call_start, check, check_encoded, decode_data, model, text},
};

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

fn usage(input: u64, output: u64) -> Delta {
    Delta::Usage(Usage { input, output, ..Usage::default() })
}

#[test]
fn a_text() {
    let prompt = Prompt {
        system: vec!["You are a sailor.".into(), " ".into(), "Today is Sat Nov 21 2026.".into()],
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![AssistantContent::Text("Hello.".into())]),
            user(" "),
            user("What now?"),
            user("Say it."),
            PromptMessage::Assistant(vec![AssistantContent::Text("I say: ".into())]),
        ],
        temperature: Some(0.5),
        top_p: Some(0.25),
        ..Prompt::default()
    };
    let first = Usage { input: 21, output: 1, reasoning: 0, cache_read: 1800, cache_write: 300 };
    let mut expected = vec![Delta::Usage(first)];
    expected.extend(text(0, "Hoist the anchor – steady ⚓."));
    expected.extend([Delta::Usage(Usage { output: 12, ..first }), Delta::Finish(Finish::Stop)]);
    check("text", &model(Wire::Anthropic), &prompt, &expected, Ok(()));
}

#[test]
fn thoughts_and_text() {
    let mut model = model(Wire::Anthropic);
    model.options.insert("thinking".to_owned(), json!({"type": "enabled", "budgetTokens": 16_000}));
    let prompt = Prompt {
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "Not ours.".into(), signature: None },
                AssistantContent::Reasoning { text: "A greeting.".into(), signature: Some("EqQB") },
                AssistantContent::Reasoning { text: "".into(), signature: Some("redacted:EmwK") },
                AssistantContent::Text("Hello.".into()),
            ]),
            user("Hi again"),
        ],
        temperature: Some(0.5),
        ..Prompt::default()
    };
    let mut expected = vec![
        usage(30, 1),
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "The user greets; answer briefly.".to_owned() },
        Delta::Signature { block: 0, signature: "EqQBCgIYAhIM1gbc==".to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::ReasoningStart { block: 1 },
        Delta::Signature { block: 1, signature: "redacted:EmwKAhgBEgy3va3p==".to_owned() },
        Delta::BlockEnd { block: 1 },
    ];
    expected.extend(text(2, "Ahoy!"));
    expected.extend([usage(30, 25), Delta::Finish(Finish::Length)]);
    check("reasoning", &model, &prompt, &expected, Ok(()));
}

#[test]
fn messages_that_were_encoded_before_are_sent_the_same() {
    check_encoded(&model(Wire::Anthropic));
}

#[test]
fn two_parallel_tool_calls() {
    let schema = json!({"type": "object", "properties": {"filePath": {"type": "string"}}});
    let input = json!({"filePath": "logo.png"});
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
    let pdf = Media { mime: "application/pdf", filename: Some("plan.pdf"), base64: "JVBERi0=" };
    let prompt = Prompt {
        system: vec!["You are a sailor.".into()],
        messages: vec![
            PromptMessage::User(vec![UserContent::Text("See this".into()), UserContent::Media(pdf)]),
            PromptMessage::Assistant(vec![
                AssistantContent::ToolCall {
                    call_id: "call.1|fc",
                    name: "read",
                    input: &input,
                    signature: None,
                },
                AssistantContent::Text("Looking.".into()),
                AssistantContent::ToolCall {
                    call_id: "call_2",
                    name: "read",
                    input: &Value::Null,
                    signature: None,
                },
            ]),
            PromptMessage::ToolResults(vec![
                ToolResult {
                    call_id: "call.1|fc",
                    name: "read",
                    output: "Image read successfully".into(),
                    is_error: false,
                    media: vec![image],
                },
                ToolResult {
                    call_id: "call_2",
                    name: "read",
                    output: "filePath is required".into(),
                    is_error: true,
                    media: Vec::new(),
                },
            ]),
            user("And?"),
        ],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            schema: Cow::Borrowed(&schema),
        }],
        max_output_tokens: Some(1000),
        ..Prompt::default()
    };
    let mut expected = vec![usage(472, 1)];
    expected.extend(text(0, "Both at once."));
    expected.extend([
        call_start(1, "toolu_01A", "read"),
        call_input(1, r#"{"filePath": "Übersicht.md"}"#),
        Delta::BlockEnd { block: 1 },
        call_start(2, "toolu_01B", "list"),
        call_input(2, "{}"),
        Delta::BlockEnd { block: 2 },
        usage(472, 89),
        Delta::Finish(Finish::ToolCalls),
    ]);
    check("tool_calls", &model(Wire::Anthropic), &prompt, &expected, Ok(()));
}

#[test]
fn an_error_in_the_stream() {
    let mut model = model(Wire::Anthropic);
    model.takes_pdf = false;
    model.limit.output = 0;
    let pdf = Media { mime: "application/pdf", filename: Some("plan.pdf"), base64: "JVBERi0=" };
    let prompt =
        Prompt { messages: vec![PromptMessage::User(vec![UserContent::Media(pdf)])], ..Prompt::default() };
    let expected =
        [usage(25, 1), Delta::TextStart { block: 0 }, Delta::Text { block: 0, text: "Hoist ".to_owned() }];
    let error = ProviderError::Overloaded { message: "Overloaded".to_owned(), status: None, after: None };
    check("error", &model, &prompt, &expected, Err(error));
}

#[test]
fn the_address() {
    let model = model(Wire::Anthropic);
    assert_eq!(url(&model), "https://api.acme.example/v1/messages");
}

#[test]
fn a_thinking_budget_leaves_room_for_the_answer() {
    let mut model = model(Wire::Anthropic);
    model.limit.output = 32_000;
    let options = json!({"thinking": {"type": "enabled", "budget_tokens": 31_999}});
    let prompt = Prompt { options: options.as_object().unwrap().clone(), ..Prompt::default() };
    let body: Value = serde_json::from_slice(&encode(&model, &prompt)).unwrap();
    assert_eq!(body["max_tokens"], 32_000);
}

#[test]
fn unknown_events_are_ignored() {
    let signature =
        r#"provided:{"type":"server_tool_use","id":"s","name":"web_search","input":{}}"#.to_owned();
    let mut expected = vec![
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "web_search: {}".to_owned() },
        Delta::Signature { block: 0, signature },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend(text(1, "Hi"));
    expected.push(Delta::Finish(Finish::Paused));
    let (deltas, end) = decode_data(
        Wire::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
            r#"{"type":"moon_phase","phase":"full"}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"H","citations":[]}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"i"}}"#,
            r#"{"type":"content_block_stop","index":1}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}"#,
        ],
    );
    assert_eq!((deltas, end), (expected, Ok(())));
}

#[test]
fn a_cut_stream_is_a_broken_connection() {
    let (deltas, end) = decode_data(Wire::Anthropic, &[r#"{"type":"ping"}"#]);
    assert_eq!(deltas, []);
    assert_eq!(
        end,
        Err(ProviderError::Transport {
            message: "the connection closed before the answer was complete".to_owned()
        })
    );
}

#[test]
fn tools_that_the_provider_runs_are_offered_shown_and_sent_back() {
    let call = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rust"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "title": "Rust", "url": "https://rust.example", "encrypted_content": "enc"},
    ]});
    let mut started = call.clone();
    started["input"] = json!({});
    let start = |index: u64, block: &Value| {
        json!({"type": "content_block_start", "index": index, "content_block": block}).to_string()
    };
    let input = json!({"type": "content_block_delta", "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{\"query\": \"rust\"}"}});
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index}).to_string();
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}});
    let events = [
        start(0, &started),
        input.to_string(),
        stop(0),
        start(1, &found),
        stop(1),
        end.to_string(),
        json!({"type": "message_stop"}).to_string(),
    ];
    let events: Vec<&str> = events.iter().map(String::as_str).collect();
    let (deltas, ended) = decode_data(Wire::Anthropic, &events);
    assert_eq!(ended, Ok(()));
    let block = |block: u32, text: &str, json: &Value| {
        [
            Delta::ReasoningStart { block },
            Delta::Reasoning { block, text: text.to_owned() },
            Delta::Signature { block, signature: format!("provided:{json}") },
            Delta::BlockEnd { block },
        ]
    };
    let mut expected = block(0, "web_search: {\"query\":\"rust\"}", &call).to_vec();
    expected.extend(block(1, "- Rust https://rust.example", &found));
    expected.push(Delta::Finish(Finish::Stop));
    assert_eq!(deltas, expected);

    let signatures: Vec<&str> = deltas
        .iter()
        .filter_map(|delta| match delta {
            Delta::Signature { signature, .. } => Some(signature.as_str()),
            _ => None,
        })
        .collect();
    let thoughts = signatures
        .iter()
        .map(|signature| AssistantContent::Reasoning { text: "shown".into(), signature: Some(signature) });
    let prompt = Prompt {
        messages: vec![user("Search."), PromptMessage::Assistant(thoughts.collect()), user("And?")],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads.".into(),
            schema: Cow::Owned(json!({})),
        }],
        options: json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]})
            .as_object()
            .unwrap()
            .clone(),
        ..Prompt::default()
    };
    let body: Value = serde_json::from_slice(&encode(&model(Wire::Anthropic), &prompt)).unwrap();
    assert_eq!(body["messages"][1]["content"], json!([call, found]));
    assert_eq!(body["tools"][0]["name"], "read");
    assert_eq!(body["tools"][1], json!({"type": "web_search_20250305", "name": "web_search"}));
}
