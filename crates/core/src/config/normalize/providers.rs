//! Reads `providers` of OpenCode's second version as `provider`.

use serde_json::{Map, Value, json};

use super::Normalizer;
use crate::config::merge::merge;

/// Keys of a provider, and ours: a place below it.
pub const PROVIDER: [(&str, &[&str]); 5] = [
    ("settings", &["options"]),
    ("headers", &["options", "headers"]),
    ("name", &["name"]),
    ("env", &["env"]),
    ("package", &["npm"]),
];
/// Keys of a model, and ours.
pub const MODEL: [(&str, &[&str]); 9] = [
    ("settings", &["options"]),
    ("body", &["options"]),
    ("headers", &["headers"]),
    ("modelID", &["id"]),
    ("name", &["name"]),
    ("family", &["family"]),
    ("releaseDate", &["release_date"]),
    ("package", &["provider", "npm"]),
    ("limit", &["limit"]),
];
/// Abilities of a model, and our keys for them.
pub const CAPABILITIES: [(&str, &[&str]); 4] = [
    ("tools", &["tool_call"]),
    ("temperature", &["temperature"]),
    ("input", &["modalities", "input"]),
    ("output", &["modalities", "output"]),
];
/// Keys of a provider that have nothing to act on here.
pub const PROVIDER_WITHOUT_EFFECT: [&str; 3] = ["body", "canonical", "compatibility"];
/// Keys of a model that have nothing to act on here.
pub const MODEL_WITHOUT_EFFECT: [&str; 1] = ["compatibility"];
/// Keys of a variant that have nothing to act on here.
pub const VARIANT_WITHOUT_EFFECT: [&str; 1] = ["headers"];

/// Packages of its own by other names than the vendors'.
const PACKAGES: [(&str, &str); 2] =
    [("anthropic-compatible", "@ai-sdk/anthropic"), ("openrouter", "@openrouter/ai-sdk-provider")];

impl Normalizer<'_> {
    pub(super) fn providers(&mut self) {
        let said = match self.layer.value.get("providers") {
            Some(Value::Object(said)) => said.clone(),
            Some(Value::Null) => Map::new(),
            // The check says that it is not known.
            Some(_) | None => return,
        };
        self.layer.value.shift_remove("providers");
        if said.is_empty() {
            return;
        }
        self.note(&["providers"], "is read as `provider`");
        self.layer.move_places(&["providers"], &["provider"]);
        let mut providers = Map::new();
        for (name, provider) in said {
            let provider = match provider {
                Value::Object(said) => Value::Object(self.provider(&name, said)),
                other => other,
            };
            providers.insert(name, provider);
        }
        self.put_below("provider", providers.into());
    }

    fn provider(&mut self, name: &str, mut said: Map<String, Value>) -> Map<String, Value> {
        let path = ["provider", name];
        let mut own = Map::new();
        let models = said.shift_remove("models");
        self.moved(&path, &mut said, &mut own, &PROVIDER);
        let mut models = match models {
            Some(Value::Object(models)) => models,
            Some(other) => {
                // The check says that it is none.
                own.insert("models".to_owned(), other);
                Map::new()
            }
            None => Map::new(),
        };
        let mut off = Vec::new();
        for (id, model) in &mut models {
            let Value::Object(said) = model else { continue };
            if said.get("disabled").is_some_and(|it| !matches!(it, Value::Null | Value::Bool(false))) {
                off.push(Value::from(id.as_str()));
            }
            *model = Value::Object(self.listed_model(&[&path[..], &["models", id]].concat(), said.clone()));
        }
        if !models.is_empty() {
            own.insert("models".to_owned(), models.into());
        }
        if !off.is_empty() {
            own.insert("blacklist".to_owned(), off.into());
        }
        self.rest(&path, said, &PROVIDER_WITHOUT_EFFECT);
        own
    }

    fn listed_model(&mut self, path: &[&str], mut said: Map<String, Value>) -> Map<String, Value> {
        let mut own = Map::new();
        self.moved(path, &mut said, &mut own, &MODEL);
        match said.shift_remove("disabled") {
            None | Some(Value::Null | Value::Bool(_)) => {}
            Some(_) => self.odd(path, "disabled", "is read as true; expected true or false"),
        }
        match said.shift_remove("capabilities") {
            Some(Value::Object(mut said)) => {
                let path = [path, &["capabilities"]].concat();
                self.moved(&path, &mut said, &mut own, &CAPABILITIES);
                let reasoning = match said.shift_remove("reasoning") {
                    Some(Value::Object(of)) => of.get("supported").cloned(),
                    other => other,
                };
                own.extend(reasoning.map(|it| ("reasoning".to_owned(), it)));
                self.rest(&path, said, &[]);
            }
            None | Some(Value::Null) => {}
            Some(_) => self.odd(path, "capabilities", "is ignored; expected an object"),
        }
        match said.shift_remove("cost").map(|it| prices(&it)) {
            Some(Some(cost)) => own.extend(cost.map(|cost| ("cost".to_owned(), cost))),
            Some(None) => self.odd(path, "cost", "is ignored; expected prices"),
            None => {}
        }
        match said.shift_remove("variants").map(variants) {
            Some(Some(variants)) => _ = own.insert("variants".to_owned(), variants),
            Some(None) => self.odd(path, "variants", "is ignored; expected a list of objects with an `id`"),
            None => {}
        }
        self.rest(path, said, &MODEL_WITHOUT_EFFECT);
        own
    }

    /// Moves values to our keys; objects are merged there.
    fn moved(
        &mut self,
        path: &[&str],
        said: &mut Map<String, Value>,
        own: &mut Map<String, Value>,
        rows: &[(&str, &[&str])],
    ) {
        for (from, to) in rows {
            let Some(value) = said.shift_remove(*from).filter(|value| !value.is_null()) else { continue };
            let value = match value.as_str().filter(|_| *from == "package") {
                Some(package) => package_of(package).into(),
                None => value,
            };
            let nested = to.iter().rev().fold(value, |value, key| json!({*key: value}));
            if let Value::Object(nested) = nested {
                merge(own, &nested);
            }
            let base: Vec<&str> = path.iter().copied().filter(|key| *key != "capabilities").collect();
            self.layer.move_places(&[path, &[from]].concat(), &[base.as_slice(), to].concat());
        }
    }

    /// Names the keys that are left.
    fn rest(&mut self, path: &[&str], said: Map<String, Value>, without_effect: &[&str]) {
        for key in said.keys() {
            if without_effect.contains(&key.as_str()) {
                self.note(&[path, &[key]].concat(), "has no effect here");
            } else {
                self.odd(path, key, "is not a known key and is ignored");
            }
        }
    }

    fn odd(&mut self, path: &[&str], key: &str, message: &str) {
        let warning = self.layer.warning(&[path, &[key]].concat(), message.to_owned());
        self.findings.warnings.push(warning);
    }
}

