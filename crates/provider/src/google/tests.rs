//! The Gemini wire against streams in Google's form.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{encode, schema, url};
use crate::{
    AssistantContent, Delta, Finish, Media, Model, Prompt, PromptMessage, ProviderError, ToolResult,
    ToolSpec, Usage, UserContent, Wire,
    http::fixture::{call_input, call_start, check, check_encoded, decode_data, model, text},
};

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

fn gemini() -> Model {
    let mut model = model(Wire::Google);
    model.api_id = "gemini-3.8-flash".to_owned();
    model.base_url = "https://api.acme.example/v1beta".to_owned();
    model
}

fn body(model: &Model, prompt: &Prompt<'_>) -> Value {
    serde_json::from_slice(&encode(model, prompt)).unwrap()
}

#[test]
fn a_text() {
    let prompt = Prompt {
        system: vec!["You are a sailor.".into(), "Today is Sat Nov 21 2026.".into()],
        messages: vec![user("What now?")],
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(64),
        max_output_tokens: Some(99_000),
        ..Prompt::default()
    };
    let mut expected = vec![Delta::Usage(Usage { input: 176, cache_read: 1024, ..Usage::default() })];
    expected.extend(text(0, "Hoist the anchor – steady ⚓."));
    let usage = Delta::Usage(Usage { input: 176, output: 9, cache_read: 1024, ..Usage::default() });
    expected.insert(3, usage);
    // The signature of the text.
    expected.extend([
        Delta::ReasoningStart { block: 1 },
        Delta::Signature { block: 1, signature: "ZW5k".to_owned() },
        Delta::BlockEnd { block: 1 },
        Delta::Finish(Finish::Stop),
    ]);
    check("text", &gemini(), &prompt, &expected, Ok(()));
}

#[test]
fn thoughts_and_text() {
    let mut model = gemini();
    model
        .options
        .insert("thinkingConfig".to_owned(), json!({"includeThoughts": true, "thinkingLevel": "high"}));
    let prompt = Prompt {
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "A greeting.".into(), signature: None },
                AssistantContent::Text("Hello.".into()),
            ]),
            user("Hi again"),
        ],
        options: json!({"safetySettings": [], "seed": 2}).as_object().unwrap().clone(),
        ..Prompt::default()
    };
    let expected = [
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "The user greets.".to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::TextStart { block: 1 },
        Delta::Text { block: 1, text: "Aho".to_owned() },
        Delta::Usage(Usage { input: 40, output: 6, reasoning: 24, ..Usage::default() }),
        Delta::Text { block: 1, text: "y!".to_owned() },
        Delta::BlockEnd { block: 1 },
        Delta::Finish(Finish::Length),
    ];
    check("reasoning", &model, &prompt, &expected, Ok(()));
}

#[test]
fn messages_that_were_encoded_before_are_sent_the_same() {
    check_encoded(&gemini());
}

