//! The responses wire against streams in OpenAI's form.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{encode, url};
use crate::{
    AssistantContent, Delta, Finish, Media, Model, Prompt, PromptMessage, ProviderError, Quirk, Quirks,
    ToolResult, ToolSpec, Usage, UserContent, Wire,
    http::fixture::{call_input, call_start, check, check_encoded, decode_data, model, text},
};

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

fn gpt() -> Model {
    let mut model = model(Wire::OpenAiResponses);
    model.options.insert("reasoningEffort".to_owned(), json!("medium"));
    model.options.insert("reasoningSummary".to_owned(), json!("auto"));
    model.options.insert("textVerbosity".to_owned(), json!("low"));
    model
}

fn body(model: &Model, prompt: &Prompt<'_>) -> Value {
    serde_json::from_slice(&encode(model, prompt)).unwrap()
}

#[test]
fn a_text() {
    let mut model = model(Wire::OpenAiResponses);
    model.reasons = false;
    let prompt = Prompt {
        system: vec!["You are a sailor.".into(), "Today is Sat Nov 21 2026.".into()],
        messages: vec![user("What now?")],
        temperature: Some(0.5),
        top_p: Some(0.25),
        max_output_tokens: Some(99_000),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let mut expected = text(0, "Hoist the anchor – steady ⚓.").to_vec();
    expected.push(Delta::Usage(Usage { input: 176, output: 9, cache_read: 1024, ..Usage::default() }));
    expected.push(Delta::Finish(Finish::Stop));
    check("text", &model, &prompt, &expected, Ok(()));
}

#[test]
fn thoughts_and_text() {
    let prompt = Prompt {
        system: vec!["You are a sailor.".into()],
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "A greeting.".into(), signature: Some("ZW5j") },
                AssistantContent::Text("Hello.".into()),
                AssistantContent::Reasoning { text: "Cut off.".into(), signature: Some("ZW5k") },
            ]),
            user("Hi again"),
        ],
        temperature: Some(0.5),
        options: json!({"reasoningEffort": "high", "seed": 2, "setCacheKey": false})
            .as_object()
            .unwrap()
            .clone(),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let mut expected = vec![
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "The user greets.\n\nAnswer briefly.".to_owned() },
        Delta::Signature { block: 0, signature: "item:rs_1:Z0FBQUFB".to_owned() },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend(text(1, "Ahoy!"));
    expected.push(Delta::Usage(Usage { input: 40, output: 6, reasoning: 24, ..Usage::default() }));
    expected.push(Delta::Finish(Finish::Length));
    check("reasoning", &gpt(), &prompt, &expected, Ok(()));
}

#[test]
fn messages_that_were_encoded_before_are_sent_the_same() {
    check_encoded(&gpt());
}

