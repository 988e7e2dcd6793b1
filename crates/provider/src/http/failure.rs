//! Classifies the refusals of providers into the kinds that the engine branches on.

use std::{sync::Arc, time::Duration};

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::Value;
use windlass_base::{figures, text};

use super::super::{Model, ProviderError, retry};

#[cfg(test)]
mod tests;

/// Maximum bytes of a provider's own message that are shown.
const MAX_MESSAGE_BYTES: usize = 2000;

const NO_REASON: &str = "the provider gave no reason";

/// Lower-case phrases by which providers say that the prompt is too long (facts: OpenCode §6.5). `#` is a
/// number, `*` anything.
const OVERFLOW_PHRASES: &[&str] = &[
    "prompt is too long",
    "prompt too long",
    "request_too_large",
    "input is too long for requested model",
    "exceeds the context window",
    "exceeds maximum context length",
    "exceeds the maximum context length",
    "exceeds model's maximum context length",
    "exceeds the model's maximum context length",
    "exceeded context length",
    "exceeded max context length",
    "input token count*exceeds the maximum",
    "tokens in request more than max tokens allowed",
    "maximum prompt length is #",
    "reduce the length of the messages",
    "maximum context length is # tokens",
    "exceeds maximum allowed input length of # tokens",
    "exceeds the maximum allowed input length of # tokens",
    "input (# tokens) is longer than the model's context length",
    "exceeds the limit of #",
    "exceeds the available context size",
    "greater than the context length",
    "input length and `max_tokens` exceed context limit",
    "input tokens exceed the configured limit of #",
    "too large for model with # maximum context length",
    "context window exceeds limit",
    "exceeded model token limit",
    "context length exceeded",
    "context_length_exceeded",
    "request entity too large",
    "context length is only # tokens",
    "input length*exceeds*context length",
];

/// The provider that was asked, for messages; never contains the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub provider_id: String,
    pub provider_name: String,
    pub model_id: String,
    pub host: String,
    pub has_login: bool,
    /// The variable that may hold the key.
    pub key_variable: Option<Arc<str>>,
    /// True for requests that AWS's credentials sign.
    pub is_signed: bool,
}

impl Origin {
    pub fn of(model: &Model) -> Origin {
        let host = match reqwest::Url::parse(&model.base_url) {
            Ok(url) => match (url.host_str(), url.port()) {
                (Some(host), Some(port)) => format!("{host}:{port}"),
                (Some(host), None) => host.to_owned(),
                (None, _) => "no host".to_owned(),
            },
            Err(_) => "no valid URL".to_owned(),
        };
        Origin {
            provider_id: model.provider_id.clone(),
            provider_name: model.provider_name.clone(),
            model_id: model.id.clone(),
            host,
            has_login: model.has_login,
            key_variable: model.key_variable.clone(),
            is_signed: model.aws.is_some() && model.api_key.is_none(),
        }
    }

    /// Adds provider, model and remedy to the error's message.
    pub fn named(&self, mut error: ProviderError) -> ProviderError {
        let remedy = self.remedy(&error);
        match &mut error {
            ProviderError::Auth { message }
            | ProviderError::RateLimited { message, .. }
            | ProviderError::Overflow { message }
            | ProviderError::Overloaded { message, .. }
            | ProviderError::Api { message, .. }
            | ProviderError::Transport { message }
            | ProviderError::NotRunning { message }
            | ProviderError::Silent { message }
            | ProviderError::Unsent { message } => {
                *message =
                    format!("{}, {} ({}): {message}{remedy}", self.provider_name, self.model_id, self.host);
            }
        }
        error
    }

    /// Returns the way out of a failure that the provider is the one to know; the engine has those of the others.
    fn remedy(&self, error: &ProviderError) -> String {
        match error {
            ProviderError::Auth { .. } => self.key_remedy(),
            ProviderError::RateLimited { .. }
            | ProviderError::Overflow { .. }
            | ProviderError::Overloaded { .. }
            | ProviderError::Transport { .. }
            | ProviderError::NotRunning { .. }
            | ProviderError::Silent { .. }
            | ProviderError::Unsent { .. } => String::new(),
            ProviderError::Api { message, .. } if is_about_tools(message) => format!(
                " – set `\"tool_call\": false` at `provider.{}.models.{}`, or use another model.",
                self.provider_id, self.model_id
            ),
            ProviderError::Api { status: Some(404), .. } => {
                format!(" – `windlass models {}` lists the models that are known.", self.provider_id)
            }
            ProviderError::Api { message, .. } if is_about_profiles(message) => format!(
                " – name an inference profile of it: its id or ARN as `provider.{}.models.{}.id`.",
                self.provider_id, self.model_id
            ),
            ProviderError::Api { message, body: None, .. } if message.starts_with(NO_REASON) => format!(
                " – check `options` and `models` of `provider.{}`, or use another model.",
                self.provider_id
            ),
            ProviderError::Api { status: Some(402 | 429), .. } => {
                " – look at the account's plan, or use another provider.".to_owned()
            }
            ProviderError::Api { .. } => String::new(),
        }
    }

