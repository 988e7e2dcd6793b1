//! Each refusal gets the right kind and names the provider and the reason.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::{classify, from_event};
use crate::{ProviderError, Wire, http::fixture::model};

/// Fri, 21 Nov 2025 08:00:00 GMT.
const NOW_MS: i64 = 1_763_712_000_000;

fn respond(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ProviderError {
    let headers: HeaderMap = headers
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    classify(&model(Wire::OpenAiChat), status, &headers, body.as_bytes(), NOW_MS)
}

fn kind(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::Auth { .. } => "auth",
        ProviderError::RateLimited { .. } => "rate limited",
        ProviderError::Overflow { .. } => "overflow",
        ProviderError::Overloaded { .. } => "overloaded",
        ProviderError::Api { .. } => "api",
        ProviderError::Transport { .. } => "transport",
        ProviderError::NotRunning { .. } => "not running",
        ProviderError::Silent { .. } => "silent",
        ProviderError::Unsent { .. } => "unsent",
    }
}

#[test]
fn the_status_tells_the_kind() {
    let kinds: Vec<_> = [400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529]
        .into_iter()
        .map(|status| (status, kind(&respond(status, &[], ""))))
        .collect();
    assert_eq!(
        kinds,
        [
            (400, "api"),
            (401, "auth"),
            (402, "api"),
            (403, "auth"),
            (404, "api"),
            (408, "overloaded"),
            (409, "overloaded"),
            (413, "overflow"),
            (422, "api"),
            (429, "rate limited"),
            (500, "overloaded"),
            (502, "overloaded"),
            (503, "overloaded"),
            (504, "overloaded"),
            (529, "overloaded"),
        ]
    );
}

#[test]
fn a_refused_key_comes_with_a_remedy() {
    let body = r#"{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}"#;
    assert_eq!(
        respond(401, &[], body),
        ProviderError::Auth {
            message:
                "Acme, large (api.acme.example): Incorrect API key provided. (HTTP 401) – correct `provider.acme.options.apiKey` if \
                 opencode.json sets it, else set ACME_API_KEY in the environment or run `windlass \
                 auth login` and choose acme."
                    .to_owned()
        }
    );
}

#[test]
fn an_empty_account_is_not_asked_again() {
    let body = r#"{"error":{"message":"You exceeded your current quota.","code":"insufficient_quota"}}"#;
    assert_eq!(
        respond(429, &[("retry-after", "3")], body),
        ProviderError::Api {
            message: "Acme, large (api.acme.example): You exceeded your current quota. (HTTP 429) – look at the account's plan, or \
                      use another provider."
                .to_owned(),
            status: Some(429),
            body: Some(body.to_owned()),
        }
    );
}

#[test]
fn the_wait_is_read_in_all_its_forms() {
    let wait = |headers| respond(429, headers, "").retry_after();
    assert_eq!(wait(&[]), None);
    assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]), Some(Duration::from_millis(1500)));
    assert_eq!(wait(&[("retry-after", "2.5")]), Some(Duration::from_millis(2500)));
    assert_eq!(wait(&[("retry-after", "Fri, 21 Nov 2025 08:00:20 GMT")]), Some(Duration::from_secs(20)));
    assert_eq!(wait(&[("retry-after", "Fri, 21 Nov 2025 07:00:00 GMT")]), Some(Duration::ZERO));
    assert_eq!(wait(&[("retry-after", "-1")]), None);
    assert_eq!(wait(&[("retry-after", "inf")]), None);
    assert_eq!(wait(&[("retry-after", "soon")]), None);
}

