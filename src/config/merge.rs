//! Lays one configuration over another (facts: OpenCode §2.2).

use serde_json::{Map, Value};

/// Merges `upper` into `lower`: objects key by key, everything else replaced.
///
/// `null` says nothing, so what lies below stays. Two exceptions. The lists `instructions` and `plugin` are joined
/// without repeats, where a plugin is its package and the stronger version holds. In `permission` objects, where the
/// last match wins, a key that `upper` sets again moves to the end; elsewhere it keeps its place.
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
            ("agent", Some(Value::Object(agents)), Value::Object(upper_agents)) => {
                merge_agents(agents, upper_agents);
            }
            _ if key == "permission" => merge_permission(lower, value),
            _ => merge_key(lower, key, value),
        }
    }
}

/// The package of an entry of `plugin` without its version; a file's whole address.
pub fn plugin_name(spec: &Value) -> &str {
    let name = spec.as_str().or_else(|| spec.get(0)?.as_str()).unwrap_or_default();
    if name.contains("://") {
        return name;
    }
    // The first letter of `@scope/package@1.0` begins no version.
    match name.char_indices().skip(1).find(|&(_, letter)| letter == '@') {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

fn merge_agents(lower: &mut Map<String, Value>, upper: &Map<String, Value>) {
    for (name, agent) in upper.iter().filter(|(_, agent)| !agent.is_null()) {
        let (Some(Value::Object(lower_agent)), Value::Object(agent)) = (lower.get_mut(name), agent) else {
            lower.insert(name.clone(), without_nulls(agent));
            continue;
        };
        for (key, value) in agent.iter().filter(|(_, value)| !value.is_null()) {
            match key.as_str() {
                "permission" => merge_permission(lower_agent, value),
                _ => merge_key(lower_agent, key, value),
            }
        }
    }
}

fn merge_permission(owner: &mut Map<String, Value>, upper: &Value) {
    match (owner.get_mut("permission"), upper) {
        (Some(Value::Object(lower)), Value::Object(upper)) => {
            for (permission, actions) in upper {
                let merged = match (lower.shift_remove(permission), actions) {
                    (Some(Value::Object(mut patterns)), Value::Object(upper_patterns)) => {
                        for (pattern, action) in upper_patterns {
                            patterns.shift_remove(pattern);
                            patterns.insert(pattern.clone(), action.clone());
                        }
                        Value::Object(patterns)
                    }
                    _ => actions.clone(),
                };
                lower.insert(permission.clone(), merged);
            }
        }
        _ => {
            owner.insert("permission".to_owned(), upper.clone());
        }
    }
}

fn merge_key(lower: &mut Map<String, Value>, key: &str, value: &Value) {
    match (lower.get_mut(key), value) {
        (Some(Value::Object(object)), Value::Object(upper)) => {
            for (key, value) in upper.iter().filter(|(_, value)| !value.is_null()) {
                merge_key(object, key, value);
            }
        }
        (Some(place), value) => *place = without_nulls(value),
        (None, value) => {
            lower.insert(key.to_owned(), without_nulls(value));
        }
    }
}

/// A value with nothing in its objects that says nothing.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let said = object.iter().filter(|(_, value)| !value.is_null());
            Value::Object(said.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests;