#[test]
fn two_parallel_tool_calls() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false,
        "properties": {"filePath": {"type": "string"}}, "required": ["filePath"],
    });
    let input = json!({"filePath": "logo.png"});
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
    let pdf = Media { mime: "application/pdf", filename: Some("plan.pdf"), base64: "JVBERi0=" };
    let call = |call_id: &'static str, input, signature| AssistantContent::ToolCall {
        call_id,
        name: "read",
        input,
        signature,
    };
    let result = |call_id: &'static str, output: &'static str, media| ToolResult {
        call_id,
        name: "read",
        output: output.into(),
        is_error: false,
        media,
    };
    let prompt = Prompt {
        messages: vec![
            PromptMessage::User(vec![UserContent::Text("See this".into()), UserContent::Media(pdf)]),
            PromptMessage::Assistant(vec![
                call("call_1", &input, Some("c2ln")),
                call("call_2", &Value::Null, None),
            ]),
            PromptMessage::ToolResults(vec![
                result("call_1", "Image read successfully", vec![image]),
                result("call_2", "filePath is required", Vec::new()),
            ]),
        ],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            schema: Cow::Borrowed(&schema),
        }],
        ..Prompt::default()
    };
    let mut expected = text(0, "Both files.").to_vec();
    expected.extend([
        call_start(1, "call_1", "read"),
        call_input(1, r#"{"filePath":"src/main.rs"}"#),
        Delta::Signature { block: 1, signature: "c2lnLTE=".to_owned() },
        Delta::BlockEnd { block: 1 },
        call_start(2, "call_2", "read"),
        call_input(2, r#"{"filePath":"Übersicht.md"}"#),
        Delta::BlockEnd { block: 2 },
        Delta::Usage(Usage { input: 500, output: 40, ..Usage::default() }),
        Delta::Finish(Finish::ToolCalls),
    ]);
    check("tool_calls", &gemini(), &prompt, &expected, Ok(()));

    // Older models take media in a message only, and signatures of nobody else are needed.
    let mut older = gemini();
    older.api_id = "gemini-2.5-pro".to_owned();
    let contents = body(&older, &prompt)["contents"].clone();
    assert_eq!(contents[2]["parts"][2], json!({"text": "Attached media from tool result:"}));
    let unsigned = Prompt {
        messages: vec![PromptMessage::Assistant(vec![call("call_1", &input, None)])],
        ..Prompt::default()
    };
    let part = "/contents/0/parts/0/thoughtSignature";
    assert_eq!(body(&older, &unsigned).pointer(part), None);
    assert_eq!(body(&gemini(), &unsigned).pointer(part), Some(&json!("skip_thought_signature_validator")));
}

#[test]
fn an_error_in_the_stream() {
    let prompt = Prompt { messages: vec![user("Hi")], ..Prompt::default() };
    let expected = [Delta::TextStart { block: 0 }, Delta::Text { block: 0, text: "Hoist ".to_owned() }];
    let error = ProviderError::Overloaded {
        message: "The model is overloaded. Please try again later.".to_owned(),
        status: Some(503),
        after: None,
    };
    check("error", &gemini(), &prompt, &expected, Err(error));
}

#[test]
fn an_answer_that_is_blocked() {
    let prompt = Prompt { messages: vec![user("Hi")], ..Prompt::default() };
    let expected = [
        Delta::Usage(Usage { input: 20, output: 1, ..Usage::default() }),
        Delta::TextStart { block: 0 },
        Delta::Text { block: 0, text: "Hoist".to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::Finish(Finish::ContentFilter),
    ];
    check("safety", &gemini(), &prompt, &expected, Ok(()));
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"}}"#;
    assert_eq!(decode_data(Wire::Google, &[blocked]), (vec![Delta::Finish(Finish::ContentFilter)], Ok(())));
    let slip = r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#;
    assert!(decode_data(Wire::Google, &[slip]).1.unwrap_err().is_retryable());
}

#[test]
fn the_address() {
    let mut model = gemini();
    let models = "https://api.acme.example/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse";
    assert_eq!(url(&model), models);
    model.api_id = "tunedModels/mine".to_owned();
    assert_eq!(url(&model), "https://api.acme.example/v1beta/tunedModels/mine:streamGenerateContent?alt=sse");
}

#[track_caller]
fn check_schema(property: Value, expected: Value) {
    let schema =
        json!({"type": "object", "properties": {"a": property}, "$defs": {"b": {"type": "boolean"}}});
    let converted = schema::of(&schema).unwrap();
    assert_eq!(converted["properties"]["a"], expected, "{schema}");
}

#[test]
fn schemas_in_the_subset_that_gemini_takes() {
    assert_eq!(schema::of(&json!({"type": "object", "properties": {}})), None);
    check_schema(json!({"type": "integer", "minimum": 1, "default": 2}), json!({"type": "integer"}));
    check_schema(json!({"type": "integer", "enum": [1, 2]}), json!({"type": "string", "enum": ["1", "2"]}));
    check_schema(json!({"const": "x"}), json!({"enum": ["x"], "type": "string"}));
    check_schema(json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true}));
    check_schema(
        json!({"type": ["string", "number"]}),
        json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
    );
    check_schema(
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "string", "nullable": true}),
    );
    check_schema(json!({"type": "array"}), json!({"type": "array", "items": {"type": "string"}}));
    check_schema(json!({"$ref": "#/$defs/b"}), json!({"type": "boolean"}));
    check_schema(
        json!({"type": "object", "properties": {"x": true}, "required": ["x", "gone"], "additionalProperties": {}}),
        json!({"required": ["x"], "type": "object", "properties": {"x": {"type": "string"}}}),
    );
    check_schema(json!({"type": "string", "properties": {}, "required": ["x"]}), json!({"type": "string"}));
    // One that refers to itself ends.
    let itself: serde_json::Map<String, Value> =
        (0..30).map(|n| (format!("a{n}"), json!({"$ref": "#"}))).collect();
    let endless = schema::of(&json!({"type": "object", "properties": itself})).unwrap();
    assert_eq!(endless["properties"]["a0"]["properties"]["a29"], json!({"type": "object"}));
}

