//! Parts of request bodies and stream events that all wires share.

use std::borrow::Cow;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::super::{Delta, Encoded, Media, Model, ProviderError};

/// Room for the parts that were not encoded before: the newest messages, tools, and options.
const LIST_BYTES: usize = 16 * 1024;

/// The fields of a JSON object in the order they were first set.
pub(crate) struct Fields<'a, T> {
    fields: Vec<(&'a str, Field<'a, T>)>,
}

/// A field's value; `T` is a type that only one wire knows.
pub(crate) enum Field<'a, T> {
    Structured(T),
    Json(Cow<'a, Value>),
    /// JSON that is encoded already.
    Encoded(Vec<u8>),
}

/// An item of a conversation.
pub(crate) trait ListItem: Serialize {
    /// Returns the item's JSON, if it was encoded before.
    fn encoded(&self) -> Option<&RawValue>;
}

impl<'a, T: Serialize> Fields<'a, T> {
    pub(crate) fn new() -> Fields<'a, T> {
        Fields { fields: Vec::new() }
    }

    pub(crate) fn structured(&mut self, key: &'a str, value: T) {
        self.set(key, Field::Structured(value));
    }

    pub(crate) fn json(&mut self, key: &'a str, value: impl Into<Value>) {
        self.set(key, Field::Json(Cow::Owned(value.into())));
    }

    pub(crate) fn borrowed(&mut self, key: &'a str, value: &'a Value) {
        self.set(key, Field::Json(Cow::Borrowed(value)));
    }

    /// Sets a list with items that are encoded now. A serializer would take several times as long for those that were
    /// encoded before, of which a long conversation has thousands.
    pub(crate) fn list(&mut self, key: &'a str, items: &[impl ListItem]) {
        let n_bytes: usize =
            items.iter().filter_map(ListItem::encoded).map(|json| json.get().len() + 1).sum();
        let mut list = Vec::with_capacity(n_bytes + LIST_BYTES);
        list.push(b'[');
        for item in items {
            match item.encoded() {
                Some(json) => list.extend_from_slice(json.get().as_bytes()),
                None => write(item, &mut list),
            }
            list.push(b',');
        }
        close(&mut list, b']');
        self.set(key, Field::Encoded(list));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let encoded = self.fields.iter().map(|(_, field)| match field {
            Field::Encoded(json) => json.len(),
            Field::Structured(_) | Field::Json(_) => 0,
        });
        let mut body = Vec::with_capacity(encoded.sum::<usize>() + LIST_BYTES);
        body.push(b'{');
        for (key, field) in &self.fields {
            write(key, &mut body);
            body.push(b':');
            match field {
                Field::Structured(value) => write(value, &mut body),
                Field::Json(value) => write(value, &mut body),
                Field::Encoded(json) => body.extend_from_slice(json),
            }
            body.push(b',');
        }
        close(&mut body, b'}');
        body
    }

    fn set(&mut self, key: &'a str, value: Field<'a, T>) {
        match self.fields.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.fields.push((key, value)),
        }
    }
}

fn write(value: &impl Serialize, to: &mut Vec<u8>) {
    // All values are strings, numbers and JSON values, which cannot fail to encode.
    let _ = serde_json::to_writer(to, value);
}

/// Puts the end of a list or an object in the place of the comma behind the last of its values.
fn close(json: &mut Vec<u8>, end: u8) {
    if json.last() == Some(&b',') {
        json.pop();
    }
    json.push(end);
}

/// Merges the prompt's options over the model's.
pub(crate) fn options<'a>(
    model: &'a Model,
    over: &'a Map<String, Value>,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    model.options.iter().filter(|(key, _)| !over.contains_key(*key)).chain(over)
}

/// Returns the tools of the provider's own that the options ask for; they are offered beside ours.
pub(crate) fn own_tools<'a>(model: &'a Model, over: &'a Map<String, Value>) -> Vec<&'a Value> {
    let named = options(model, over).filter(|(key, _)| *key == "tools");
    named.filter_map(|(_, tools)| tools.as_array()).flatten().collect()
}

/// Encodes a piece of the conversation for later requests.
pub(crate) fn encode_piece(is_models: bool, piece: &impl Serialize) -> Option<Encoded> {
    // Strings, numbers and JSON values cannot fail to encode.
    Some(Encoded { is_models, has_calls: false, json: to_raw_value(piece).ok()? })
}

