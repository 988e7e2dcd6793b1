//! The source of each value of the resolved configuration, and the values that it overrode.

use std::{collections::BTreeSet, fmt::Write};

use serde_json::{Map, Value};
use windlass_base::text::{head, is_hidden, visible_json, visible_line};

use super::{
    ADMINISTRATOR, RULE_KEYS, filled_in,
    layer::{Kind, Layer, pointer},
    merge::plugin_name,
    secrets,
    warning::Warning,
};

/// A value of the resolved configuration that is no object.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    pub path: Vec<String>,
    pub value: Value,
    /// Sources that set it, the strongest first; those after the first are overridden.
    pub set_by: Vec<Origin>,
}

/// One source's value.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    pub source: String,
    /// Line and column, 1-based, where the source has lines.
    pub position: Option<(usize, usize)>,
    pub value: Value,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&visible_line(&secrets::text(&self.source)))?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// Returns every value of `raw`, which `layers` were merged to, in its order.
pub fn leaves(raw: &Map<String, Value>, layers: &[Layer]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for (key, value) in raw {
        let joined = matches!(key.as_str(), "instructions" | "plugin");
        match value {
            Value::Array(list) if joined => {
                for element in list {
                    leaves.push(joined_leaf(key, element, layers));
                }
            }
            _ => collect(&mut vec![key.clone()], value, layers, &mut leaves),
        }
    }
    leaves
}

/// Renders one line for each value, below it its source and the values that it overrode. Secrets are masked unless
/// `filled_in` is `None`; it holds the texts that variables and files put in.
pub fn render(leaves: &[Leaf], filled_in: Option<&BTreeSet<String>>) -> String {
    let mut text = String::new();
    let values = leaves.iter().flat_map(|leaf| {
        let said = leaf.set_by.iter().map(|origin| &origin.value);
        std::iter::once(&leaf.value).chain(said).map(|value| (&leaf.path, value))
    });
    let found: Vec<String> = if filled_in.is_some() {
        values.flat_map(|(path, value)| secrets::known(&keys(path), value)).collect()
    } else {
        Vec::new()
    };
    let masked = |path: &[String], value: &Value| {
        let Some(texts) = filled_in else { return value.clone() };
        let mut value = secrets::without(secrets::mask(&keys(path), value), &found);
        filled_in::hide(path, &mut value, texts);
        value
    };
    for leaf in leaves {
        let name: Vec<String> = leaf.path.iter().map(|key| quoted(key)).collect();
        let _ = writeln!(text, "{} = {}", name.join("."), shown(&masked(&leaf.path, &leaf.value)));
        for (idx, origin) in leaf.set_by.iter().enumerate() {
            let _ = match idx {
                0 => writeln!(text, "    {origin}"),
                _ => {
                    let value = shown(&masked(&leaf.path, &origin.value));
                    writeln!(text, "    over {origin}: {value}")
                }
            };
        }
    }
    text
}

