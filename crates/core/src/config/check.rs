//! Checks one layer: removes values of the wrong shape, so that a weaker layer's stay in force, and says where.

use std::path::Path;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass_base::text::{distance, nearest};
use windlass_protocol::opencode::config::{
    AgentConfig, CommandConfig, ConfigFile, McpConfig, ProviderConfig,
};

use super::{
    formats::name_problem,
    known_keys::{self, Keys},
    layer::{self, Layer},
    merge::without_nulls,
    rules::read_rules,
    secrets,
    warning::Findings,
    wording::{cut, plain},
};

mod sandbox;

/// Checks a layer after its deprecated forms are gone.
pub fn check(layer: &mut Layer, findings: &mut Findings) {
    let mut value = std::mem::take(&mut layer.value);
    let mut checker = Checker { layer, findings, removed: Vec::new() };
    checker.unknown_keys(&value);
    checker.keys_without_effect(&value);
    value.retain(|key, value| match key.as_str() {
        _ if value.is_null() => true,
        // A server without its address or program is left out whole, so it is looked at there.
        "mcp" => checker.entries(key, value, Checker::mcp),
        _ if !checker.is_possible(known_keys::keys().below(key), &[key], value) => false,
        "permission" => {
            checker.permission(&[key], value);
            true
        }
        "provider" => checker.entries(key, value, Checker::provider),
        "agent" => checker.entries(key, value, Checker::agent),
        "command" => checker.entries(key, value, Checker::prune::<CommandConfig>),
        // Every object is an agent by now.
        "mode" => {
            checker.warn(&[key], format!("`{key}` is not an object"));
            false
        }
        // Keys that no field takes decode with any value.
        _ => checker.field(key, value),
    });
    checker.lists_for_objects(&mut value);
    let removed = std::mem::take(&mut checker.removed);
    for (path, idx) in removed.iter().rev() {
        layer.remove_element_place(path, *idx);
    }
    layer.value = value;
}

struct Checker<'a> {
    layer: &'a Layer,
    findings: &'a mut Findings,
    /// Elements that were taken out of lists, by the list's path, in order.
    removed: Vec<(Vec<String>, usize)>,
}

