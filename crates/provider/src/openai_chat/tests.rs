//! The chat-completions wire against recorded streams and the peculiarities of other servers.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{encode, url};
use crate::{
    AssistantContent, Delta, Finish, Media, Prompt, PromptMessage, ProviderError, Quirk, Quirks, ToolResult,
    ToolSpec, Usage, UserContent, Wire,
    http::fixture::{call_input, call_start, check, check_encoded, decode_data, model, text},
};

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

fn read_tool(schema: &Value) -> ToolSpec<'_> {
    ToolSpec { name: "read".into(), description: "Reads a file.".into(), schema: Cow::Borrowed(schema) }
}

#[test]
fn a_text() {
    let prompt = Prompt {
        system: vec!["You are a sailor.".into(), "Today is Sat Nov 21 2026.".into()],
        messages: vec![user("What now?")],
        temperature: Some(0.5),
        top_p: Some(0.25),
        max_output_tokens: Some(99_000),
        ..Prompt::default()
    };
    let mut expected = text(0, "Hoist the anchor – steady ⚓.").to_vec();
    expected.push(Delta::Usage(Usage { input: 176, output: 9, cache_read: 1024, ..Usage::default() }));
    expected.push(Delta::Finish(Finish::Stop));
    check("text", &model(Wire::OpenAiChat), &prompt, &expected, Ok(()));
}

#[test]
fn thoughts_and_text() {
    let mut model = model(Wire::OpenAiChat);
    model.options.insert("reasoningEffort".to_owned(), json!("low"));
    model.options.insert("seed".to_owned(), json!(1));
    model.options.insert("interleaved".to_owned(), json!({"field": "reasoning_content"}));
    let prompt = Prompt {
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "A greeting.".into(), signature: None },
                AssistantContent::Text("Hello.".into()),
            ]),
            user("Hi again"),
        ],
        options: json!({"seed": 2, "setCacheKey": true}).as_object().unwrap().clone(),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let mut expected = vec![
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "The user greets; answer briefly.".to_owned() },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend([
        Delta::TextStart { block: 1 },
        Delta::Text { block: 1, text: "Ahoy!".to_owned() },
        Delta::Usage(Usage { input: 40, output: 6, reasoning: 24, ..Usage::default() }),
        Delta::BlockEnd { block: 1 },
        Delta::Finish(Finish::Length),
    ]);
    check("reasoning", &model, &prompt, &expected, Ok(()));
}

#[test]
fn messages_that_were_encoded_before_are_sent_the_same() {
    let mut model = model(Wire::OpenAiChat);
    model.options.insert("interleaved".to_owned(), json!({"field": "reasoning_content"}));
    check_encoded(&model);
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
                AssistantContent::Reasoning { text: "Look.".into(), signature: Some("sig") },
                AssistantContent::ToolCall {
                    call_id: "call_1",
                    name: "read",
                    input: &input,
                    signature: None,
                },
                AssistantContent::ToolCall {
                    call_id: "call_2",
                    name: "read",
                    input: &Value::Null,
                    signature: None,
                },
            ]),
            PromptMessage::ToolResults(vec![
                ToolResult {
                    call_id: "call_1",
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
        ],
        tools: vec![read_tool(&schema)],
        ..Prompt::default()
    };
    let mut expected = text(0, "Both files at once.").to_vec();
    expected.extend([
        call_start(1, "call_Aa1", "read"),
        call_input(1, r#"{"filePath":"src/main.rs"}"#),
        call_start(2, "call_Bb2", "read"),
        call_input(2, r#"{"filePath":"Übersicht.md"}"#),
        Delta::BlockEnd { block: 1 },
        Delta::BlockEnd { block: 2 },
        Delta::Usage(Usage { input: 500, output: 40, ..Usage::default() }),
        Delta::Finish(Finish::ToolCalls),
    ]);
    check("tool_calls", &model(Wire::OpenAiChat), &prompt, &expected, Ok(()));
}

#[test]
fn an_error_in_the_stream() {
    let mut model = model(Wire::OpenAiChat);
    model.takes_images = false;
    model.takes_temperature = false;
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
    let prompt = Prompt {
        messages: vec![PromptMessage::User(vec![UserContent::Media(image)])],
        temperature: Some(1.0),
        ..Prompt::default()
    };
    let expected = [Delta::TextStart { block: 0 }, Delta::Text { block: 0, text: "Hoist ".to_owned() }];
    let error = ProviderError::Overloaded {
        message: "The server is overloaded. Try again later.".to_owned(),
        status: None,
        after: None,
    };
    check("error", &model, &prompt, &expected, Err(error));
}

#[test]
fn the_address() {
    let mut model = model(Wire::OpenAiChat);
    assert_eq!(url(&model), "https://api.acme.example/v1/chat/completions");
    model.base_url = url(&model);
    assert_eq!(url(&model), "https://api.acme.example/v1/chat/completions");
}

#[test]
fn openai_itself_has_names_of_its_own() {
    let mut model = model(Wire::OpenAiChat);
    model.base_url = "https://api.openai.com/v1".to_owned();
    let prompt = Prompt { max_output_tokens: Some(1000), cache_key: Some("ses_1"), ..Prompt::default() };
    let body: Value = serde_json::from_slice(&encode(&model, &prompt)).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "acme-large-1",
            "messages": [],
            "stream": true,
            "stream_options": {"include_usage": true},
            "max_completion_tokens": 1000,
            "prompt_cache_key": "ses_1",
        })
    );
}

