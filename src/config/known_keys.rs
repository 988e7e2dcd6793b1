//! The known keys of each place in the configuration.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::base::text::nearest;

/// `agent.<name>` keys that are not model options.
pub const AGENT_KEYS: [&str; 16] = [
    "name",
    "model",
    "variant",
    "temperature",
    "top_p",
    "prompt",
    "description",
    "mode",
    "hidden",
    "disable",
    "color",
    "steps",
    "maxSteps",
    "permission",
    "options",
    "tools",
];

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
    /// Keys below any other key, when there may be others.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Box<Keys>>,
}

/// Returns the keys of a whole file.
///
/// They are written down, as a test has them from the types: making the schema of everything costs each start more
/// memory and time than all that a usual configuration says.
pub fn keys() -> &'static Keys {
    // The test reads what is embedded here.
    static KEYS: LazyLock<Keys> =
        LazyLock::new(|| serde_json::from_str(include_str!("keys.json")).unwrap_or_default());
    &KEYS
}

impl Keys {
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
            let Some(keys) = self.known.get(key).or(self.others.as_deref()) else { continue };
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

    /// Returns the known key that looks like this one.
    pub fn near(&self, key: &str) -> Option<&str> {
        nearest(key, self.known.keys().map(String::as_str))
    }
}

#[cfg(test)]
mod tests;
