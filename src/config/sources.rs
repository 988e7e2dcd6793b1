//! Which source set each value of the resolved configuration, and what it overrode.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use super::{
    layer::{Layer, pointer},
    merge::plugin_name,
    rules::{meets, rules_from_tools},
    secrets,
    warning::Warning,
};
use crate::base::text::{head, is_hidden, visible_json, visible_line};

/// A value of the resolved configuration that is no object.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    pub path: Vec<String>,
    pub value: Value,
    /// Who says it, the strongest first; what follows the first is overridden.
    pub said_by: Vec<Saying>,
}

/// What one source says.
#[derive(Debug, Clone, PartialEq)]
pub struct Saying {
    pub source: String,
    /// Line and column, 1-based, where the source has lines.
    pub position: Option<(usize, usize)>,
    pub value: Value,
}

impl std::fmt::Display for Saying {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&visible_line(&secrets::text(&self.source)))?;
        match self.position {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// Every value of `raw`, which `layers` were merged to, in its order.
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

/// One line for each value, below it who set it and what that overrode.
pub fn render(leaves: &[Leaf], is_masked: bool) -> String {
    let mut text = String::new();
    let masked = |path: &[String], value: &Value| match is_masked {
        true => secrets::mask(&path.iter().map(String::as_str).collect::<Vec<_>>(), value),
        false => value.clone(),
    };
    for leaf in leaves {
        let name: Vec<String> = leaf.path.iter().map(|key| quoted(key)).collect();
        let _ = writeln!(text, "{} = {}", name.join("."), shown(&masked(&leaf.path, &leaf.value)));
        for (idx, saying) in leaf.said_by.iter().enumerate() {
            let _ = match idx {
                0 => writeln!(text, "    {saying}"),
                _ => {
                    let value = shown(&masked(&leaf.path, &saying.value));
                    writeln!(text, "    over {saying}: {value}")
                }
            };
        }
    }
    text
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

/// A key as it may stand between dots.
fn quoted(key: &str) -> String {
    let is_plain = !key.is_empty()
        && !key.contains(|letter: char| letter == '.' || letter.is_whitespace() || is_hidden(letter));
    if is_plain { key.to_owned() } else { visible_json(&Value::from(key).to_string()) }
}

/// A value on one line that is not too long.
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
            let mut said_by: Vec<Saying> =
                layers.iter().rev().filter_map(|layer| saying(layer, path)).collect();
            if let Some(rule) = rule_of(path, value) {
                put_deciding_first(&mut said_by, &rule, path, layers);
            }
            leaves.push(Leaf { path: path.clone(), value: value.clone(), said_by });
        }
    }
}

/// What a layer says of a path: the value there, or the one above that takes its place.
fn saying(layer: &Layer, path: &[String]) -> Option<Saying> {
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
    Some(Saying { source: layer.source.clone(), position, value: value.clone() })
}

/// The rule that a value stands for, when it stands for one.
fn rule_of(path: &[String], value: &Value) -> Option<Rule> {
    let below = match path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["permission", ..] => 1,
        ["agent", _, "permission", ..] => 3,
        _ => return None,
    };
    let action = Action::deserialize(value).ok()?;
    let mut keys = path.iter().skip(below).cloned();
    let permission = keys.next()?;
    Some(Rule { permission, pattern: keys.next().unwrap_or("*".to_owned()), action })
}

/// Where an administrator rules, not the strongest source decides but the strictest: brings one that says what holds to
/// the front, be it by a wider rule.
fn put_deciding_first(said_by: &mut Vec<Saying>, rule: &Rule, path: &[String], layers: &[Layer]) {
    let says = |value: &Value| match value {
        Value::Object(patterns) => patterns.get("*").and_then(|it| Action::deserialize(it).ok()),
        other => Action::deserialize(other).ok(),
    };
    if let Some(at) = said_by.iter().position(|saying| says(&saying.value) == Some(rule.action)) {
        let deciding = said_by.remove(at);
        said_by.insert(0, deciding);
        return;
    }
    let scopes: &[&[&str]] = match path {
        [agent, name, ..] if agent == "agent" => &[&["agent", name], &[]],
        _ => &[&[]],
    };
    let find = |reach: Reach| {
        let in_scope =
            |scope: &&[&str]| layers.iter().rev().find_map(|layer| saying_alike(layer, scope, rule, reach));
        scopes.iter().find_map(in_scope)
    };
    // What no pattern can name is made as strict as a rule that is about something else as well.
    if let Some(deciding) = find(Reach::Meets).or_else(|| find(Reach::Anything)) {
        said_by.insert(0, deciding);
    }
}

/// What a rule must be about to say the same as another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Something that the other is about as well.
    Meets,
    Anything,
}

/// The last rule of a layer, below `scope`, that says the same.
fn saying_alike(layer: &Layer, scope: &[&str], rule: &Rule, reach: Reach) -> Option<Saying> {
    let owner = scope.iter().try_fold(&layer.value, |owner, key| owner.get(*key)?.as_object())?;
    let mut found = None;
    let mut look = |keys: &[&str], permission: &str, pattern: &str, action: Action, value: &Value| {
        let is_met = || meets(permission, &rule.permission) && meets(pattern, &rule.pattern);
        if action == rule.action && (reach == Reach::Anything || is_met()) {
            let path = [scope, keys].concat();
            let position = nearest_position(layer, &path, path.len());
            found = Some(Saying { source: layer.source.clone(), position, value: value.clone() });
        }
    };
    for (tool, value) in owner.get("tools").and_then(Value::as_object).into_iter().flatten() {
        for it in rules_from_tools([(tool.as_str(), value == true)]) {
            look(&["tools", tool], &it.permission, &it.pattern, it.action, value);
        }
    }
    for (permission, actions) in owner.get("permission").and_then(Value::as_object).into_iter().flatten() {
        let action = |value: &Value| Action::deserialize(value).ok();
        if let Some(one) = action(actions) {
            look(&["permission", permission], permission, "*", one, actions);
        }
        for (pattern, value) in actions.as_object().into_iter().flatten() {
            if let Some(one) = action(value) {
                look(&["permission", permission, pattern], permission, pattern, one, value);
            }
        }
    }
    found
}

/// Where a value stands, or the nearest key around it, as one that was brought into another form does.
fn nearest_position(layer: &Layer, path: &[&str], depth: usize) -> Option<(usize, usize)> {
    (1..=depth).rev().find_map(|depth| layer.position(path.get(..depth)?))
}

/// An element of a list that the layers add to.
fn joined_leaf(key: &str, element: &Value, layers: &[Layer]) -> Leaf {
    let mut said_by = Vec::new();
    for layer in layers.iter().rev() {
        for (idx, value) in layer.value.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let is_same = match key {
                "plugin" => plugin_name(value) == plugin_name(element),
                _ => value == element,
            };
            if is_same {
                let position = layer.places.get(&pointer(&[key, &idx.to_string()])).copied();
                said_by.push(Saying { source: layer.source.clone(), position, value: value.clone() });
            }
        }
    }
    Leaf { path: vec![key.to_owned()], value: element.clone(), said_by }
}

#[cfg(test)]
mod tests;
