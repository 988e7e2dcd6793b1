//! Names the keys of a request's body that nobody reads, in a header of its answer.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use axum::{
    http::{HeaderName, HeaderValue},
    response::Response,
};
use serde::{
    Deserializer,
    de::{self, DeserializeOwned, IgnoredAny, Visitor},
};

/// The header with the keys.
pub const HEADER: HeaderName = HeaderName::from_static("x-windlass-unknown-keys");
/// Keys that are named.
const MAX_KEYS: usize = 20;

/// The header of a request's answer, once its body is read.
#[derive(Debug, Clone, Default)]
pub struct Unknown(Arc<OnceLock<HeaderValue>>);

impl Unknown {
    /// Notes the keys of a body that its type does not have.
    pub fn note<T: DeserializeOwned>(&self, body: &[u8]) {
        let Some(known) = fields::<T>() else { return };
        let Ok(said) = serde_json::from_slice::<BTreeMap<String, IgnoredAny>>(body) else { return };
        let keys: Vec<String> = said
            .into_keys()
            .filter(|key| !known.contains(&key.as_str()))
            .take(MAX_KEYS)
            .map(|key| key.escape_default().to_string())
            .collect();
        if let Ok(value) = HeaderValue::from_str(&keys.join(", "))
            && !keys.is_empty()
        {
            tracing::warn!(keys = keys.join(", "), "a request has keys that are not known");
            _ = self.0.set(value);
        }
    }

    pub fn tell(&self, response: &mut Response) {
        if let Some(value) = self.0.get() {
            response.headers_mut().insert(HEADER, value.clone());
        }
    }
}

/// Returns the names of a struct's fields; none of a type that takes any key.
fn fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    match T::deserialize(Fields) {
        Err(Asked(fields)) => fields,
        Ok(_) => None,
    }
}

/// A deserializer that has no value, and returns the fields that it is asked for.
struct Fields;

#[derive(Debug)]
struct Asked(Option<&'static [&'static str]>);

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl std::error::Error for Asked {}

impl de::Error for Asked {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }
}

impl<'de> Deserializer<'de> for Fields {
    type Error = Asked;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Asked> {
        Err(Asked(None))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Asked> {
        Err(Asked(Some(fields)))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Map, Value};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only its fields count")]
    struct Body {
        #[serde(rename = "messageID", alias = "message_id")]
        message: Option<String>,
    }

    #[test]
    fn keys_that_a_type_has_not_are_named() {
        let told = |body: &str| {
            let unknown = Unknown::default();
            unknown.note::<Body>(body.as_bytes());
            unknown.0.get().map(|value| value.to_str().expect("it is text").to_owned())
        };
        assert_eq!(told(r#"{"messageID": "x", "message_id": "y"}"#), None);
        assert_eq!(told(r#"{"parts": 1, "mesageID": "x"}"#).as_deref(), Some("mesageID, parts"));
        assert_eq!(told("{\"a\\nb\": 1}").as_deref(), Some("a\\nb"));
        assert_eq!(told(r#"{"naïve": 1}"#).as_deref(), Some("na\\u{ef}ve"));
        assert_eq!(fields::<Map<String, Value>>(), None);
        assert_eq!(fields::<Value>(), None);
    }
}
