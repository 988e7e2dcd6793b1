//! The Converse wire against streams in Amazon's form.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{regional_id, url};
use crate as provider;
use crate::{
    AssistantContent, Delta, Finish, Media, Model, Prompt, PromptMessage, ProviderError, ToolResult,
    ToolSpec, Usage, UserContent, Wire,
    http::{
        self,
        fixture::{call_input, call_start, check, check_encoded, decode, event_stream, model, text},
    },
};

fn user(text: &str) -> PromptMessage<'_> {
    PromptMessage::User(vec![UserContent::Text(text.into())])
}

fn of(api_id: &str) -> Model {
    let mut model = model(Wire::Bedrock);
    api_id.clone_into(&mut model.api_id);
    model.base_url = "https://bedrock-runtime.us-east-1.amazonaws.com".to_owned();
    model
}

fn claude() -> Model {
    of("us.anthropic.claude-sonnet-4-5-20250929-v1:0")
}

fn body(model: &Model, prompt: &Prompt<'_>) -> Value {
    serde_json::from_slice(&http::encode(model, prompt).1).unwrap()
}

fn call<'a>(call_id: &'a str, input: &'a Value) -> AssistantContent<'a> {
    AssistantContent::ToolCall { call_id, name: "read", input, signature: None }
}

fn result<'a>(call_id: &'a str, output: &'a str, media: Vec<Media<'a>>) -> ToolResult<'a> {
    ToolResult { call_id, name: "read", output: output.into(), is_error: output.is_empty(), media }
}

const IMAGE: Media<'_> = Media { mime: "image/png", filename: Some("logo.png"), base64: "iVBORw0=" };
const PDF: Media<'_> =
    Media { mime: "application/pdf", filename: Some("the  plan_v1.pdf"), base64: "JVBERi0=" };

fn usage(input: u64, output: u64) -> Delta {
    Delta::Usage(Usage { input, output, ..Usage::default() })
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
    let mut expected = text(0, "Hoist the anchor – steady ⚓.").to_vec();
    expected.push(Delta::Usage(Usage {
        input: 12,
        output: 9,
        reasoning: 0,
        cache_read: 1024,
        cache_write: 40,
    }));
    expected.push(Delta::Finish(Finish::Stop));
    check("text", &claude(), &prompt, &expected, Ok(()));
}

#[test]
fn thoughts_and_text() {
    let mut model = claude();
    model.options.insert("thinking".to_owned(), json!({"type": "enabled", "budgetTokens": 16_000}));
    let prompt = Prompt {
        messages: vec![
            user("Hi"),
            PromptMessage::Assistant(vec![
                AssistantContent::Reasoning { text: "A greeting.".into(), signature: Some("c2ln") },
                AssistantContent::Reasoning { text: "".into(), signature: Some("redacted:c2VjcmV0") },
                AssistantContent::Reasoning { text: "Of another model.".into(), signature: None },
                AssistantContent::Text("Hello.".into()),
            ]),
            user("Hi again"),
            user(" "),
            user("and again"),
        ],
        temperature: Some(0.5),
        options: json!({"guardrailConfig": {"guardrailIdentifier": "g"}, "anthropic_beta": ["b"]})
            .as_object()
            .unwrap()
            .clone(),
        ..Prompt::default()
    };
    let expected = [
        Delta::ReasoningStart { block: 0 },
        Delta::Reasoning { block: 0, text: "The user greets.".to_owned() },
        Delta::Signature { block: 0, signature: "c2lnLTEyMzQ=".to_owned() },
        Delta::BlockEnd { block: 0 },
        Delta::ReasoningStart { block: 1 },
        Delta::Signature { block: 1, signature: "redacted:c2VjcmV0".to_owned() },
        Delta::BlockEnd { block: 1 },
        Delta::TextStart { block: 2 },
        Delta::Text { block: 2, text: "Ahoy!".to_owned() },
        Delta::BlockEnd { block: 2 },
        usage(40, 30),
        Delta::Finish(Finish::Length),
    ];
    check("reasoning", &model, &prompt, &expected, Ok(()));
}