/// A medium in the form that the model takes, or a text in its place.
pub(crate) enum Accepted<'a> {
    Image(&'a Media<'a>),
    Pdf(&'a Media<'a>),
    Note(String),
}

/// Replaces media that the model does not accept by a sentence it can pass on to the user
/// (facts: OpenCode §7.3).
pub(crate) fn accept<'a>(model: &Model, media: &'a Media<'a>) -> Accepted<'a> {
    let kind = match media.mime.split_once('/') {
        _ if media.mime == "application/pdf" => "pdf",
        Some((kind, _)) => kind,
        None => media.mime,
    };
    let name = match media.filename {
        Some(filename) => format!("\"{filename}\""),
        None => kind.to_owned(),
    };
    match kind {
        "image" | "pdf" if media.base64.is_empty() => {
            Accepted::Note(format!("ERROR: {name} is empty or corrupted. Ask the user for another copy."))
        }
        "image" if model.takes_images => Accepted::Image(media),
        "pdf" if model.takes_pdf => Accepted::Pdf(media),
        _ => Accepted::Note(format!(
            "ERROR: Cannot read {name} (this model does not support {kind} input). Inform the user."
        )),
    }
}

/// Appends a path to a base URL, in front of the query that either may have.
///
/// Some name the whole address instead, a row of the catalog among them (`bailing`).
pub(crate) fn join(base_url: &str, path: &str) -> String {
    let (base, query) =
        base_url.split_once('?').map_or((base_url, None), |(base, query)| (base, Some(query)));
    let separator = if path.contains('?') { '&' } else { '?' };
    let query = query.map(|query| format!("{separator}{query}")).unwrap_or_default();
    let base = base.trim_end_matches('/');
    format!("{}{path}{query}", base.strip_suffix(path).unwrap_or(base))
}

/// Returns a medium as a `data:` URL.
pub(crate) fn data_url(media: &Media<'_>) -> String {
    format!("data:{};base64,{}", media.mime, media.base64)
}

/// Returns a JSON string's text, or nothing for another value.
pub(crate) fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// Returns the output limit to request: the prompt's, else at most 32 000 (facts: OpenCode §6.3), and never
/// more than the model's.
pub(crate) fn cap_output(model: &Model, wanted: Option<u64>) -> u64 {
    const CAP: u64 = 32_000;
    const DEFAULT: u64 = 8_192;
    match (model.limit.output, wanted) {
        (0, None) => DEFAULT,
        (0, Some(wanted)) => wanted,
        (limit, None) => limit.min(CAP),
        (limit, Some(wanted)) => wanted.min(limit),
    }
}

/// The prefix of a signature that is really the data of a thought the provider keeps secret.
pub(crate) const REDACTED: &str = "redacted:";

/// The prefix of a thought's signature that is really the work of a tool of the provider's own, in the wire's own JSON.
const PROVIDED: &str = "provided:";

/// Returns the deltas of a call or result of a provider's own tool: shown as a thought, and sent back as it came.
pub(crate) fn provided(block: u32, shown: String, sent_back: Option<&Value>) -> Vec<Delta> {
    let mut deltas = vec![Delta::ReasoningStart { block }, Delta::Reasoning { block, text: shown }];
    deltas.extend(sent_back.map(|json| Delta::Signature { block, signature: format!("{PROVIDED}{json}") }));
    deltas.push(Delta::BlockEnd { block });
    deltas
}

/// Returns the work of a provider's own tool, if a signature holds that.
pub(crate) fn of_provider(signature: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(signature.strip_prefix(PROVIDED)?.to_owned()).ok()
}

/// Returns the sources that a tool of a provider's found, a line each.
pub(crate) fn sources<'a>(found: impl Iterator<Item = (&'a Value, &'a Value)>) -> String {
    let lines = found.map(|(title, url)| {
        format!("- {} {}", title.as_str().unwrap_or_default(), url.as_str().unwrap_or_default())
    });
    lines.collect::<Vec<String>>().join("\n")
}