/// Returns the package that determines the protocol here.
fn package_of(package: &str) -> String {
    let named = package.strip_prefix("aisdk:").unwrap_or(package);
    let Some(own) = package.strip_prefix("@opencode/ai/providers/") else { return named.to_owned() };
    let name = own.split('/').next().unwrap_or(own);
    let other = PACKAGES.iter().find(|(theirs, _)| *theirs == name);
    other.map_or_else(|| format!("@ai-sdk/{name}"), |(_, ours)| (*ours).to_owned())
}

/// Returns prices as ours, nothing for null; `None` if they are none. Of a list the first holds, and the others are tiers.
fn prices(cost: &Value) -> Option<Option<Value>> {
    let one = |cost: &Value| -> Option<Map<String, Value>> {
        let mut own = Map::new();
        let cost = cost.as_object()?;
        let of_cache = cost.get("cache").filter(|it| !it.is_null());
        let cache = of_cache.map(|it| it.as_object().ok_or(())).transpose().ok()?;
        let read = |key: &str| cache.and_then(|cache| cache.get(key));
        for (key, value) in [
            ("input", cost.get("input")),
            ("output", cost.get("output")),
            ("cache_read", read("read")),
            ("cache_write", read("write")),
            ("tier", cost.get("tier")),
        ] {
            own.extend(value.filter(|it| !it.is_null()).map(|value| (key.to_owned(), value.clone())));
        }
        Some(own)
    };
    let list = match cost {
        Value::Null => return Some(None),
        Value::Array(list) => list.iter().map(one).collect::<Option<Vec<_>>>()?,
        cost => vec![one(cost)?],
    };
    let mut list = list.into_iter();
    let Some(mut first) = list.next() else { return Some(None) };
    first.shift_remove("tier");
    let tiers: Vec<Value> = list.map(Value::Object).collect();
    if !tiers.is_empty() {
        first.insert("tiers".to_owned(), tiers.into());
    }
    Some(Some(first.into()))
}