#[test]
fn two_parallel_tool_calls() {
    let input = json!({"filePath": "logo.png"});
    let prompt = Prompt {
        messages: vec![
            PromptMessage::User(vec![UserContent::Media(PDF), UserContent::Media(PDF)]),
            PromptMessage::Assistant(vec![
                call("call/1", &input),
                AssistantContent::Text("Reading.".into()),
                call("call_2", &Value::Null),
            ]),
            PromptMessage::ToolResults(vec![
                result("call/1", "Image read successfully", vec![IMAGE, PDF]),
                result("call_2", "", Vec::new()),
            ]),
        ],
        tools: vec![ToolSpec {
            name: "read".into(),
            description: "Reads a file.".into(),
            schema: Cow::Owned(json!({"type": "object", "properties": {"filePath": {"type": "string"}}})),
        }],
        ..Prompt::default()
    };
    let mut expected = text(0, "Reading.").to_vec();
    expected.extend([
        call_start(1, "tooluse_1", "read"),
        call_input(1, r#"{"filePath": "a.txt"}"#),
        Delta::BlockEnd { block: 1 },
        call_start(2, "tooluse_2", "glob"),
        call_input(2, "{}"),
        Delta::BlockEnd { block: 2 },
        usage(50, 20),
        Delta::Finish(Finish::ToolCalls),
    ]);
    check("tool_calls", &claude(), &prompt, &expected, Ok(()));
}

#[test]
fn an_exception_in_the_middle() {
    let error = ProviderError::RateLimited {
        message: "Too many tokens, please wait before trying again.".to_owned(),
        status: 429,
        after: None,
    };
    let prompt = Prompt { messages: vec![user("Hi")], ..Prompt::default() };
    check("overloaded", &of("amazon.nova-pro-v1:0"), &prompt, &text(0, "Hoist")[..2], Err(error));
}

#[test]
fn a_refusal_shows_what_was_said() {
    let prompt = Prompt { messages: vec![user("Hi")], ..Prompt::default() };
    let mut expected = text(0, "I cannot").to_vec();
    expected.extend([usage(5, 2), Delta::Finish(Finish::ContentFilter)]);
    check("refusal", &of("openai.gpt-oss-120b-1:0"), &prompt, &expected, Ok(()));
}

#[test]
fn exceptions_are_classified() {
    for (name, said, kind) in [
        ("internalServerException", "x", "Overloaded"),
        ("serviceUnavailableException", "x", "Overloaded"),
        ("modelStreamErrorException", "x", "Overloaded"),
        ("modelTimeoutException", "x", "Overloaded"),
        ("validationException", "x", "Api"),
        ("validationException", "Input is too long for requested model.", "Overflow"),
        ("accessDeniedException", "x", "Auth"),
        ("serviceQuotaExceededException", "x", "RateLimited"),
        ("unknownException", "x", "Api"),
    ] {
        let stream = event_stream(&json!([{name: {"message": said}}]).to_string());
        let (_, end) = decode(Wire::Bedrock, &[&stream]);
        let shown = format!("{:?}", end.unwrap_err());
        assert!(shown.starts_with(kind), "{name}: {shown}");
    }
}

#[test]
fn an_answer_that_is_cut_or_damaged_is_an_error() {
    let stream =
        event_stream(r#"[{"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "Hi"}}}]"#);
    let (deltas, end) = decode(Wire::Bedrock, &[&stream]);
    assert_eq!(deltas, text(0, "Hi")[..2]);
    assert!(matches!(end, Err(ProviderError::Transport { .. })), "{end:?}");
    let mut damaged = stream.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let (_, end) = decode(Wire::Bedrock, &[&stream, &damaged]);
    let message = "a message of the event stream has a wrong checksum".to_owned();
    assert_eq!(end, Err(ProviderError::Api { message, status: None, body: None }));
    // The counts are missing where a proxy leaves them out.
    let stream = event_stream(r#"[{"messageStop": {"stopReason": "end_turn"}}]"#);
    assert_eq!(decode(Wire::Bedrock, &[&stream]), (vec![Delta::Finish(Finish::Stop)], Ok(())));
}

#[test]
fn messages_that_were_encoded_before_are_sent_the_same() {
    check_encoded(&claude());
    check_encoded(&of("us.amazon.nova-pro-v1:0"));
}

#[test]
fn each_maker_gets_media_and_ids_as_it_takes_them() {
    let input = json!({});
    let sent = |id: &str, media: Media<'static>| {
        let long = "c".repeat(65);
        let prompt = Prompt {
            messages: vec![
                PromptMessage::Assistant(vec![call(&long, &input)]),
                PromptMessage::ToolResults(vec![result(&long, "x", vec![media])]),
            ],
            ..Prompt::default()
        };
        let body = body(&of(id), &prompt);
        let result = &body["messages"][1]["content"];
        assert_eq!(
            body["messages"][0]["content"][0]["toolUse"]["toolUseId"],
            result[0]["toolResult"]["toolUseId"]
        );
        assert!(result[0]["toolResult"]["toolUseId"].as_str().unwrap().len() == 9, "{result}");
        // A conversation with calls must have tools.
        assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "_noop");
        result[0]["toolResult"]["content"].as_array().unwrap().len()
    };
    for (id, n_with_image, n_with_pdf) in [
        ("us.anthropic.claude-opus-5", 2, 2),
        ("amazon.nova-lite-v1:0", 2, 2),
        ("us.meta.llama4-scout-17b-instruct-v1:0", 2, 1),
        ("mistral.pixtral-large-2502-v1:0", 1, 1),
        ("openai.gpt-oss-120b-1:0", 1, 1),
    ] {
        assert_eq!((sent(id, IMAGE), sent(id, PDF)), (n_with_image, n_with_pdf), "{id}");
    }
}

#[test]
fn the_id_is_a_part_of_the_address() {
    let expected = "https://bedrock-runtime.us-east-1.amazonaws.com/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream";
    assert_eq!(url(&claude()), expected);
    let profile = "arn:aws:bedrock:us-east-1:1:inference-profile/x";
    assert!(url(&of(profile)).contains("arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fx"));
}

#[test]
fn ids_get_the_prefix_of_their_regions() {
    let claude = "anthropic.claude-sonnet-4-5-20250929-v1:0";
    for (id, region, expected) in [
        (claude, "us-east-1", "us."),
        (claude, "us-gov-west-1", ""),
        (claude, "eu-central-1", "eu."),
        (claude, "ap-northeast-1", "jp."),
        (claude, "ap-southeast-2", "au."),
        (claude, "ap-south-1", "apac."),
        (claude, "sa-east-1", ""),
        ("amazon.nova-pro-v1:0", "us-west-2", "us."),
        ("amazon.nova-pro-v1:0", "ap-northeast-1", "apac."),
        ("meta.llama3-1-8b-instruct-v1:0", "eu-west-1", "eu."),
        ("openai.gpt-oss-120b-1:0", "us-east-1", ""),
        ("global.anthropic.claude-opus-5", "us-east-1", ""),
        ("us.anthropic.claude-opus-5", "eu-west-1", ""),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude", "us-east-1", ""),
    ] {
        assert_eq!(regional_id(id, region), format!("{expected}{id}"), "{region}");
    }
}

#[test]
fn documents_have_names_of_their_own_in_the_whole_request() {
    let model = claude();
    let input = json!({"filePath": "/plan_v1.pdf"});
    let messages = || {
        vec![
            PromptMessage::User(vec![UserContent::Media(PDF), UserContent::Text("Compare.".into())]),
            PromptMessage::Assistant(vec![call("c1", &input)]),
            PromptMessage::ToolResults(vec![result(
                "c1",
                r#"{"document":{"format":"pdf","name":"x"}}"#,
                vec![PDF, PDF],
            )]),
            PromptMessage::User(vec![UserContent::Media(PDF)]),
        ]
    };
    let whole = body(&model, &Prompt { messages: messages(), ..Prompt::default() });
    let names = |body: &Value| -> Vec<String> {
        let text = body["messages"].to_string();
        let names = text.split(r#""name":"the plan v1"#).skip(1);
        names.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
    };
    assert_eq!(names(&whole), ["", " 2", " 3", " 4"], "{whole}");
    let earlier = provider::encoded(&model, &Map::new(), &messages()[..3]).unwrap();
    let later = Prompt {
        messages: vec![PromptMessage::Encoded(&earlier), messages().remove(3)],
        ..Prompt::default()
    };
    assert_eq!(body(&model, &later), whole);
}