#[test]
fn a_wait_of_more_than_ten_minutes_ends_the_attempts_and_is_said() {
    let failure = |seconds: &'static str| respond(429, &[("retry-after", seconds)], "slow down");
    assert!(failure("600").is_retryable());
    let error = failure("31536000");
    assert!(!error.is_retryable());
    let expected = "slow down (HTTP 429); the provider asks to wait for 8760 h 0 min, which is too long";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn too_long_a_prompt_is_known_by_code_and_by_words() {
    let by_code =
        r#"{"error":{"message":"No.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    assert_eq!(kind(&respond(400, &[], by_code)), "overflow");
    for words in [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
        "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
        "This model's maximum context length is 8192 tokens. However, you requested 9000.",
        "Maximum prompt length is 131,072 but the request contains 140000 tokens.",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        "Please reduce the length of the messages or completion.",
        "input length and `max_tokens` exceed context limit: input length 190000 exceeds the model's context length",
        "prompt token count of 90000 exceeds the limit of 64000",
    ] {
        assert_eq!(
            kind(&respond(400, &[], &json!({"error": {"message": words}}).to_string())),
            "overflow",
            "{words}"
        );
        assert_eq!(kind(&respond(500, &[], words)), "overflow", "{words}");
        assert_eq!(kind(&from_event(&json!({"error": words}))), "overflow", "{words}");
    }
    for words in
        ["messages: field required", "exceeds the limit of the account", "maximum context length is unknown"]
    {
        assert_eq!(
            kind(&respond(400, &[], &json!({"error": {"message": words}}).to_string())),
            "api",
            "{words}"
        );
    }
}

#[test]
fn a_rate_limit_that_speaks_of_length_stays_one() {
    let body = r#"{"error":{"message":"Tokens per minute: please reduce the length of the messages."}}"#;
    assert_eq!(kind(&respond(429, &[], body)), "rate limited");
}

#[test]
fn the_providers_words_are_found() {
    let said = |body: &str| respond(400, &[], body).to_string();
    for body in [
        r#"{"error":{"message":"Bad model."}}"#,
        r#"{"message":"Bad model."}"#,
        r#"{"error":"Bad model."}"#,
        r#"{"detail":"Bad model."}"#,
        r#"[{"error":{"code":400,"message":"Bad model.","status":"INVALID_ARGUMENT"}}]"#,
        r#"{"object":"error","message":"Bad model."}"#,
        r#"{"error":true,"message":"Bad model."}"#,
        " Bad model.\n",
    ] {
        assert_eq!(said(body), "Acme, large (api.acme.example): Bad model. (HTTP 400)", "{body}");
    }
    assert_eq!(
        said(""),
        "Acme, large (api.acme.example): the provider gave no reason (HTTP 400) – check `options` and \
         `models` of `provider.acme`, or use another model."
    );
    assert_eq!(
        said(r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"Bad model."}}}"#),
        "Acme, large (api.acme.example): Provider returned error: Bad model. (HTTP 400)"
    );
}

#[test]
fn a_web_page_becomes_a_sentence() {
    let page = "<!DOCTYPE html><html><body>Bad gateway</body></html>";
    assert_eq!(
        respond(502, &[("content-type", "text/html")], page),
        ProviderError::Overloaded {
            message:
                "Acme, large (api.acme.example): a web page came instead of an answer; check the base URL, or a \
                gateway on the way has a fault (HTTP 502)"
                    .to_owned(),
            status: Some(502),
            after: None,
        }
    );
    assert!(respond(403, &[], page).to_string().contains("a gateway or firewall refused the request"));
}

#[test]
fn errors_inside_a_stream_have_kinds() {
    let of = |error: serde_json::Value| kind(&from_event(&error));
    assert_eq!(
        of(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})),
        "overloaded"
    );
    assert_eq!(
        of(json!({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow"}})),
        "rate limited"
    );
    assert_eq!(of(json!({"error": {"code": 502, "message": "Upstream"}})), "overloaded");
    assert_eq!(of(json!({"error": {"code": "429", "message": "Slow"}})), "rate limited");
    assert_eq!(
        of(json!({"error": {"code": "invalid_prompt", "type": "server_error", "message": "No"}})),
        "api"
    );
    assert_eq!(of(json!({"error": {"type": "authentication_error", "message": "No"}})), "auth");
    assert_eq!(of(json!({"error": "what"})), "api");
}

#[test]
fn google_says_of_a_wrong_key_and_of_a_delay_in_the_body() {
    let body = r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#;
    let ProviderError::Auth { message } = respond(400, &[], body) else { panic!("not about the key") };
    assert!(message.contains("set ACME_API_KEY in the environment"), "{message}");
    let body = r#"{"error":{"code":429,"message":"Later.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x"},{"retryDelay":"34.5s"}]}}"#;
    assert_eq!(respond(429, &[], body).retry_after(), Some(Duration::from_millis(34_500)));
    assert_eq!(respond(429, &[("retry-after", "2")], body).retry_after(), Some(Duration::from_secs(2)));
}

#[test]
fn a_model_behind_profiles_comes_with_a_remedy() {
    let body = r#"{"message":"Invocation of model ID m with on-demand throughput isn’t supported."}"#;
    let message = respond(400, &[], body).to_string();
    assert!(message.ends_with("its id or ARN as `provider.acme.models.large.id`."), "{message}");
}