    fn key_remedy(&self) -> String {
        if self.has_login {
            return format!(" – log in again by `windlass auth login --provider {}`.", self.provider_id);
        }
        if self.is_signed {
            return " – check AWS's credentials (`aws sts get-caller-identity`), the region, and whether the account may \
                    use the model."
                .to_owned();
        }
        let variable = self.key_variable.as_ref().map(|name| format!("set {name} in the environment or "));
        format!(
            " – correct `provider.{id}.options.apiKey` if opencode.json sets it, else {}run `windlass auth login` and \
             choose {id}.",
            variable.unwrap_or_default(),
            id = self.provider_id
        )
    }
}

/// Classifies an unsuccessful response. `now_ms` is the time to compare a `retry-after` date with.
pub fn classify(model: &Model, status: u16, headers: &HeaderMap, body: &[u8], now_ms: i64) -> ProviderError {
    Origin::of(model).named(from_response(status, headers, body, now_ms))
}

pub(super) fn from_response(status: u16, headers: &HeaderMap, body: &[u8], now_ms: i64) -> ProviderError {
    let body_text = String::from_utf8_lossy(body);
    let json: Value = serde_json::from_str(&body_text).unwrap_or(Value::Null);
    let refusal = Refusal::read(&json);
    let words = match &refusal.message {
        Some(message) => text::head(message, MAX_MESSAGE_BYTES).to_owned(),
        None if is_html(headers, &body_text) => html_sentence(status),
        None if body_text.trim().is_empty() => NO_REASON.to_owned(),
        None => text::head(body_text.trim(), MAX_MESSAGE_BYTES).to_owned(),
    };
    let after = retry_after(headers, now_ms).or(refusal.after);
    let later = after.filter(|after| *after > retry::LONGEST_ASKED).map(|after| {
        let wait = figures::duration(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
        format!("; the provider asks to wait for {wait}, which is too long: prompt again then, or use another model")
    });
    let message = format!("{words} (HTTP {status}){}", later.unwrap_or_default());
    let kind = match status {
        401 | 403 | 429 => kind_of_status(status, &refusal),
        // Google has no status of its own for it.
        400 if refusal.is_about_key() => Kind::Auth,
        413 => Kind::Overflow,
        _ if refusal.is_overflow() || (refusal.message.is_none() && is_overflow(&body_text)) => {
            Kind::Overflow
        }
        _ => kind_of_status(status, &refusal),
    };
    let failure = Failure {
        message,
        status: Some(status),
        after,
        body: (!body.is_empty()).then(|| body_text.into_owned()),
    };
    failure.of_kind(kind)
}

/// Classifies an error object inside a stream: `{"error": {…}}`, `{"error": "…"}` or the inner object itself.
pub(crate) fn from_event(event: &Value) -> ProviderError {
    let refusal = Refusal::read(event);
    let message = match &refusal.message {
        Some(message) => text::head(message, MAX_MESSAGE_BYTES).to_owned(),
        None => "the provider reported an error without saying which".to_owned(),
    };
    let status =
        refusal.codes.iter().find_map(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    let kind = if refusal.is_overflow() {
        Kind::Overflow
    } else if let Some(kind) = refusal.codes.iter().find_map(|code| kind_of_code(code)) {
        kind
    } else if let Some(status) = status {
        kind_of_status(status, &refusal)
    } else {
        Kind::Api
    };
    let failure = Failure { message, status, after: refusal.after, body: Some(event.to_string()) };
    failure.of_kind(kind)
}

/// Returns true if the JSON of an event or a body reports a failure.
pub(crate) fn holds_error(json: &Value) -> bool {
    json.get("error").is_some_and(|error| !error.is_null())
        || json.get("object").or(json.get("type")).is_some_and(|kind| kind == "error")
}

/// The provider's own message.
struct Refusal {
    message: Option<String>,
    /// `code`, `type` and `status` of the error, those that exist.
    codes: Vec<String>,
    /// The delay that Google asks for.
    after: Option<Duration>,
}

impl Refusal {
    fn read(json: &Value) -> Refusal {
        let json = match json {
            // Google wraps its error into an array.
            Value::Array(items) => items.first().unwrap_or(&Value::Null),
            json => json,
        };
        let error = match json.get("error") {
            Some(error) if !error.is_null() => error,
            _ => json,
        };
        let text = |value: &Value| match value {
            Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        // Routers put the real provider's message behind their own "Provider returned error".
        let raw = error.pointer("/metadata/raw").and_then(text);
        // Amazon's services differ in the letter.
        let own = ["message", "Message", "detail", "msg"].iter().find_map(|key| text(error.get(*key)?));
        let message = match (own.or_else(|| error.is_string().then(|| text(error)).flatten()), raw) {
            (Some(own), Some(raw)) => Some(format!("{own}: {raw}")),
            (own, raw) => own.or(raw).or_else(|| text(json.get("message")?)),
        };
        let codes = ["code", "type", "status"].iter().filter_map(|key| text(error.get(*key)?)).collect();
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let seconds = |it: &Value| it.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse().ok();
        let after = details.filter_map(seconds).find_map(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Refusal { message, codes, after }
    }

    fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|known| known == code)
    }

    fn is_about_key(&self) -> bool {
        let message = self.message.as_deref().unwrap_or_default().to_lowercase();
        ["api key not valid", "api key expired", "api key not found"].iter().any(|it| message.contains(it))
    }

    fn is_overflow(&self) -> bool {
        self.has_code("context_length_exceeded") || self.message.as_deref().is_some_and(is_overflow)
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Auth,
    RateLimited,
    Overflow,
    Overloaded,
    Api,
}

fn kind_of_status(status: u16, refusal: &Refusal) -> Kind {
    match status {
        401 | 403 => Kind::Auth,
        // Retries do not fill an empty account.
        429 if refusal.has_code("insufficient_quota") || refusal.has_code("usage_not_included") => Kind::Api,
        429 => Kind::RateLimited,
        413 => Kind::Overflow,
        408 | 409 | 500.. => Kind::Overloaded,
        _ => Kind::Api,
    }
}

fn kind_of_code(code: &str) -> Option<Kind> {
    Some(match code {
        "insufficient_quota" | "usage_not_included" | "invalid_prompt" => Kind::Api,
        "authentication_error" | "permission_error" | "invalid_api_key" | "accessDeniedException" => {
            Kind::Auth
        }
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "too_many_requests"
        | "throttlingException"
        | "serviceQuotaExceededException" => Kind::RateLimited,
        "request_too_large" => Kind::Overflow,
        "internalServerException"
        | "modelErrorException"
        | "modelNotReadyException"
        | "modelStreamErrorException"
        | "modelTimeoutException"
        | "serviceUnavailableException" => Kind::Overloaded,
        "overloaded_error"
        | "api_error"
        | "timeout_error"
        | "server_error"
        | "server_is_overloaded"
        | "internal_server_error" => Kind::Overloaded,
        _ => return None,
    })
}

struct Failure {
    message: String,
    status: Option<u16>,
    after: Option<Duration>,
    body: Option<String>,
}

impl Failure {
    fn of_kind(self, kind: Kind) -> ProviderError {
        let Failure { message, status, after, body } = self;
        match kind {
            Kind::Auth => ProviderError::Auth { message },
            Kind::RateLimited => ProviderError::RateLimited { message, status: status.unwrap_or(429), after },
            Kind::Overflow => ProviderError::Overflow { message },
            Kind::Overloaded => ProviderError::Overloaded { message, status, after },
            Kind::Api => ProviderError::Api { message, status, body },
        }
    }
}

/// Reads the delay that the provider asked for: `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now_ms: i64) -> Option<Duration> {
    let header = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| header(name)?.parse::<f64>().ok();
    if let Some(ms) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(ms / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    static DATES: jiff::fmt::rfc2822::DateTimeParser = jiff::fmt::rfc2822::DateTimeParser::new();
    let date = DATES.parse_timestamp(header("retry-after")?).ok()?;
    Some(Duration::from_millis(u64::try_from(date.as_millisecond() - now_ms).unwrap_or(0)))
}

fn is_html(headers: &HeaderMap, body: &str) -> bool {
    let declared = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.starts_with("text/html"));
    let start = text::head(body.trim_start(), 15).to_ascii_lowercase();
    declared || start.starts_with("<!doctype html") || start.starts_with("<html")
}

fn html_sentence(status: u16) -> String {
    match status {
        401 | 403 => "a gateway or firewall refused the request with a web page; \
            check the key and whether this network may reach the provider"
            .to_owned(),
        _ => "a web page came instead of an answer; check the base URL, or a gateway on the way has a fault"
            .to_owned(),
    }
}

/// Returns true if Amazon says that a model is not to be had by its own name.
fn is_about_profiles(message: &str) -> bool {
    message.contains("on-demand throughput")
}

/// Returns true if a server says that its model takes no tools.
fn is_about_tools(message: &str) -> bool {
    let message = message.to_lowercase();
    ["does not support tools", "not support tool use", "support tool use", "doesn't support tool"]
        .iter()
        .any(|phrase| message.contains(phrase))
}

fn is_overflow(message: &str) -> bool {
    let message = message.to_lowercase();
    OVERFLOW_PHRASES.iter().any(|phrase| contains(&message, phrase))
}

fn contains(text: &str, phrase: &str) -> bool {
    let mut rest = text;
    for piece in phrase.split('*') {
        match rest.char_indices().find_map(|(at, _)| after_prefix(&rest[at..], piece)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

fn after_prefix<'t>(text: &'t str, piece: &str) -> Option<&'t str> {
    let mut literals = piece.split('#');
    let mut rest = text.strip_prefix(literals.next()?)?;
    for literal in literals {
        let after_digits = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',');
        if after_digits.len() == rest.len() {
            return None;
        }
        rest = after_digits.strip_prefix(literal)?;
    }
    Some(rest)
}
