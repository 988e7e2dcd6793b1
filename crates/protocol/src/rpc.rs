//! The JSON-RPC 2.0 envelope: parses a line into its kind, its id as sent and its raw parameters.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, value::RawValue};

/// Error codes of JSON-RPC and of ACP (facts: ACP §1.4.5).
pub mod code {
    /// The line is not JSON, or not UTF-8.
    pub const PARSE_ERROR: i32 = -32700;
    /// The line is JSON but no request, or comes before `initialize`.
    pub const INVALID_REQUEST: i32 = -32600;
    /// Unknown method.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// Parameters of the wrong shape, or an unsupported value.
    pub const INVALID_PARAMS: i32 = -32602;
    /// Any fault of windlass or of a provider.
    pub const INTERNAL_ERROR: i32 = -32603;
    /// The request was cancelled.
    pub const REQUEST_CANCELLED: i32 = -32800;
    /// No version of the protocol that both sides speak (ACP version 2).
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// Credentials are missing or refused.
    pub const AUTH_REQUIRED: i32 = -32000;
    /// No such session or resource.
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
}

/// A request id, returned exactly as it came.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Id {
    Null,
    Number(i64),
    String(String),
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Id::Null => serializer.serialize_unit(),
            Id::Number(number) => serializer.serialize_i64(*number),
            Id::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Id;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an integer, a string or null")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Id, E> {
                Ok(Id::Number(value))
            }

            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Id, E> {
                i64::try_from(value).map(Id::Number).map_err(|_| E::custom("id exceeds 64 bits"))
            }

            fn visit_str<E>(self, value: &str) -> Result<Id, E> {
                Ok(Id::String(value.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Id, E> {
                Ok(Id::Null)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// An error object of the peer or of ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    pub code: i32,
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A line that is a message.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A request, which must be answered exactly once.
    Call { id: Id, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notification, which is never answered.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// The peer's answer to one of our requests.
    Response { id: Id, result: Result<Option<&'a RawValue>, ErrorBody> },
}

/// A line that is not a message; it is answered with `id: null`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the line is not valid UTF-8")]
    NotUtf8,
    #[error("the line is not valid JSON (column {column})")]
    NotJson { column: usize },
    #[error("not a JSON-RPC 2.0 message: {reason}")]
    NotRpc { reason: &'static str },
}

impl Malformed {
    /// Returns the JSON-RPC error code for this kind of line.
    pub fn code(&self) -> i32 {
        match self {
            Malformed::NotUtf8 | Malformed::NotJson { .. } => code::PARSE_ERROR,
            Malformed::NotRpc { .. } => code::INVALID_REQUEST,
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<ErrorBody>,
}

/// Distinguishes `"id": null` (present) from a missing id.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Parses one line, without its line feed. Returns `None` for a blank line, which is skipped.
pub fn parse(line: &[u8]) -> Option<Result<Incoming<'_>, Malformed>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    Some(parse_text(line))
}

fn parse_text(line: &[u8]) -> Result<Incoming<'_>, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed::NotUtf8)?;
    let envelope: Envelope<'_> = match serde_json::from_str(text) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return Err(Malformed::NotRpc { reason: shape_of(text) }),
        Err(error) => return Err(Malformed::NotJson { column: error.column() }),
    };
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(Malformed::NotRpc { reason: "`jsonrpc` must be \"2.0\"" });
    }
    let is_answer = envelope.error.is_some() || envelope.result.is_some_and(|result| result.get() != "null");
    if envelope.method.is_some() && is_answer {
        return Err(Malformed::NotRpc { reason: "both `method` and an answer" });
    }
    let id = match envelope.id {
        None => None,
        Some(raw) => Some(
            serde_json::from_str::<Id>(raw.get())
                .map_err(|_| Malformed::NotRpc { reason: "`id` must be an integer, a string or null" })?,
        ),
    };
    match (envelope.method, id) {
        (Some(method), Some(id)) => Ok(Incoming::Call { id, method, params: envelope.params }),
        (Some(method), None) => Ok(Incoming::Notification { method, params: envelope.params }),
        (None, Some(id)) => match (envelope.result, envelope.error) {
            (_, Some(error)) => Ok(Incoming::Response { id, result: Err(error) }),
            (Some(result), None) => Ok(Incoming::Response { id, result: Ok(Some(result)) }),
            (None, None) => Err(Malformed::NotRpc { reason: "neither `method`, `result` nor `error`" }),
        },
        (None, None) => Err(Malformed::NotRpc { reason: "neither `method` nor `id`" }),
    }
}

fn shape_of(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'[') => "batches are not supported",
        Some(b'{') => "a field has the wrong type",
        _ => "the line is not an object",
    }
}

/// A successful answer.
#[derive(Debug, Serialize)]
pub struct Success<'a, T: Serialize> {
    jsonrpc: &'static str,
    id: &'a Id,
    result: T,
}

/// A failed answer.
#[derive(Debug, Serialize)]
pub struct Failure<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    error: &'a ErrorBody,
}

/// A request or notification of ours.
#[derive(Debug, Serialize)]
pub struct Outgoing<'a, T: Serialize> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    method: &'a str,
    params: T,
}

/// Makes the envelope of a successful answer.
pub fn success<T: Serialize>(id: &Id, result: T) -> Success<'_, T> {
    Success { jsonrpc: "2.0", id, result }
}

/// Makes the envelope of a failed answer.
pub fn failure<'a>(id: &'a Id, error: &'a ErrorBody) -> Failure<'a> {
    Failure { jsonrpc: "2.0", id, error }
}

/// Makes the envelope of a request of ours.
pub fn request<'a, T: Serialize>(id: &'a Id, method: &'a str, params: T) -> Outgoing<'a, T> {
    Outgoing { jsonrpc: "2.0", id: Some(id), method, params }
}

/// Makes the envelope of a notification of ours.
pub fn notification<T: Serialize>(method: &str, params: T) -> Outgoing<'_, T> {
    Outgoing { jsonrpc: "2.0", id: None, method, params }
}

#[cfg(test)]
mod tests;
