//! The keys of each place in the configuration, and the values that they take.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use windlass_base::text::nearest;

use super::formats;

/// The numbers that a place takes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Range {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_whole: bool,
    min: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
}

impl Range {
    fn problem(self, shown: &str, number: &Number) -> Option<String> {
        let Self { is_whole, min, max } = self;
        let is_right = (!is_whole || number.is_u64())
            && number.as_f64().is_some_and(|it| it >= min && max.is_none_or(|max| it <= max));
        let kind = if is_whole { "a whole number" } else { "a number" };
        let bounds = match max {
            Some(max) => format!("from {min} to {max}"),
            None => format!("of at least {min}"),
        };
        (!is_right).then(|| format!("{shown} is ignored; expected {kind} {bounds}"))
    }
}

/// The keys that an object may have.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    /// Anything may stand here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
    /// A list may stand here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_list: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, Keys>,
    /// Nothing acts on it yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_without_effect: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<Range>,
    /// The name of a row of [`formats::FORMATS`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Names of this key in other agents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<String>,
    /// The only kind of MCP server that has this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A server of that kind has to have it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_required: bool,
    /// Keys below any other key, when there may be others.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Box<Keys>>,
}

/// Returns the keys of a whole file.
///
/// They are written down, as a test has them from the types: making the schema of everything costs each start more
/// memory and time than all that a usual configuration says.
pub fn keys() -> &'static Keys {
    // The test reads the file that is embedded here.
    static KEYS: LazyLock<Keys> =
        LazyLock::new(|| serde_json::from_str(include_str!("keys.json")).unwrap_or_default());
    &KEYS
}

impl Keys {
    /// Returns the place below a key, or below an element of a list.
    pub fn below(&self, key: &str) -> Option<&Keys> {
        self.known.get(key).or(self.others.as_deref())
    }

    /// Returns true if no type describes the values of this place.
    pub fn takes_anything(&self) -> bool {
        self.is_open
    }

    /// Returns the places of the keys that are known by name.
    pub fn known(&self) -> &BTreeMap<String, Keys> {
        &self.known
    }

    /// Returns the warning about a value that decodes and cannot be meant.
    pub fn problem(&self, shown: &str, value: &Value) -> Option<String> {
        match value {
            Value::Number(number) => self.range?.problem(shown, number),
            Value::String(text) => (formats::named(self.format.as_deref()?)?.problem)(shown, text),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Calls `found` with every value on which nothing acts yet, and its path.
    pub fn without_effect<'a>(
        &self,
        value: &'a Value,
        path: &mut Vec<&'a str>,
        found: &mut dyn FnMut(&[&'a str], &'a Value),
    ) {
        if self.is_without_effect {
            return found(path, value);
        }
        for (key, inner) in value.as_object().into_iter().flatten() {
            let Some(keys) = self.below(key) else { continue };
            path.push(key);
            keys.without_effect(inner, path, found);
            path.pop();
        }
    }

    /// Calls `found` with every key of `value` that is not known, its path, and the known key that looks like it.
    pub fn unknown(
        &self,
        value: &Map<String, Value>,
        path: &mut Vec<String>,
        found: &mut dyn FnMut(&[String], Option<&str>),
    ) {
        for (key, inner) in value {
            path.push(key.clone());
            match (self.known.get(key), &self.others) {
                (Some(keys), _) => keys.unknown_below(inner, path, found),
                // In an object of names a name is never wrong.
                (None, Some(others)) => others.unknown_below(inner, path, found),
                (None, None) if self.is_open || self.known.is_empty() => {}
                (None, None) => found(path, self.near(key)),
            }
            path.pop();
        }
    }

    fn unknown_below(
        &self,
        value: &Value,
        path: &mut Vec<String>,
        found: &mut dyn FnMut(&[String], Option<&str>),
    ) {
        match value {
            Value::Object(object) => self.unknown(object, path, found),
            Value::Array(list) => {
                let Some(items) = &self.others else { return };
                for (idx, element) in list.iter().enumerate() {
                    path.push(idx.to_string());
                    items.unknown_below(element, path, found);
                    path.pop();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Calls `found` with the path of every list in the place of an object with known keys.
    pub fn lists_for_objects(
        &self,
        value: &Map<String, Value>,
        path: &mut Vec<String>,
        found: &mut dyn FnMut(&[String]),
    ) {
        for (key, inner) in value {
            let Some(keys) = self.below(key) else { continue };
            path.push(key.clone());
            keys.lists_below(inner, path, found);
            path.pop();
        }
    }

    fn lists_below(&self, value: &Value, path: &mut Vec<String>, found: &mut dyn FnMut(&[String])) {
        match value {
            Value::Array(_) if !self.known.is_empty() && !self.is_list && !self.is_open => found(path),
            Value::Array(list) => {
                let Some(items) = &self.others else { return };
                for (idx, element) in list.iter().enumerate() {
                    path.push(idx.to_string());
                    items.lists_below(element, path, found);
                    path.pop();
                }
            }
            Value::Object(object) => self.lists_for_objects(object, path, found),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Returns the known key that is meant by this one: it looks like it, is called so in another agent, or
    /// begins as it does, as `mcpServers` and `env` do.
    pub fn near(&self, key: &str) -> Option<&str> {
        let first_word = || {
            let end = key.char_indices().skip(1).find(|(_, it)| it.is_uppercase() || "_-".contains(*it));
            let word = key[..end.map_or(key.len(), |(end, _)| end)].to_lowercase();
            let begins = |known: &&str| word.len() >= 3 && known.to_lowercase().starts_with(&word);
            self.known.keys().map(String::as_str).filter(begins).min_by_key(|known| known.len())
        };
        let near = nearest(key, self.known.keys().map(String::as_str));
        near.or_else(|| self.elsewhere(key)).or_else(first_word)
    }

    /// Returns the known key that another agent calls so.
    pub fn elsewhere(&self, key: &str) -> Option<&str> {
        let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
        let is_so_called = |keys: &Keys| keys.elsewhere.iter().any(|it| plain(it) == plain(key));
        self.known.iter().find(|(_, keys)| is_so_called(keys)).map(|(known, _)| known.as_str())
    }
}

#[cfg(test)]
mod tests;
