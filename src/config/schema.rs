//! The JSON schema of the configuration, and which keys it knows where.

use std::{collections::BTreeMap, sync::LazyLock};

use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::config::ConfigFile;

use crate::base::text::distance;

/// The schema of a whole file, for editors.
pub fn schema() -> Value {
    let schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<ConfigFile>();
    let mut schema = schema.to_value();
    close(&mut schema);
    for (name, definition) in schema["definitions"].as_object_mut().into_iter().flatten() {
        if !OPEN.contains(&name.as_str()) {
            close(definition);
        }
    }
    bound(&mut schema);
    add_older_spellings(&mut schema);
    if let Value::Object(schema) = &mut schema {
        schema.insert("title".to_owned(), Value::from("opencode.json, as windlass reads it"));
        schema.insert("allowComments".to_owned(), Value::Bool(true));
        schema.insert("allowTrailingCommas".to_owned(), Value::Bool(true));
    }
    schema
}

/// What takes other keys too: an agent's go to its model, and providers have fields of their own.
const OPEN: [&str; 8] = [
    "AgentConfig",
    "ProviderOptions",
    "ModelConfig",
    "ModelProvider",
    "ModelLimit",
    "ModelCost",
    "LongContextCost",
    "Modalities",
];

/// Lets an object have the keys that are named and no others.
fn close(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for word in ["anyOf", "oneOf"] {
        schema.get_mut(word).and_then(Value::as_array_mut).into_iter().flatten().for_each(close);
    }
    if schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Says what the types cannot: ranges and patterns, as `check` has them.
fn bound(schema: &mut Value) {
    let model = json!({"pattern": "^[^/]+/.+"});
    let url = json!({"items": {"type": "string", "pattern": "^https?://[^/?#]"}});
    let trusted = "^(https://[^/?#]|http://(localhost|127\\.[0-9.]+|\\[::1\\])(:[0-9]+)?([/?#]|$))";
    let bounds = [
        ("/properties/model", model.clone()),
        ("/properties/small_model", model.clone()),
        ("/definitions/AgentConfig/properties/model", model.clone()),
        ("/definitions/AgentConfig/properties/temperature", json!({"minimum": 0, "maximum": 2})),
        ("/definitions/AgentConfig/properties/top_p", json!({"minimum": 0, "maximum": 1})),
        ("/definitions/AgentConfig/properties/steps", json!({"minimum": 1})),
        ("/definitions/AgentConfig/properties/color", json!({"pattern": COLOR})),
        ("/definitions/CommandConfig/properties/model", model),
        ("/definitions/SkillsConfig/properties/urls", url),
        (
            "/definitions/MarketSettings/properties/urls",
            json!({"items": {"type": "string", "pattern": trusted}}),
        ),
    ];
    for (place, words) in bounds {
        if let (Some(Value::Object(place)), Value::Object(words)) = (schema.pointer_mut(place), words) {
            place.extend(words);
        }
    }
    for choices in ["/definitions/ActionOrFalse/anyOf", "/definitions/Limit/anyOf"] {
        for choice in schema.pointer_mut(choices).and_then(Value::as_array_mut).into_iter().flatten() {
            if choice["type"] == "boolean" {
                *choice = json!({"const": false});
            }
        }
    }
}

/// `#RGB`, `#RRGGBB`, or a name of OpenCode's.
const COLOR: &str = "^(#([0-9a-fA-F]{3}){1,2}|primary|secondary|accent|success|warning|error|info)$";

/// Adds what `lower` rewrites: deprecated forms, and those of newer versions.
fn add_older_spellings(schema: &mut Value) {
    let deprecated = |value: &Value| {
        let mut value = value.clone();
        value["deprecated"] = Value::Bool(true);
        value
    };
    let renamed = [
        ("agents", "agent"),
        ("commands", "command"),
        ("reference", "references"),
        ("snapshots", "snapshot"),
        ("media", "attachment"),
    ];
    for (older, key) in renamed {
        schema["properties"][older] = deprecated(&schema["properties"][key]);
    }
    for key in ["theme", "keybinds", "tui"] {
        schema["properties"][key] =
            json!({"deprecated": true, "description": "Of OpenCode's terminal interface; has no effect."});
    }
    let entry = schema["properties"]["mcp"]["additionalProperties"].clone();
    let servers = json!({"type": "object", "additionalProperties": entry});
    schema["properties"]["mcp"]["properties"] =
        json!({"servers": {"anyOf": [servers, entry], "deprecated": true}});
    let steps = deprecated(&schema["definitions"]["AgentConfig"]["properties"]["steps"]);
    schema["definitions"]["AgentConfig"]["properties"]["maxSteps"] = steps;
    let amount = json!({"type": "integer", "minimum": 0});
    let kept = json!({"type": "object", "properties": {"turns": amount, "tokens": amount}, "additionalProperties": false});
    let compaction = &mut schema["definitions"]["CompactionSettings"]["properties"];
    compaction["keep"] = json!({"anyOf": [amount, kept], "deprecated": true});
    compaction["buffer"] = json!({"type": "integer", "minimum": 0, "deprecated": true});
}

/// The keys that an object may have.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keys {
    /// Anything may stand here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_open: bool,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, Keys>,
    /// What is below any other key, when there may be others.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Box<Keys>>,
}

/// The keys of a whole file.
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

    /// The known key that looks like this one.
    pub fn near(&self, key: &str) -> Option<&str> {
        let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
        let wanted = plain(key);
        let letters = |text: &str| {
            let mut letters: Vec<char> = text.chars().collect();
            letters.sort_unstable();
            letters
        };
        // Swapped letters are the commonest mistake: `modle` is `model` rather than `mode`.
        let is_swapped = |known: &str| letters(&wanted) == letters(known);
        let near = self.known.keys().map(|key| (plain(key), key));
        let near = near.map(|(known, key)| (!is_swapped(&known), distance(&wanted, &known), key));
        let (is_other, away, known) = near.min_by_key(|&(is_other, away, _)| (is_other, away))?;
        (!is_other || away <= 2 && away * 3 <= known.len()).then_some(known.as_str())
    }
}

#[cfg(test)]
mod tests;