#[track_caller]
fn check_data(data: &[&str], expected: &[Delta]) {
    assert_eq!(decode_data(Wire::OpenAiChat, data), (expected.to_vec(), Ok(())));
}

fn calls(data: &[&str]) -> Vec<String> {
    let chunks: Vec<String> = data
        .iter()
        .map(|calls| format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#))
        .chain(["[DONE]".to_owned()])
        .collect();
    let chunks: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let (deltas, end) = decode_data(Wire::OpenAiChat, &chunks);
    assert_eq!(end, Ok(()));
    let mut inputs = vec![String::new(); 9];
    let mut names = Vec::new();
    for delta in deltas {
        match delta {
            Delta::ToolCallStart { block, call_id, name } => names.push((block, call_id, name)),
            Delta::ToolCallInput { block, json } => inputs[block as usize].push_str(&json),
            Delta::Finish(finish) => assert_eq!(finish, Finish::ToolCalls),
            _ => {}
        }
    }
    names.into_iter().map(|(block, id, name)| format!("{id} {name} {}", inputs[block as usize])).collect()
}

#[test]
fn calls_are_distinguished_on_servers_with_other_habits() {
    // No index, no id, arguments at once.
    assert_eq!(
        calls(&[
            r#"[{"function":{"name":"a","arguments":"{\"x\":1}"}},{"function":{"name":"b","arguments":"{}"}}]"#
        ]),
        [r#"call_0 a {"x":1}"#, "call_1 b {}"]
    );
    // No index; the fragments follow without id.
    assert_eq!(
        calls(&[
            r#"[{"id":"i","function":{"name":"a","arguments":""}}]"#,
            r#"[{"function":{"arguments":"{\"x\""}}]"#,
            r#"[{"function":{"arguments":":1}"}}]"#,
        ]),
        [r#"i a {"x":1}"#]
    );
    // Id and name with every fragment.
    assert_eq!(
        calls(&[
            r#"[{"index":0,"id":"i","function":{"name":"a","arguments":"{\"x\""}}]"#,
            r#"[{"index":0,"id":"i","function":{"name":"a","arguments":":1}"}}]"#,
        ]),
        [r#"i a {"x":1}"#]
    );
    // A new id with every fragment.
    assert_eq!(
        calls(&[
            r#"[{"index":0,"id":"i","function":{"name":"a","arguments":"{\"x\""}}]"#,
            r#"[{"index":0,"id":"j","function":{"name":null,"arguments":":1}"}}]"#,
        ]),
        [r#"i a {"x":1}"#]
    );
    // Always index 0.
    assert_eq!(
        calls(&[
            r#"[{"index":0,"id":"i","function":{"name":"a","arguments":"{}"}}]"#,
            r#"[{"index":0,"id":"j","function":{"name":"b","arguments":"{}"}}]"#,
        ]),
        ["i a {}", "j b {}"]
    );
    // The name comes late, the arguments are an object or missing.
    assert_eq!(
        calls(&[
            r#"[{"index":0,"id":"i"},{"index":1,"id":"j","function":{"name":"b"}}]"#,
            r#"[{"index":0,"function":{"name":"a","arguments":{"x":1}}}]"#,
        ]),
        ["j b {}", r#"i a {"x":1}"#]
    );
}

#[test]
fn a_stop_with_calls_means_the_calls() {
    check_data(
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"i","function":{"name":"a","arguments":"{}"}}]},"finish_reason":""}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        ],
        &[
            call_start(0, "i", "a"),
            call_input(0, "{}"),
            Delta::BlockEnd { block: 0 },
            Delta::Finish(Finish::ToolCalls),
        ],
    );
}

#[test]
fn both_names_of_thoughts_are_one() {
    check_data(
        &[
            r#"{"choices":[{"delta":{"reasoning":"Hm","reasoning_content":"Hm"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"."}}]}"#,
            "[DONE]",
        ],
        &[
            Delta::ReasoningStart { block: 0 },
            Delta::Reasoning { block: 0, text: "Hm.".to_owned() },
            Delta::BlockEnd { block: 0 },
            Delta::Finish(Finish::Unknown),
        ],
    );
}

#[test]
fn content_may_be_a_list_of_parts() {
    let mut expected = vec![
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "Hm".to_owned() },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend(text(1, "Hi"));
    expected.push(Delta::Finish(Finish::ContentFilter));
    check_data(
        &[
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"type":"text","text":"Hi"}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"content_filter"}]}"#,
        ],
        &expected,
    );
}

