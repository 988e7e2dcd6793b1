//! Lays one configuration over another (facts: OpenCode §2.2).

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};
use windlass_base::{home, path::absolute};

use super::layer::Layer;

/// Merges the layers to one object.
pub fn merged<'a>(layers: impl IntoIterator<Item = &'a Layer>) -> Map<String, Value> {
    let mut raw = Map::new();
    for layer in layers {
        merge(&mut raw, &layer.value);
    }
    raw
}

/// Merges `upper` into `lower`: objects key by key, everything else replaced.
///
/// `null` sets nothing, so the value below stays. A key that `upper` sets again keeps its place, also in
/// `permission`, where the last match wins: `*` in a stronger source does not lift the rules that a weaker one has
/// behind its own `*`. The lists `instructions` and `plugin` are joined without repeats, where a plugin is its
/// package and the stronger version holds.
pub fn merge(lower: &mut Map<String, Value>, upper: &Map<String, Value>) {
    for (key, value) in upper.iter().filter(|(_, value)| !value.is_null()) {
        match (key.as_str(), lower.get_mut(key), value) {
            ("instructions", Some(Value::Array(list)), Value::Array(more)) => {
                for element in more {
                    if !list.contains(element) {
                        list.push(element.clone());
                    }
                }
            }
            ("plugin", Some(Value::Array(list)), Value::Array(more)) => {
                for element in more {
                    list.retain(|lower| plugin_name(lower) != plugin_name(element));
                    list.push(element.clone());
                }
            }
            _ => merge_key(lower, key, value),
        }
    }
}

/// Returns the file or directory that an entry of `plugin` names, from the directory of the file with the entry; none for
/// a package.
pub fn plugin_path(home: &Path, base: &Path, spec: &str) -> Option<PathBuf> {
    let url = spec.strip_prefix("file://").map(|path| percent_decode_str(path).decode_utf8_lossy());
    let is_path = url.is_some() || is_local(spec);
    is_path.then(|| absolute(base, home::join(home, base, url.as_deref().unwrap_or(spec))))
}

fn is_local(spec: &str) -> bool {
    spec.starts_with(['.', '/', '~'])
}

/// Returns the package of an entry of `plugin` without its version; a file's whole address.
pub fn plugin_name(spec: &Value) -> &str {
    let name = spec.as_str().or_else(|| spec.get(0)?.as_str()).unwrap_or_default();
    if name.contains("://") || is_local(name) {
        return name;
    }
    // The first letter of `@scope/package@1.0` begins no version.
    match name.char_indices().skip(1).find(|&(_, letter)| letter == '@') {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

fn merge_key(lower: &mut Map<String, Value>, key: &str, value: &Value) {
    match (lower.get_mut(key), value) {
        (Some(Value::Object(object)), Value::Object(upper)) => {
            for (key, value) in upper.iter().filter(|(_, value)| !value.is_null()) {
                merge_key(object, key, value);
            }
        }
        (Some(_), value) if is_blank(value) => {}
        (Some(place), value) => *place = without_nulls(value),
        (None, value) => {
            lower.insert(key.to_owned(), without_nulls(value));
        }
    }
}

/// Returns true if a value is `null`, or an object that holds nothing else at any depth.
pub fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(object) => !object.is_empty() && object.values().all(is_blank),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => false,
    }
}

/// Returns a value without the `null`s of its objects, also of those in lists.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let said = object.iter().filter(|(_, value)| !value.is_null());
            Value::Object(said.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