fn keys(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Gives warnings about keys of the merged configuration, such as `agent.build.model`, the place where the strongest
/// source says it.
pub fn locate(warnings: &mut [Warning], layers: &[Layer]) {
    for warning in warnings.iter_mut().filter(|warning| warning.line.is_none()) {
        let named = |place: &str| {
            let keys = place.split('/').skip(1).map(|key| key.replace("~1", "/").replace("~0", "~"));
            keys.collect::<Vec<_>>().join(".") == warning.source
        };
        let found = layers.iter().rev().find_map(|layer| {
            let (_, position) = layer.places.iter().find(|(place, _)| named(place))?;
            Some((layer, *position))
        });
        let Some((layer, (line, column))) = found else { continue };
        warning.message = format!("{}: {}", warning.source, warning.message);
        warning.source = layer.source.clone();
        (warning.line, warning.column) = (Some(line), Some(column));
    }
}

/// Returns true for a warning about something that a hook of this name says, or about a key that it sets.
pub fn is_of_hook(warning: &Warning, layers: &[Layer], name: &str) -> bool {
    let mut of_hook = layers.iter().filter(|layer| layer.kind == Kind::Plugin && layer.source == name);
    of_hook.any(|layer| layer.source == warning.source || holds(&layer.value, &warning.source))
}

/// Returns true if an object has a value at keys that are written with dots between them.
fn holds(object: &Map<String, Value>, path: &str) -> bool {
    object.iter().any(|(key, value)| match path.strip_prefix(key.as_str()) {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('.')
            .is_some_and(|rest| value.as_object().is_some_and(|object| holds(object, rest))),
        None => false,
    })
}

/// Returns the file and line where the strongest source sets a value; only the source's name where it has no
/// lines.
pub fn place(path: &[&str], layers: &[Layer]) -> Option<String> {
    let path: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    let said = layers.iter().rev().find_map(|layer| origin(layer, &path))?;
    let source = visible_line(&secrets::text(&said.source)).into_owned();
    Some(match said.position {
        Some((line, _)) => format!("{source}:{line}"),
        None => source,
    })
}

/// Returns a key as it may stand between dots.
fn quoted(key: &str) -> String {
    let is_plain = !key.is_empty()
        && !key.contains(|letter: char| letter == '.' || letter.is_whitespace() || is_hidden(letter));
    if is_plain { key.to_owned() } else { visible_json(&Value::from(key).to_string()) }
}

/// Returns a value on one line that is not too long.
fn shown(value: &Value) -> String {
    let text = visible_json(&value.to_string());
    let kept = head(&text, 120);
    if kept.len() < text.len() { format!("{kept}…") } else { text }
}

fn collect(path: &mut Vec<String>, value: &Value, layers: &[Layer], leaves: &mut Vec<Leaf>) {
    match value {
        Value::Object(object) if !object.is_empty() => {
            for (key, value) in object {
                path.push(key.clone());
                collect(path, value, layers, leaves);
                path.pop();
            }
        }
        _ => {
            leaves.push(Leaf { path: path.clone(), value: value.clone(), set_by: origins(path, layers) });
        }
    }
}

/// Returns everything that was said of a path, the strongest first. An administrator's rules have a place of
/// their own.
fn origins(path: &[String], layers: &[Layer]) -> Vec<Origin> {
    let (is_administrators, path) = match path {
        [first, rest @ ..] if first == ADMINISTRATOR => (true, rest),
        whole => (false, whole),
    };
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let is_rule = match keys.as_slice() {
        [key, ..] if RULE_KEYS.contains(key) => true,
        ["agent", _, key, ..] => RULE_KEYS.contains(key),
        _ => false,
    };
    let may_say = |layer: &&Layer| !is_rule || (layer.kind == Kind::Managed) == is_administrators;
    layers.iter().rev().filter(may_say).filter_map(|layer| origin(layer, path)).collect()
}

/// Returns the value that a layer sets at a path: the value there, or the one above that takes its place.
fn origin(layer: &Layer, path: &[String]) -> Option<Origin> {
    let mut keys = path.iter();
    let mut value = layer.value.get(keys.next()?)?;
    let mut depth = 1;
    for key in keys {
        match value {
            Value::Object(object) => value = object.get(key)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => break,
        }
        depth += 1;
    }
    if value.is_null() {
        return None;
    }
    let keys: Vec<&str> = path.iter().map(String::as_str).collect();
    let position = nearest_position(layer, &keys, depth);
    Some(Origin { source: layer.source.clone(), position, value: value.clone() })
}

/// Returns the position of a value, or of the nearest key around it: a normalised value has none of its own.
fn nearest_position(layer: &Layer, path: &[&str], depth: usize) -> Option<(usize, usize)> {
    (1..=depth).rev().find_map(|depth| layer.position(path.get(..depth)?))
}

/// Returns an element of a list that the layers add to.
fn joined_leaf(key: &str, element: &Value, layers: &[Layer]) -> Leaf {
    let mut set_by = Vec::new();
    for layer in layers.iter().rev() {
        for (idx, value) in layer.value.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let is_same = match key {
                "plugin" => plugin_name(value) == plugin_name(element),
                _ => value == element,
            };
            if is_same {
                let position = layer.places.get(&pointer(&[key, &idx.to_string()])).copied();
                set_by.push(Origin { source: layer.source.clone(), position, value: value.clone() });
            }
        }
    }
    Leaf { path: vec![key.to_owned()], value: element.clone(), set_by }
}

#[cfg(test)]
mod tests;