#[test]
fn half_a_character_does_not_end_the_answer() {
    let mut expected = text(0, "a\u{fffd}\u{fffd}😀\\ud83d").to_vec();
    expected.push(Delta::Finish(Finish::Unknown));
    check_data(
        &[
            r#"{"choices":[{"delta":{"content":"a\ud83d"}}]}"#,
            r#"{"choices":[{"delta":{"content":"\ude00\ud83d\ude00\\ud83d"}}]}"#,
            "[DONE]",
        ],
        &expected,
    );
}

#[test]
fn a_cut_stream_is_a_broken_connection() {
    let (deltas, end) = decode_data(Wire::OpenAiChat, &[r#"{"choices":[{"delta":{"content":"Hoi"}}]}"#]);
    assert_eq!(deltas, [Delta::TextStart { block: 0 }, Delta::Text { block: 0, text: "Hoi".to_owned() }]);
    assert_eq!(
        end,
        Err(ProviderError::Transport {
            message: "the connection closed before the answer was complete".to_owned()
        })
    );
}

#[test]
fn quirks_change_names_and_places() {
    let input = json!({});
    let call = AssistantContent::ToolCall { call_id: "call_1", name: "read", input: &input, signature: None };
    let image = Media { mime: "image/png", filename: None, base64: "AAAA" };
    let result = ToolResult {
        call_id: "call_1",
        name: "read",
        output: "x".into(),
        is_error: false,
        media: vec![image],
    };
    let details = r#"[{"type":"reasoning.text","text":"Hm.","signature":"s","index":0}]"#;
    let thought = AssistantContent::Reasoning { text: "Hm.".into(), signature: Some(details) };
    let prompt = Prompt {
        system: vec!["S".into()],
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![thought, call]),
            PromptMessage::ToolResults(vec![result]),
        ],
        max_output_tokens: Some(10),
        top_k: Some(5),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let body = |api_id: &str, quirks: &[Quirk]| -> Value {
        let mut model = model(Wire::OpenAiChat);
        model.api_id = api_id.to_owned();
        model.quirks = Quirks::of(quirks);
        serde_json::from_slice(&encode(&model, &prompt)).unwrap()
    };
    let plain = body("m", &[]);
    assert_eq!((&plain["max_tokens"], &plain["top_k"]), (&json!(10), &Value::Null));
    assert_eq!(plain["messages"][2]["reasoning_content"], "Hm.");
    assert_eq!(plain.get("prompt_cache_key"), None);

    let router = body(
        "anthropic/claude-opus-5",
        &[
            Quirk::AsksForUsage,
            Quirk::NoStreamOptions,
            Quirk::ReasoningDetails,
            Quirk::CacheControl,
            Quirk::NamedResults,
        ],
    );
    assert_eq!((&router["usage"], router.get("stream_options")), (&json!({"include": true}), None));
    let answer = &router["messages"][2];
    assert_eq!(
        (&answer["reasoning"], &answer["reasoning_details"][0]["signature"]),
        (&json!("Hm."), &json!("s"))
    );
    let mark = json!({"type": "ephemeral"});
    assert_eq!(
        router["messages"][0]["content"],
        json!([{"type": "text", "text": "S", "cache_control": mark}])
    );
    assert_eq!(
        (&router["messages"][3]["cache_control"], &router["messages"][3]["name"]),
        (&mark, &json!("read"))
    );

    let mistral = body("m", &[Quirk::Mistral, Quirk::CacheKey, Quirk::MaxCompletionTokens]);
    let id = mistral["messages"][2]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    assert_eq!(mistral["messages"][3]["tool_call_id"], id);
    assert_eq!(mistral["messages"][4], json!({"role": "assistant", "content": "Done."}));
    assert_eq!(mistral["messages"][5]["content"][1]["image_url"], "data:image/png;base64,AAAA");
    assert_eq!(
        (&mistral["prompt_cache_key"], &mistral["max_completion_tokens"]),
        (&json!("ses_1"), &json!(10))
    );

    let none = body("m", &[Quirk::NoReasoning]);
    assert_eq!(none["messages"][2].get("reasoning_content"), None);
}

#[test]
fn an_empty_thought_is_sent_where_it_must_be() {
    let mut model = model(Wire::OpenAiChat);
    model.quirks = Quirks::of(&[Quirk::EmptyReasoning]);
    let said = PromptMessage::Assistant(vec![AssistantContent::Text("Hi.".into())]);
    let prompt = Prompt { messages: vec![said], ..Prompt::default() };
    let body: Value = serde_json::from_slice(&encode(&model, &prompt)).unwrap();
    assert_eq!(body["messages"][0]["reasoning_content"], "");
}

#[test]
fn details_of_a_thought_are_joined_into_its_signature() {
    let chunk =
        |details: Value| json!({"choices": [{"delta": {"reasoning_details": [details]}}]}).to_string();
    let data = [
        chunk(json!({"type": "reasoning.text", "text": "The ", "index": 0})),
        chunk(json!({"type": "reasoning.text", "text": "end.", "index": 0})),
        chunk(json!({"type": "reasoning.text", "signature": "sig", "index": 0})),
        r#"{"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}],"x_groq":{"usage":{"prompt_tokens":7}}}"#
            .to_owned(),
    ];
    let data: Vec<&str> = data.iter().map(String::as_str).chain(["[DONE]"]).collect();
    let (deltas, end) = decode_data(Wire::OpenAiChat, &data);
    let signature = r#"[{"type":"reasoning.text","text":"The end.","index":0,"signature":"sig"}]"#.to_owned();
    let mut expected = vec![
        Delta::Usage(Usage { input: 7, ..Usage::default() }),
        Delta::ReasoningStart { block: 0 },
        Delta::Signature { block: 0, signature },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend(text(1, "Hi"));
    expected.push(Delta::Finish(Finish::Stop));
    let usage_at = deltas.iter().position(|delta| matches!(delta, Delta::Usage(_))).unwrap();
    let usage = expected.remove(0);
    expected.insert(usage_at, usage);
    assert_eq!((deltas, end), (expected, Ok(())));
}