#[test]
fn two_parallel_tool_calls() {
    let schema = json!({"type": "object", "properties": {"filePath": {"type": "string"}}});
    let input = json!({"filePath": "logo.png"});
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
    let pdf = Media { mime: "application/pdf", filename: Some("plan.pdf"), base64: "JVBERi0=" };
    let call = |call_id: &'static str, input| AssistantContent::ToolCall {
        call_id,
        name: "read",
        input,
        signature: None,
    };
    let result = |call_id: &'static str, output: &'static str, media| ToolResult {
        call_id,
        name: "read",
        output: output.into(),
        is_error: false,
        media,
    };
    let prompt = Prompt {
        system: vec!["You are a sailor.".into()],
        messages: vec![
            PromptMessage::User(vec![UserContent::Text("See this".into()), UserContent::Media(pdf)]),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "".into(), signature: Some("c2ln") },
                call("call_1", &input),
                call("call_2", &Value::Null),
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
    let expected = [
        Delta::ReasoningStart { block: 0 },
        Delta::Signature { block: 0, signature: "item:rs_1:c2VjcmV0".to_owned() },
        Delta::BlockEnd { block: 0 },
        call_start(1, "call_Aa1", "read"),
        call_start(2, "call_Bb2", "read"),
        call_input(1, r#"{"filePath":"src/main.rs"}"#),
        call_input(2, r#"{"filePath":"Übersicht.md"}"#),
        Delta::BlockEnd { block: 1 },
        Delta::BlockEnd { block: 2 },
        Delta::Usage(Usage { input: 500, output: 40, ..Usage::default() }),
        Delta::Finish(Finish::ToolCalls),
    ];
    check("tool_calls", &gpt(), &prompt, &expected, Ok(()));
}

#[test]
fn an_error_in_the_stream() {
    let mut model = gpt();
    model.takes_images = false;
    model.quirks =
        Quirks::of(&[Quirk::SystemRole, Quirk::NoSummary, Quirk::NoOutputLimit, Quirk::NoCacheKey]);
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
    let prompt = Prompt {
        system: vec!["You are a sailor.".into()],
        messages: vec![PromptMessage::User(vec![UserContent::Media(image)])],
        max_output_tokens: Some(1_000),
        cache_key: Some("ses_1"),
        ..Prompt::default()
    };
    let expected = [Delta::TextStart { block: 0 }, Delta::Text { block: 0, text: "Hoist ".to_owned() }];
    let error = ProviderError::Overloaded {
        message: "The server had an error while processing your request.".to_owned(),
        status: None,
        after: None,
    };
    check("error", &model, &prompt, &expected, Err(error));
}

#[test]
fn a_refusal_is_shown() {
    let mut model = gpt();
    model.quirks = Quirks::of(&[Quirk::Instructions]);
    let prompt = Prompt {
        system: vec!["You are a sailor.".into()],
        messages: vec![user("Sink it.")],
        ..Prompt::default()
    };
    let mut expected = text(0, "I cannot help with that.").to_vec();
    expected.push(Delta::Usage(Usage { input: 20, output: 8, ..Usage::default() }));
    expected.push(Delta::Finish(Finish::Stop));
    check("refusal", &model, &prompt, &expected, Ok(()));
}

#[test]
fn the_address_keeps_its_query() {
    let mut model = model(Wire::OpenAiResponses);
    assert_eq!(url(&model), "https://api.acme.example/v1/responses");
    model.base_url = "https://res.example/openai/v1?api-version=v1".to_owned();
    assert_eq!(url(&model), "https://res.example/openai/v1/responses?api-version=v1");
}

#[test]
fn a_model_without_effort_takes_a_temperature() {
    let mut model = gpt();
    model.options.insert("reasoningEffort".to_owned(), json!("none"));
    let prompt = Prompt { temperature: Some(0.5), ..Prompt::default() };
    let none = body(&model, &prompt);
    assert_eq!(none["temperature"], 0.5);
    assert_eq!(none["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(body(&gpt(), &prompt).get("temperature"), None);
}

#[test]
fn items_that_arrive_whole_are_passed_on() {
    let added = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."},{"type":"summary_text","text":"So."}],"encrypted_content":"x"}}"#;
    let text_item = r#"{"type":"response.output_item.done","output_index":1,"item":{"type":"message","content":[{"type":"output_text","text":"Ahoy."}]}}"#;
    let call = r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"read","arguments":"{}"}}"#;
    let search = r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"web_search_call"}}"#;
    let end = r#"{"type":"response.completed","response":{"usage":null}}"#;
    let (deltas, finished) = decode_data(Wire::OpenAiResponses, &[added, text_item, call, search, end]);
    let mut expected = vec![
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "Hm.\n\nSo.".to_owned() },
        Delta::Signature { block: 0, signature: "item:rs_1:x".to_owned() },
        Delta::BlockEnd { block: 0 },
    ];
    expected.extend(text(1, "Ahoy."));
    expected.extend([
        call_start(2, "c1", "read"),
        call_input(2, "{}"),
        Delta::BlockEnd { block: 2 },
        Delta::ReasoningStart { block: 3 },
        Delta::Reasoning { block: 3, text: "web_search".to_owned() },
        Delta::BlockEnd { block: 3 },
        Delta::Finish(Finish::ToolCalls),
    ]);
    assert_eq!((deltas, finished), (expected, Ok(())));
}