impl Checker<'_> {
    fn warn(&mut self, path: &[&str], message: String) {
        self.findings.warnings.push(self.layer.warning(path, message));
    }

    fn note(&mut self, path: &[&str], message: &str) {
        self.findings.notes.push(self.layer.warning(path, message.to_owned()));
    }

    fn keys_without_effect(&mut self, value: &Map<String, Value>) {
        // A value that asks for less than everything gets it.
        let asks = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(word) => word != "manual" && word != "disabled",
            Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
        };
        for (key, value) in value {
            let Some(keys) = known_keys::keys().below(key) else { continue };
            keys.without_effect(value, &mut vec![key], &mut |path, value| {
                if asks(value) {
                    self.note(path, "is understood, but nothing acts on it yet");
                }
            });
        }
    }

    /// Takes out the parts of a value that its type's range or format excludes; false if all of it is.
    fn is_possible(&mut self, keys: Option<&Keys>, path: &[&str], value: &mut Value) -> bool {
        let Some(keys) = keys else { return true };
        let problem = keys.problem(&brief(path, value), value);
        if let Some(problem) = problem {
            self.warn(path, problem);
            return false;
        }
        let is_by_name = keys.format.as_deref() == Some("by-name");
        match value {
            Value::Object(object) => object.retain(|key, value| {
                let path = [path, &[key.as_str()]].concat();
                if let Some(problem) = name_problem(key).filter(|_| is_by_name) {
                    self.warn(&path, format!("is left out: {problem}"));
                    return false;
                }
                self.is_possible(keys.below(key), &path, value)
            }),
            Value::Array(list) => self.elements(path, list, |element| {
                let shown = element.as_str().map(secrets::text).unwrap_or_default();
                let problem = keys.below("").and_then(|keys| keys.problem(&shown, element));
                problem.map_or(Ok(()), |problem| Err(format!("{problem}; it is left out")))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        true
    }

    fn unknown_keys(&mut self, value: &Map<String, Value>) {
        let mut unknown = Vec::new();
        known_keys::keys().unknown(value, &mut Vec::new(), &mut |path, near| {
            unknown.push((path.to_vec(), near.map(str::to_owned)));
        });
        for (path, near) in unknown {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let is_option = match path.as_slice() {
                // Keys that are not an agent's own are handed to the model.
                ["agent", name, key] => {
                    let place = known_keys::keys().below("agent").and_then(|agents| agents.below(name));
                    !is_near(key, near.as_deref()) && place.is_none_or(|it| it.elsewhere(key).is_none())
                }
                // Packages and providers have options and fields of their own.
                ["provider", _, "options", .., key] | ["provider", _, "models", _, .., key] => {
                    near.as_deref().is_none_or(|near| nearest(key, std::iter::once(near)).is_none())
                }
                // Said where it is looked at.
                ["windlass", "sandbox", ..] => true,
                _ => false,
            };
            if is_option {
                continue;
            }
            let known = match &near {
                Some(near) => format!("; did you mean `{near}`?"),
                None => String::new(),
            };
            let message = match path.first() {
                Some(&("agent" | "provider")) if path.len() > 2 => format!("is not a known key{known}"),
                _ => format!("is not a known key and is ignored{known}"),
            };
            self.warn(&path, message);
        }
    }

    /// Takes lists out of the places of objects: serde would take their elements for fields in order.
    fn lists_for_objects(&mut self, value: &mut Map<String, Value>) {
        let mut paths = Vec::new();
        known_keys::keys().lists_for_objects(value, &mut Vec::new(), &mut |path| paths.push(path.to_vec()));
        // The last elements of a list first, so that the others keep their places.
        let mut removed = Vec::new();
        for path in paths.iter().rev() {
            let keys: Vec<&str> = path.iter().map(String::as_str).collect();
            self.warn(&keys, "a list cannot be used; expected an object".to_owned());
            let Some((last, above)) = path.split_last() else { continue };
            let place = layer::pointer(above.iter().map(String::as_str).collect::<Vec<_>>().as_slice());
            let mut whole = Value::Object(std::mem::take(value));
            match (whole.pointer_mut(&place), last.parse::<usize>()) {
                (Some(Value::Object(owner)), _) => {
                    owner.shift_remove(last);
                }
                (Some(Value::Array(list)), Ok(idx)) => {
                    list.remove(idx);
                    removed.push((above.to_vec(), idx));
                }
                (Some(_) | None, _) => {}
            }
            if let Value::Object(whole) = whole {
                *value = whole;
            }
        }
        self.removed.extend(removed.into_iter().rev());
    }

    fn elements(
        &mut self,
        path: &[&str],
        elements: &mut Vec<Value>,
        check: impl Fn(&Value) -> Result<(), String>,
    ) {
        let mut next_idx = 0;
        elements.retain(|element| {
            let idx = next_idx;
            next_idx += 1;
            let Err(message) = check(element) else { return true };
            self.warn(&[path, &[idx.to_string().as_str()]].concat(), message);
            self.removed.push((path.iter().map(|&key| key.to_owned()).collect(), idx));
            false
        });
    }

    fn entries(
        &mut self,
        key: &str,
        value: &mut Value,
        check: impl Fn(&mut Self, &[&str], &mut Value) -> bool,
    ) -> bool {
        let Value::Object(entries) = value else {
            self.warn(&[key], format!("`{key}` is not an object"));
            return false;
        };
        entries.retain(|name, entry| !entry.is_null() && check(self, &[key, name], entry));
        true
    }

    fn agent(&mut self, path: &[&str], value: &mut Value) -> bool {
        if let Some(permission) = value.get_mut("permission").filter(|permission| !permission.is_null()) {
            self.permission(&[path, &["permission"]].concat(), permission);
        }
        self.prune::<AgentConfig>(path, value)
    }

    fn permission(&mut self, path: &[&str], value: &mut Value) {
        drop_unsaid(value);
        let (_, problems) = read_rules(value, Path::new(""));
        for problem in problems {
            let keys: Vec<&str> =
                path.iter().copied().chain(problem.path.iter().map(String::as_str)).collect();
            self.warn(&keys, format!("{}; `ask` is used", problem.message));
            let place = problem.path.iter().try_fold(&mut *value, |value, key| value.get_mut(key));
            if let Some(place) = place {
                *place = Value::from("ask");
            }
        }
        let Value::Object(permissions) = value else {
            *value = Value::Object(Map::from_iter([("*".to_owned(), value.take())]));
            return;
        };
        let covering =
            |keys: &Map<String, Value>| keys.keys().position(|key| key == "*").filter(|&at| at > 0);
        let message =
            "stands behind others and decides for them too, because the last match decides; put it first";
        if covering(permissions).is_some() {
            self.note(&[path, &["*"]].concat(), message);
        }
        for (permission, patterns) in permissions.iter() {
            if patterns.as_object().and_then(covering).is_some() {
                self.note(&[path, &[permission, "*"]].concat(), message);
            }
        }
    }

    /// Checks a server field by field; keys missing from an entry without `type`, which changes an
    /// inherited one, are found after merging. False when nothing usable is left.
    fn mcp(&mut self, path: &[&str], value: &mut Value) -> bool {
        let Value::Object(entry) = value else {
            self.warn(
                path,
                format!("{} is not a server; expected an object with `type`", brief(path, value)),
            );
            return false;
        };
        let keys = known_keys::keys().below("mcp").and_then(|servers| servers.below(""));
        let whole = [json!({"type": "local", "command": []}), json!({"type": "remote", "url": ""})];
        let kind = entry.get("type").filter(|kind| !kind.is_null()).cloned();
        let of_kind = |it: &&Value| kind.as_ref().is_none_or(|kind| it.get("type") == Some(kind));
        let whole: Vec<&Value> = whole.iter().filter(of_kind).collect();
        if let (Some(kind), true) = (&kind, whole.is_empty()) {
            let message = format!(
                "{} is not a kind of server; write \"local\" or \"remote\"; the server is left out",
                brief(&[path, &["type"]].concat(), kind)
            );
            self.warn(&[path, &["type"]].concat(), message);
            return false;
        }
        let mut is_usable = true;
        entry.retain(|key, field| {
            if field.is_null() {
                return true;
            }
            // Without `type` a key tells its kind, or a kind that does not have it would take anything for it.
            let only = keys.and_then(|keys| keys.below(key)?.kind.as_deref());
            let has_key = |it: &&&Value| only.is_none_or(|kind| it["type"] == kind);
            let narrowed: Vec<&Value> = whole.iter().filter(has_key).copied().collect();
            let whole = if narrowed.is_empty() { &whole } else { &narrowed };
            let decodes = |field: &Value| {
                let with_field = |whole: &&Value| {
                    let mut server = (*whole).clone();
                    server[key.as_str()] = without_nulls(field);
                    McpConfig::deserialize(server).map(drop).map_err(|err| err.to_string())
                };
                let tried: Vec<Result<(), String>> = whole.iter().map(with_field).collect();
                if tried.iter().any(Result::is_ok) { Ok(()) } else { tried.into_iter().collect() }
            };
            let place = [path, &[key.as_str()]].concat();
            if let (Some(kind), Some(only)) =
                (&kind, only.filter(|only| kind.as_ref().is_some_and(|it| it != only)))
            {
                self.warn(&place, format!("is of a {only} server and is ignored for one that is {kind}"));
                return false;
            }
            let message = match (decodes(field), key.as_str()) {
                (Err(message), _) => plain(&secrets::mask_message(&place, field, &message)),
                (Ok(()), "command") if field.get(0).is_none_or(|program| program == "") => {
                    "names no program; expected a program and its arguments".to_owned()
                }
                (Ok(()), "url") => {
                    let problem =
                        keys.and_then(|keys| keys.below(key)?.problem(&brief(&place, field), field));
                    let Some(problem) = problem else { return true };
                    problem
                }
                (Ok(()), _) => return true,
            };
            let culprit = culprit(field, &decodes);
            let mut message = message;
            if matches!(key.as_str(), "command" | "url") && kind.is_some() {
                is_usable = false;
                message.push_str("; the server is left out");
            }
            if !culprit.is_empty() {
                message.push_str(&format!("; all of `{key}` is ignored"));
            }
            let below = culprit.iter().map(String::as_str);
            self.warn(&place.iter().copied().chain(below).collect::<Vec<_>>(), message);
            false
        });
        let of_kind =
            |it: &Keys| it.is_required && it.kind.as_deref() == kind.as_ref().and_then(Value::as_str);
        let required = keys.into_iter().flat_map(Keys::known).filter(|(_, keys)| of_kind(keys));
        let mut missing = required.filter(|(key, _)| entry.get(*key).is_none_or(Value::is_null));
        if let Some((missing, _)) = missing.next().filter(|_| is_usable) {
            self.warn(path, format!("has no `{missing}`; the server is left out"));
            return false;
        }
        is_usable
    }

    fn provider(&mut self, path: &[&str], value: &mut Value) -> bool {
        if let Some(options) = value.get_mut("options").and_then(Value::as_object_mut) {
            let is_limit = |limit: &Value| limit.is_null() || limit.is_u64() || *limit == Value::Bool(false);
            for key in ["timeout", "headerTimeout", "chunkTimeout"] {
                let Some(limit) = options.get(key).filter(|limit| !is_limit(limit)).cloned() else {
                    continue;
                };
                let path = [path, &["options", key]].concat();
                let message = format!("{} is ignored; expected milliseconds or false", brief(&path, &limit));
                self.warn(&path, message);
                options.shift_remove(key);
            }
        }
        self.prune::<ProviderConfig>(path, value)
    }

    /// Checks a key that needs no more than its type.
    fn field(&mut self, key: &str, value: &mut Value) -> bool {
        let decodes = |candidate: &Value| {
            let file = Value::Object(Map::from_iter([(key.to_owned(), without_nulls(candidate))]));
            ConfigFile::deserialize(&file).map(drop).map_err(|err| err.to_string())
        };
        match value {
            Value::Array(_) if decodes(&Value::Object(Map::new())).is_ok() => {
                self.warn(&[key], "a list cannot be used; expected an object".to_owned());
                return false;
            }
            Value::Array(elements) if decodes(&Value::Array(Vec::new())).is_ok() => {
                self.elements(&[key], elements, |element| {
                    let problem = decodes(&Value::Array(vec![element.clone()]));
                    problem.map_err(|message| plain(&secrets::mask_message(&[key], element, &message)))
                });
                return true;
            }
            Value::Object(windlass) if key == "windlass" => {
                if let Some(sandbox) = windlass.get_mut("sandbox") {
                    self.sandbox(&[key, "sandbox"], sandbox);
                }
            }
            _ => {}
        }
        self.prune_by(&[key], value, &decodes)
    }

    /// Removes the parts of `value` that do not decode as `T`; false when nothing usable is left.
    fn prune<T: DeserializeOwned>(&mut self, path: &[&str], value: &mut Value) -> bool {
        let decodes = |candidate: &Value| {
            T::deserialize(without_nulls(candidate)).map(drop).map_err(|err| err.to_string())
        };
        // Serde takes a list for a struct's fields in order.
        if value.is_array() && decodes(&Value::Object(Map::new())).is_ok() {
            self.warn(path, "a list cannot be used; expected an object".to_owned());
            return false;
        }
        self.prune_by(path, value, &decodes)
    }

    fn prune_by(
        &mut self,
        path: &[&str],
        value: &mut Value,
        decodes: &dyn Fn(&Value) -> Result<(), String>,
    ) -> bool {
        let Err(message) = decodes(value) else { return true };
        let can_lose_keys = decodes(&Value::Object(Map::new())).is_ok();
        if !can_lose_keys || !value.is_object() {
            let culprit = culprit(value, decodes);
            let place: Vec<&str> = path.iter().copied().chain(culprit.iter().map(String::as_str)).collect();
            let rest = if culprit.is_empty() { "" } else { "; all of it is left out" };
            self.warn(&place, format!("{}{rest}", plain(&secrets::mask_message(path, value, &message))));
            return false;
        }
        let Value::Object(object) = value else { return false };
        object.retain(|key, part| {
            // `null` says nothing, and some types have no word for that.
            if part.is_null() {
                return false;
            }
            let decodes_part = |candidate: &Value| {
                decodes(&Value::Object(Map::from_iter([(key.clone(), candidate.clone())])))
            };
            self.prune_by(&[path, &[key]].concat(), part, &decodes_part)
        });
        let Err(message) = decodes(value) else { return true };
        self.warn(path, plain(&secrets::mask_message(path, value, &message)));
        false
    }
}

/// Takes out of a permission the parts that say nothing: `null`, and objects that hold nothing else.
///
/// Left as an empty object it would displace the action that a weaker source gives.
fn drop_unsaid(permission: &mut Value) {
    let Value::Object(permissions) = permission else { return };
    permissions.retain(|_, actions| match actions {
        Value::Object(patterns) if !patterns.is_empty() => {
            patterns.retain(|_, action| !action.is_null());
            !patterns.is_empty()
        }
        actions => !actions.is_null(),
    });
}

/// Returns the path, below a value that does not decode, of the part that is at fault; empty when no single part is.
fn culprit(value: &Value, decodes: &dyn Fn(&Value) -> Result<(), String>) -> Vec<String> {
    let Value::Object(object) = value else { return Vec::new() };
    let stand_ins = [Value::Array(Vec::new()), Value::from(""), Value::Object(Map::new()), Value::Null];
    for (key, part) in object {
        let with = |part: &Value| {
            let mut other = object.clone();
            other.insert(key.clone(), part.clone());
            Value::Object(other)
        };
        if !stand_ins.iter().any(|stand_in| decodes(&with(stand_in)).is_ok()) {
            continue;
        }
        let below = culprit(part, &|candidate| decodes(&with(candidate)));
        return std::iter::once(key.clone()).chain(below).collect();
    }
    Vec::new()
}

/// Returns true if a key is a typing error of another rather than a word of its own.
fn is_near(key: &str, near: Option<&str>) -> bool {
    near.is_some_and(|near| distance(key, near) <= if near.len() > 5 { 2 } else { 1 })
}

fn brief(path: &[&str], value: &Value) -> String {
    cut(&secrets::mask(path, value).to_string(), 60)
}
