//! Bad answers of providers and gateways: each is one sentence with provider, model and the way out, and the
//! request ends.

use std::sync::Arc;

use windlass_core::config::Environment;

use super::{EVENTS, HELLO, STOP, Then, ask, exchange, run};
use crate::{
    Media, Model, Prompt, PromptMessage, ProviderError, ToolResult, UserContent, Wire,
    aws::Account,
    http::{
        Client,
        fixture::{encode, model},
    },
};

const WIRES: [Wire; 5] =
    [Wire::OpenAiChat, Wire::OpenAiResponses, Wire::Anthropic, Wire::Google, Wire::Bedrock];

fn answer(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

const PAGE: &str = "<!DOCTYPE html><html><body>Sign in</body></html>";
const HTML: &str = "content-type: text/html; charset=utf-8\r\n";
const JSON: &str = "content-type: application/json\r\n";

#[test]
fn each_bad_answer_is_one_sentence_with_the_way_out() {
    let sse = "content-type: text/event-stream\r\n";
    let garbage = "\u{1f}\u{8b}\u{8}garbage\n\n";
    // The answer, a part of the sentence, and true if the same request may succeed later.
    let cases = [
        (answer("200 OK", HTML, PAGE), "not a stream of events; check that the base URL is the API's", false),
        (answer("200 OK", sse, PAGE), "not a stream of events", false),
        (
            answer("401 No", HTML, PAGE),
            "check the key and whether this network may reach the provider",
            false,
        ),
        (answer("502 Bad", HTML, PAGE), "a web page came instead of an answer; check the base URL", true),
        (answer("200 OK", sse, ""), "the connection closed before the answer was complete", true),
        (answer("400 Bad", "", ""), "the provider gave no reason (HTTP 400)", false),
        (answer("503 Busy", "", ""), "the provider gave no reason (HTTP 503)", true),
        (answer("200 OK", "content-encoding: gzip\r\n", garbage), "the answer is compressed", false),
        (answer("200 OK", sse, garbage), "not a stream of events", false),
        (answer("200 OK", sse, "data: {\"choices\":"), "the connection closed before", true),
        (answer("200 OK", sse, "data: {no json\n\n"), "an event that cannot be understood", false),
        (
            answer(
                "400 Bad",
                JSON,
                r#"{"error": {"message": "registry.ollama.ai/library/x does not support tools"}}"#,
            ),
            "does not support tools (HTTP 400) – set `\"tool_call\": false` at `provider.acme.models.large`",
            false,
        ),
        (
            answer("400 Bad", JSON, r#"{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}"#),
            "prompt is too long: 9 tokens > 8 maximum (HTTP 400)",
            false,
        ),
        (
            answer("404 No", JSON, r#"{"error": {"message": "The model `large` does not exist"}}"#),
            "does not exist (HTTP 404) – `windlass models acme` lists the models",
            false,
        ),
        (
            answer("402 Pay", JSON, r#"{"error": {"message": "Insufficient Balance"}}"#),
            "Insufficient Balance (HTTP 402) – look at the account's plan",
            false,
        ),
        (
            answer("429 Slow", JSON, r#"{"error": {"message": "Quota.", "code": "insufficient_quota"}}"#),
            "Quota. (HTTP 429)",
            false,
        ),
        (
            answer("401 No", JSON, r#"{"error": {"message": "Wrong key"}}"#),
            "set ACME_API_KEY in the environment",
            false,
        ),
    ];
    for (answer, expected, may_retry) in cases {
        let (_, end, _) = exchange(&answer, Then::Close, |_| {});
        let error = end.unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("Acme, large (HOST): "), "{message}");
        assert!(message.contains(expected), "{message}");
        assert_eq!(error.is_retryable(), may_retry, "{message}");
        assert!(!message.contains('\n') && !message.contains('<'), "{message}");
    }
}

#[test]
fn no_wire_takes_a_page_an_empty_body_or_garbage_for_an_answer() {
    let sse = "content-type: text/event-stream\r\n";
    let garbage = "\u{1f}\u{8b}\u{8}garbage garbage garbage\n\n";
    for wire in WIRES {
        for (answer, expected) in [
            (answer("200 OK", HTML, PAGE), "not a stream of events; check that the base URL is the API's"),
            (answer("401 No", HTML, PAGE), "check the key"),
            (answer("502 Bad", HTML, PAGE), "a web page came instead of an answer"),
            (answer("200 OK", sse, ""), "the connection closed before the answer was complete"),
            (answer("200 OK", "content-encoding: gzip\r\n", garbage), "the answer is compressed"),
            (answer("200 OK", sse, PAGE), ""),
            (answer("200 OK", sse, garbage), ""),
        ] {
            let (deltas, end, _) = exchange(&answer, Then::Close, |model| model.wire = wire);
            let message = end.unwrap_err().to_string();
            assert!(
                message.starts_with("Acme, large (HOST): ") && message.contains(expected),
                "{wire:?}: {message}"
            );
            assert!(deltas.is_empty() && !message.contains(['\n', '<']), "{wire:?}: {message}");
        }
    }
}

#[test]
fn a_stream_without_an_end_of_line_is_bounded() {
    let endless = format!("{EVENTS}\r\n{HELLO}data: {}", "x".repeat(17 << 20));
    let (deltas, end, _) = exchange(&endless, Then::Close, |_| {});
    assert_eq!(deltas.len(), 2);
    let error = end.unwrap_err();
    assert!(error.to_string().contains("larger than 16 MiB"), "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn a_stream_in_another_framing_is_refused() {
    let (_, end, _) =
        exchange(&format!("{EVENTS}\r\n{HELLO}"), Then::Close, |model| model.wire = Wire::Bedrock);
    let error = end.unwrap_err();
    assert!(error.to_string().contains("wrong checksum"), "{error}");
    assert!(matches!(error, ProviderError::Api { .. }));
}

#[test]
fn a_model_gets_a_sentence_in_place_of_what_it_cannot_take() {
    let image = Media { mime: "image/png", filename: Some("logo.png"), base64: "AAAA" };
    let pdf = Media { mime: "application/pdf", filename: Some("plan.pdf"), base64: "AAAA" };
    let video = Media { mime: "video/mp4", filename: None, base64: "AAAA" };
    let empty = Media { mime: "image/png", filename: Some("empty.png"), base64: "" };
    for wire in WIRES {
        let mut model = model(wire);
        (model.takes_images, model.takes_pdf, model.takes_tools) = (false, false, false);
        let media = [&image, &pdf, &video, &empty];
        let result = ToolResult {
            call_id: "call_1",
            name: "read",
            output: "Read.".into(),
            is_error: false,
            media: vec![image.clone()],
        };
        let prompt = Prompt {
            messages: vec![
                PromptMessage::User(media.iter().map(|it| UserContent::Media((*it).clone())).collect()),
                PromptMessage::ToolResults(vec![result]),
            ],
            ..Prompt::default()
        };
        let body = String::from_utf8(encode(&model, &prompt)).unwrap();
        assert!(!body.contains("AAAA"), "{wire:?}: {body}");
        for expected in [
            "ERROR: Cannot read \\\"logo.png\\\" (this model does not support image input). Inform the user.",
            "(this model does not support pdf input)",
            "(this model does not support video input)",
            "\\\"empty.png\\\" is empty or corrupted",
        ] {
            assert!(body.contains(expected), "{wire:?}: {body}");
        }
    }
}

fn signed(model: &mut Model) {
    let variables = [
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret-1"),
        ("AWS_SESSION_TOKEN", "token-1"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect();
    let environment = Environment { trusts_projects: true, variables, home: "/nowhere".into() };
    model.api_key = None;
    model.aws = Some(Arc::new(Account::new(&environment, Some("eu-west-1"), None)));
}

#[test]
fn a_request_without_a_key_is_signed() {
    let (_, end, head) = exchange(&format!("{EVENTS}\r\n{HELLO}{STOP}"), Then::Close, signed);
    assert_eq!(end, Ok(()));
    let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap();
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 Credential=AKID/"), "{authorization}");
    let scope =
        "/eu-west-1/bedrock/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=";
    assert!(authorization.contains(scope), "{authorization}");
    assert!(head.contains("x-amz-security-token: token-1\r\n") && head.contains("x-amz-date: "), "{head}");
}

#[test]
fn refused_credentials_of_aws_have_their_own_remedy() {
    let body = r#"{"Message": "The security token included in the request is invalid."}"#;
    let (_, end, _) = exchange(&answer("403 No", JSON, body), Then::Close, signed);
    let error = end.unwrap_err().to_string();
    assert!(error.contains("The security token included in the request is invalid. (HTTP 403)"), "{error}");
    assert!(error.contains("check AWS's credentials") && error.contains("the region"), "{error}");
    // Without any, nothing is sent.
    let mut model = model(Wire::Bedrock);
    let variables = [("AWS_EC2_METADATA_DISABLED".to_owned(), "true".to_owned())].into_iter().collect();
    let environment = Environment { trusts_projects: true, variables, home: "/nowhere".into() };
    model.api_key = None;
    model.aws = Some(Arc::new(Account::new(&environment, None, None)));
    let (_, end) = run(async { ask(&Client::default(), &model).await });
    let error = end.unwrap_err().to_string();
    assert!(
        error.starts_with("Acme, large (api.acme.example): no AWS credentials were found; set "),
        "{error}"
    );
}