#[test]
fn an_incomplete_answer_says_why() {
    let end = |reason: &str| {
        let event =
            json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
        decode_data(Wire::OpenAiResponses, &[&event.to_string()])
    };
    assert_eq!(end("content_filter"), (vec![Delta::Finish(Finish::ContentFilter)], Ok(())));
    assert_eq!(end("max_output_tokens"), (vec![Delta::Finish(Finish::Length)], Ok(())));
    let cut = decode_data(Wire::OpenAiResponses, &[r#"{"type":"response.created","response":{}}"#]);
    assert!(matches!(cut.1, Err(ProviderError::Transport { .. })), "{cut:?}");
    let long = r#"{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Too long"}}}"#;
    let overflow = ProviderError::Overflow { message: "Too long".to_owned() };
    assert_eq!(decode_data(Wire::OpenAiResponses, &[long]), (Vec::new(), Err(overflow)));
    let quota = r#"{"type":"error","code":"insufficient_quota","message":"Pay"}"#;
    let (_, error) = decode_data(Wire::OpenAiResponses, &[quota]);
    assert!(!error.unwrap_err().is_retryable());
}

#[test]
fn tools_that_the_provider_runs_are_offered_and_shown() {
    let searched = json!({"type": "web_search_call", "id": "ws_1", "action": {"query": "rust"}});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": searched}).to_string();
    let added =
        json!({"type": "response.output_item.added", "output_index": 0, "item": searched}).to_string();
    let end = json!({"type": "response.completed", "response": {}}).to_string();
    let (deltas, ended) = decode_data(Wire::OpenAiResponses, &[&added, &done, &end]);
    assert_eq!(ended, Ok(()));
    let expected = [
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "web_search: {\"query\":\"rust\"}".to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::Finish(Finish::Stop),
    ];
    assert_eq!(deltas, expected);
    let prompt = Prompt {
        messages: vec![user("Search.")],
        tools: vec![ToolSpec { name: "read".into(), description: "".into(), schema: Cow::Owned(json!({})) }],
        options: json!({"tools": [{"type": "web_search"}]}).as_object().unwrap().clone(),
        ..Prompt::default()
    };
    let body = body(&gpt(), &prompt);
    assert_eq!(
        (&body["tools"][0]["name"], &body["tools"][1]),
        (&json!("read"), &json!({"type": "web_search"}))
    );
}

#[test]
fn calls_go_back_with_ids_where_the_provider_wants_them() {
    let mut grok = model(Wire::OpenAiResponses);
    grok.quirks = Quirks::of(&[Quirk::ItemIds]);
    let call =
        AssistantContent::ToolCall { call_id: "call_1", name: "read", input: &json!({}), signature: None };
    let thought = AssistantContent::Reasoning { text: "Hm.".into(), signature: Some("item:rs_1:ZW5j") };
    let prompt =
        Prompt { messages: vec![PromptMessage::Assistant(vec![thought, call])], ..Prompt::default() };
    let thought = json!({"type": "reasoning", "id": "rs_1", "encrypted_content": "ZW5j", "status": "completed",
        "summary": [{"type": "summary_text", "text": "Hm."}]});
    assert_eq!(body(&grok, &prompt)["input"][0], thought);
    let gpt = body(&gpt(), &prompt);
    assert_eq!((gpt["input"][0].get("id"), &gpt["input"][0]["encrypted_content"]), (None, &json!("ZW5j")));
    let expected = json!({"type": "function_call", "id": "call_1", "call_id": "call_1", "name": "read",
        "arguments": "{}", "status": "completed"});
    assert_eq!(body(&grok, &prompt)["input"][1], expected);
}