#[test]
fn the_signature_of_a_text_goes_back_behind_it() {
    let chunk = |part: Value| json!({"candidates": [{"content": {"parts": [part]}}]}).to_string();
    let end = json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}]},
        "finishReason": "STOP"}]});
    let (deltas, ended) = decode_data(Wire::Google, &[&chunk(json!({"text": "Ahoy."})), &end.to_string()]);
    assert_eq!(ended, Ok(()));
    let mut expected = text(0, "Ahoy.").to_vec();
    expected.extend([
        Delta::ReasoningStart { block: 1 },
        Delta::Signature { block: 1, signature: "c2ln".to_owned() },
        Delta::BlockEnd { block: 1 },
        Delta::Finish(Finish::Stop),
    ]);
    assert_eq!(deltas, expected);
    let answer = vec![
        AssistantContent::Text("Ahoy.".into()),
        AssistantContent::Reasoning { text: "".into(), signature: Some("c2ln") },
    ];
    let prompt = Prompt { messages: vec![user("Hi"), PromptMessage::Assistant(answer)], ..Prompt::default() };
    let expected = json!([{"text": "Ahoy."}, {"text": "", "thoughtSignature": "c2ln"}]);
    assert_eq!(body(&gemini(), &prompt)["contents"][1]["parts"], expected);
}

#[test]
fn googles_own_tools_are_offered_shown_and_sent_back() {
    let code = json!({"executableCode": {"language": "PYTHON", "code": "print(1)"}});
    let grounding = json!({"webSearchQueries": ["rust"], "groundingChunks": [
        {"web": {"title": "Rust", "uri": "https://rust.example"}},
    ]});
    let chunks = [
        json!({"candidates": [{"content": {"parts": [code]}}]}).to_string(),
        json!({"candidates": [{"content": {"parts": [{"text": "One."}]}, "groundingMetadata": grounding,
            "finishReason": "STOP"}]})
        .to_string(),
    ];
    let (deltas, ended) = decode_data(Wire::Google, &[&chunks[0], &chunks[1]]);
    assert_eq!(ended, Ok(()));
    let shown = |block: u32, text: &str| Delta::Reasoning { block, text: text.to_owned() };
    assert!(deltas.contains(&shown(0, "print(1)")), "{deltas:?}");
    assert!(
        deltas.contains(&shown(2, "google_search: [\"rust\"]\n- Rust https://rust.example")),
        "{deltas:?}"
    );
    let signature = format!("provided:{code}");
    assert!(deltas.contains(&Delta::Signature { block: 0, signature: signature.clone() }), "{deltas:?}");
    let answer = vec![AssistantContent::Reasoning { text: "print(1)".into(), signature: Some(&signature) }];
    let prompt = Prompt {
        messages: vec![user("Hi"), PromptMessage::Assistant(answer)],
        tools: vec![ToolSpec { name: "read".into(), description: "".into(), schema: Cow::Owned(json!({})) }],
        options: json!({"tools": [{"googleSearch": {}}]}).as_object().unwrap().clone(),
        ..Prompt::default()
    };
    let body = body(&gemini(), &prompt);
    assert_eq!(body["contents"][1]["parts"], json!([code]));
    assert_eq!(body["tools"][1], json!({"googleSearch": {}}));
}