/// Returns a list of variants as ours, by their names; `None` if it is none.
fn variants(list: Value) -> Option<Value> {
    let mut own = Map::new();
    for variant in list.as_array().map(Vec::as_slice).or(list.is_null().then_some(&[]))? {
        let said = variant.as_object()?;
        let is_known = |key: &String| {
            ["id", "settings", "body", "disabled"].contains(&key.as_str())
                || VARIANT_WITHOUT_EFFECT.contains(&key.as_str())
        };
        said.keys().all(is_known).then_some(())?;
        let mut options = Map::new();
        for key in ["settings", "body"] {
            match said.get(key) {
                None | Some(Value::Null) => {}
                Some(of) => merge(&mut options, of.as_object()?),
            }
        }
        if said.get("disabled").is_some_and(|it| !it.is_null() && *it != Value::Bool(false)) {
            options.insert("disabled".to_owned(), true.into());
        }
        own.insert(said.get("id")?.as_str()?.to_owned(), options.into());
    }
    Some(own.into())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{
        layer::{Kind, Layer},
        normalize::normalize,
        warning::Findings,
    };

    fn normalized(providers: Value) -> (Value, Vec<String>) {
        let value = Map::from_iter([("providers".to_owned(), providers)]);
        let mut layer = Layer::new(Kind::File, "file", Path::new("/"), value);
        let mut findings = Findings::default();
        normalize(&mut layer, &mut findings);
        let warnings = findings.warnings.iter().map(|it| it.message.clone()).collect();
        (layer.value.shift_remove("provider").unwrap_or_default(), warnings)
    }

    #[test]
    fn a_provider_is_read_as_ours() {
        let (own, warnings) = normalized(json!({"house": {
            "canonical": "openai",
            "name": "House",
            "env": ["HOUSE_KEY"],
            "package": "aisdk:@ai-sdk/openai-compatible",
            "settings": {"baseURL": "https://house.example/v1", "headers": {"a": "1"}},
            "headers": {"b": "2"},
            "models": {
                "big": {
                    "modelID": "big-1",
                    "releaseDate": "2026-01-01",
                    "settings": {"reasoningEffort": "low"},
                    "body": {"top_k": 5},
                    "capabilities": {
                        "tools": true, "temperature": false, "input": ["text", "image"], "output": ["text"],
                        "reasoning": {"supported": true, "effort": ["low", "high"]},
                    },
                    "variants": [{"id": "high", "settings": {"reasoningEffort": "high"}}],
                    "cost": [
                        {"input": 1, "output": 2, "cache": {"read": 0.1, "write": 0.2}},
                        {"input": 3, "output": 4, "tier": {"type": "context", "size": 200000}},
                    ],
                    "limit": {"context": 1000, "output": 100},
                },
                "old": {"disabled": true},
            },
        }}));
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(
            own["house"],
            json!({
                "options": {"baseURL": "https://house.example/v1", "headers": {"a": "1", "b": "2"}},
                "name": "House",
                "env": ["HOUSE_KEY"],
                "npm": "@ai-sdk/openai-compatible",
                "models": {
                    "big": {
                        "options": {"reasoningEffort": "low", "top_k": 5},
                        "id": "big-1",
                        "release_date": "2026-01-01",
                        "limit": {"context": 1000, "output": 100},
                        "tool_call": true,
                        "temperature": false,
                        "modalities": {"input": ["text", "image"], "output": ["text"]},
                        "reasoning": true,
                        "cost": {
                            "input": 1, "output": 2, "cache_read": 0.1, "cache_write": 0.2,
                            "tiers": [{"input": 3, "output": 4, "tier": {"type": "context", "size": 200000}}],
                        },
                        "variants": {"high": {"reasoningEffort": "high"}},
                    },
                    "old": {},
                },
                "blacklist": ["old"],
            })
        );
        for (package, ours) in [
            ("@opencode/ai/providers/openai/chat", "@ai-sdk/openai"),
            ("@opencode/ai/providers/anthropic-compatible", "@ai-sdk/anthropic"),
            ("@opencode/ai/providers/google", "@ai-sdk/google"),
            ("some-package", "some-package"),
        ] {
            assert_eq!(normalized(json!({"p": {"package": package}})).0["p"]["npm"], ours);
        }
    }

    #[test]
    fn keys_that_are_none_are_named_and_the_rest_is_read() {
        let (own, warnings) = normalized(json!({"p": {"nmae": "x", "models": {"m": {
            "name": "M", "tool_call": true, "cost": 5, "variants": {"high": {}}, "capabilities": ["tools"], "disabled": "x",
        }}}}));
        assert_eq!(own, json!({"p": {"models": {"m": {"name": "M"}}, "blacklist": ["m"]}}));
        for word in ["nmae", "tool_call", "cost", "variants", "capabilities", "disabled"] {
            assert!(warnings.iter().any(|it| it.contains(word)), "{word}: {warnings:?}");
        }
        assert_eq!(warnings.len(), 6, "{warnings:?}");
    }
}