/// Returns the output limit of a model that may think: thinking counts as output, and the limit must leave room for an
/// answer behind it.
pub(crate) fn with_thinking(model: &Model, wanted: Option<u64>, budget: Option<u64>) -> u64 {
    let answer = cap_output(model, wanted);
    match (budget, model.limit.output) {
        (None, _) => answer,
        (Some(budget), 0) => answer.saturating_add(budget),
        (Some(budget), limit) => answer.saturating_add(budget).min(limit.max(budget + 1)),
    }
}

/// Returns the budget of an option `thinking`: `None` if it turns thinking off, 0 if the model decides.
pub(crate) fn thinking_budget(thinking: &Value) -> Option<u64> {
    let is_on = thinking.get("type").is_some_and(|kind| kind != "disabled");
    is_on.then(|| count(thinking, "/budget_tokens").max(count(thinking, "/budgetTokens")))
}

/// Writes the budget of an option `thinking` as the wires do; users write it as the JavaScript SDK does.
pub(crate) fn snake_case_budget(thinking: &Value) -> Value {
    let mut thinking = thinking.clone();
    if let Some(fields) = thinking.as_object_mut()
        && let Some(budget) = fields.remove("budgetTokens")
    {
        fields.insert("budget_tokens".to_owned(), budget);
    }
    thinking
}

/// Replaces characters that some providers refuse in the call ids of others.
pub(crate) fn plain_call_id(id: &str) -> String {
    if id.is_empty() {
        return "_".to_owned();
    }
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' }).collect()
}

/// Returns a call's id as Mistral's models take it: nine letters and digits.
pub(crate) fn short_call_id(id: &str) -> Cow<'_, str> {
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    // Ids that begin alike must not become one.
    Cow::Owned(format!("w{:08x}", crc32fast::hash(id.as_bytes())))
}

/// Splits encoded messages into runs of one speaker; true for the model's.
pub(crate) fn runs(pieces: &[Encoded]) -> impl Iterator<Item = (bool, &[Encoded])> {
    pieces.chunk_by(|a, b| a.is_models == b.is_models).map(|run| (run[0].is_models, run))
}

/// Makes the error for a connection that closed too early.
pub(crate) fn cut_off() -> ProviderError {
    ProviderError::Transport { message: "the connection closed before the answer was complete".to_owned() }
}

/// Parses an event's JSON.
///
/// JavaScript servers cut text between the halves of a surrogate pair and escape each half, which only they
/// accept as valid JSON; the halves become replacement characters.
pub(crate) fn parse<T: DeserializeOwned>(data: &str) -> Result<T, ProviderError> {
    let parsed = serde_json::from_str(data).or_else(|error| match replace_lone_surrogates(data) {
        Some(repaired) => serde_json::from_str(&repaired),
        None => Err(error),
    });
    parsed.map_err(|error: serde_json::Error| ProviderError::Api {
        message: format!("the answer holds an event that cannot be understood ({error})"),
        status: None,
        body: Some(windlass_base::text::head(data, 4096).to_owned()),
    })
}

fn replace_lone_surrogates(json: &str) -> Option<String> {
    let mut res = String::with_capacity(json.len());
    let mut rest = json;
    let mut replaced = false;
    while let Some(at) = rest.find('\\') {
        res.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = match (escaped_unit(rest), rest.get(6..).and_then(escaped_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                res.push_str("\\ufffd");
                replaced = true;
                rest = &rest[6..];
                continue;
            }
            (Some(_), _) => 6,
            (None, _) => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        res.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    res.push_str(rest);
    replaced.then_some(res)
}

fn escaped_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Returns a call's arguments as the object that every wire requires.
pub(crate) fn input_object(input: &Value) -> Cow<'_, Value> {
    match input {
        Value::Object(_) => Cow::Borrowed(input),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Cow::Owned(Value::Object(Map::new()))
        }
    }
}

/// Reads a token count, in any notation of numbers.
pub(crate) fn count(value: &Value, pointer: &str) -> u64 {
    match value.pointer(pointer) {
        Some(number) => number.as_u64().or_else(|| number.as_f64().map(|float| float as u64)).unwrap_or(0),
        None => 0,
    }
}

/// A token count in any notation of numbers; 0 for anything else.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count(pub u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Number {
            Whole(u64),
            Float(f64),
            Other(IgnoredAny),
        }
        Ok(Count(match Number::deserialize(deserializer)? {
            Number::Whole(count) => count,
            Number::Float(count) => count as u64,
            Number::Other(IgnoredAny) => 0,
        }))
    }
}
