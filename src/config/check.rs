//! Checks one layer: removes what has the wrong shape, so that what a weaker layer says stays in force, and says where.

use std::{collections::BTreeMap, path::Path};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{
    config::{AgentConfig, CommandConfig, McpConfig, ProviderConfig, SkillsConfig},
    settings::Settings,
};

use super::{
    known_keys::{self, AGENT_KEYS},
    layer::{self, Layer},
    merge::without_nulls,
    model::parse_model,
    remote::{is_trusted, url_problem},
    rules::read_rules,
    schema::COLORS,
    secrets,
    warning::Findings,
    wording::{cut, plain},
};
use crate::base::text::distance;

mod sandbox;

/// Any name, in a path.
const ANY: &str = "*";

/// Keys that are understood and not acted on yet.
const WITHOUT_EFFECT: [&[&str]; 17] = [
    &["logLevel"],
    &["server"],
    &["plugin"],
    &["references"],
    &["formatter"],
    &["watcher"],
    &["share"],
    &["autoupdate"],
    &["attachment"],
    &["enterprise"],
    &["experimental", "openTelemetry"],
    &["experimental", "mcp_timeout"],
    &["experimental", "policies"],
    &["experimental", "hook"],
    &["experimental", "chatMaxRetries"],
    &["provider", ANY, "id"],
    &["mcp", ANY, "oauth"],
];

/// Keys that only one kind of MCP server has.
const KEYS_OF_SERVERS: [(&str, &[&str]); 2] =
    [("local", &["command", "cwd", "environment"]), ("remote", &["url", "headers", "oauth"])];

/// Numbers and words of an agent that decode and cannot be meant: key, what is expected, and what it is.
type AgentValue = (&'static str, &'static str, fn(&Value) -> bool);

const AGENT_VALUES: [AgentValue; 5] = [
    ("temperature", "a number from 0 to 2", |value| is_within(value, 2.0)),
    ("top_p", "a number from 0 to 1", |value| is_within(value, 1.0)),
    ("steps", "a whole number of at least 1", |value| !value.is_number() || value.as_u64() > Some(0)),
    ("color", "\"#RRGGBB\" or a name of OpenCode's such as \"accent\"", is_color),
    ("variant", "the name of a variant", |value| value.as_str().is_none_or(|name| !name.trim().is_empty())),
];

/// The most that `tool_output` may let through: what is longer fills the context of any model.
const TOOL_OUTPUT_LIMITS: [(&str, u64); 2] = [("max_lines", 1_000_000), ("max_bytes", 10_000_000)];

/// The most that an answer may hold: what is stored has to be loaded and shown in one piece.
const ANSWER_LIMITS: [(&str, u64); 1] = [("max_answer_bytes", 64 << 20)];

/// Checks a layer whose deprecated forms are gone already.
pub fn check(layer: &mut Layer, findings: &mut Findings) {
    let mut value = std::mem::take(&mut layer.value);
    let mut checker = Checker { layer, findings, removed: Vec::new() };
    if value.contains_key("permissions") {
        checker.warn(&["permissions"], "`permissions` is not understood; use `permission`".to_owned());
    }
    checker.unknown_keys(&value);
    checker.keys_without_effect(&value);
    value.retain(|key, value| match key.as_str() {
        _ if value.is_null() => true,
        "model" | "small_model" => checker.is_model(&[key], value),
        "$schema" | "default_agent" | "shell" => checker.prune::<String>(&[key], value),
        "instructions" | "disabled_providers" | "enabled_providers" => checker.strings(key, value),
        "tools" => checker.prune::<BTreeMap<String, bool>>(&[key], value),
        "permission" => {
            checker.permission(&[key], value);
            true
        }
        "provider" => checker.entries(key, value, Checker::provider),
        "agent" => checker.entries(key, value, Checker::agent),
        "command" => checker.entries(key, value, Checker::command),
        "skills" => checker.prune::<SkillsConfig>(&[key], value),
        // Every object is an agent by now.
        "mode" => {
            checker.warn(&[key], format!("`{key}` is not an object"));
            false
        }
        "mcp" => checker.entries(key, value, Checker::mcp),
        "plugin" => checker.plugins(key, value),
        // Keys that no field of the settings takes decode whatever they hold.
        _ => checker.setting(key, value),
    });
    checker.lists_for_objects(&mut value);
    checker.urls(&mut value, &["skills", "urls"], url_problem);
    checker.urls(&mut value, &["windlass", "agents", "urls"], |url| {
        url_problem(url).or((!is_trusted(url)).then_some("is neither https nor this machine"))
    });
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
        for pattern in WITHOUT_EFFECT {
            // A value that asks for less than everything gets it.
            let asks = |said: &Value| match said {
                Value::Null | Value::Bool(false) => false,
                Value::String(word) => word != "manual" && word != "disabled",
                Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
            };
            let mut found = Vec::new();
            matching(value, pattern, &mut Vec::new(), &mut found);
            for (path, _) in found.iter().filter(|(_, said)| asks(said)) {
                self.note(path, "is understood, but nothing acts on it yet");
            }
        }
    }

    /// Takes addresses that nothing can be fetched from out of a list.
    fn urls(
        &mut self,
        value: &mut Map<String, Value>,
        path: &[&str],
        problem: impl Fn(&str) -> Option<&'static str>,
    ) {
        let Some((first, rest)) = path.split_first() else { return };
        let list = rest.iter().try_fold(value.get_mut(*first), |value, key| Some(value?.get_mut(*key)));
        let Some(Some(Value::Array(list))) = list else { return };
        self.elements(path, list, |element| match element.as_str().map(|url| (url, problem(url))) {
            Some((url, Some(problem))) => Err(format!("{} {problem}; it is left out", secrets::text(url))),
            Some((_, None)) | None => Ok(()),
        });
    }

    fn unknown_keys(&mut self, value: &Map<String, Value>) {
        let mut unknown = Vec::new();
        known_keys::keys().unknown(value, &mut Vec::new(), &mut |path, near| {
            unknown.push((path.to_vec(), near.map(str::to_owned)));
        });
        for (path, near) in unknown {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let is_option = match path.as_slice() {
                ["agent", _, key] => {
                    // Keys that are not an agent's own are handed to the model.
                    AGENT_KEYS.contains(key) || !is_near(key, near.as_deref())
                }
                // Packages and providers have options and fields of their own.
                ["provider", _, "options", ..] | ["provider", _, "models", _, ..] => near.is_none(),
                // Said where it is looked at.
                ["permissions", ..] | ["windlass", "sandbox", ..] => true,
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

    fn is_model(&mut self, path: &[&str], value: &Value) -> bool {
        let is_model = value.as_str().is_some_and(|text| parse_model(text).is_some());
        if !is_model {
            self.warn(path, format!("{} is not a model; write \"provider/model\"", brief(path, value)));
        }
        is_model
    }

    fn strings(&mut self, key: &str, value: &mut Value) -> bool {
        let Value::Array(elements) = value else {
            self.warn(&[key], format!("`{key}` is not a list of strings"));
            return false;
        };
        self.elements(&[key], elements, |element| {
            if element.is_string() {
                Ok(())
            } else {
                Err(format!("{} is not a string", brief(&[key], element)))
            }
        });
        true
    }

    fn plugins(&mut self, key: &str, value: &mut Value) -> bool {
        let Value::Array(elements) = value else {
            self.warn(&[key], format!("`{key}` is not a list"));
            return false;
        };
        self.elements(&[key], elements, |element| {
            let is_spec = match element {
                Value::String(_) => true,
                Value::Array(pair) => matches!(pair.as_slice(), [Value::String(_), Value::Object(_)]),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
            };
            let expected = "expected \"package@version\" or [\"package\", {options}]";
            if is_spec {
                Ok(())
            } else {
                Err(format!("{} is not a plugin, {expected}", brief(&[key], element)))
            }
        });
        true
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
        entries.retain(|name, entry| {
            // Names of agents and commands are paths in directories of definitions.
            let problem = if matches!(key, "agent" | "command") { name_problem(name) } else { None };
            if let Some(problem) = problem {
                self.warn(&[key, name], format!("is left out: {problem}"));
                return false;
            }
            !entry.is_null() && check(self, &[key, name], entry)
        });
        true
    }

    fn agent(&mut self, path: &[&str], value: &mut Value) -> bool {
        if let Value::Object(agent) = value {
            if let Some(permission) = agent.get_mut("permission").filter(|permission| !permission.is_null()) {
                self.permission(&[path, &["permission"]].concat(), permission);
            }
            self.model_below(path, agent);
            agent.retain(|key, value| {
                let wrong = AGENT_VALUES.iter().find(|(of, _, is_right)| of == key && !is_right(value));
                // Values of another type are reported by their decoding.
                let Some((_, expected, _)) = wrong.filter(|_| value.is_number() || value.is_string()) else {
                    return true;
                };
                let path = [path, &[key.as_str()]].concat();
                self.warn(&path, format!("{} is ignored; expected {expected}", brief(&path, value)));
                false
            });
            let is_empty = |prompt: &Value| prompt.as_str().is_some_and(|text| text.trim().is_empty());
            if agent.get("prompt").is_some_and(is_empty) {
                self.warn(&[path, &["prompt"]].concat(), "is empty and counts as not given".to_owned());
                agent.shift_remove("prompt");
            }
        }
        self.prune::<AgentConfig>(path, value)
    }

    fn command(&mut self, path: &[&str], value: &mut Value) -> bool {
        if let Value::Object(command) = value {
            self.model_below(path, command);
        }
        self.prune::<CommandConfig>(path, value)
    }

    fn model_below(&mut self, path: &[&str], owner: &mut Map<String, Value>) {
        let model = owner.get("model").filter(|model| !model.is_null());
        let is_bad = model.is_some_and(|model| !self.is_model(&[path, &["model"]].concat(), model));
        if is_bad {
            owner.shift_remove("model");
        }
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

    /// Checks a server field by field; what is missing from an entry without `type`, which changes an
    /// inherited one, is found after merging. False when nothing usable is left.
    fn mcp(&mut self, path: &[&str], value: &mut Value) -> bool {
        let Value::Object(entry) = value else {
            self.warn(
                path,
                format!("{} is not a server; expected an object with `type`", brief(path, value)),
            );
            return false;
        };
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
            let only =
                KEYS_OF_SERVERS.iter().find(|(_, keys)| keys.contains(&key.as_str())).map(|(kind, _)| *kind);
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
                    let problem = field
                        .as_str()
                        .and_then(|url| Some(format!("{} {}", brief(&place, field), url_problem(url)?)));
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
        let missing = match kind.as_ref().and_then(Value::as_str) {
            Some("local") => Some("command"),
            Some("remote") => Some("url"),
            _ => None,
        };
        if let Some(missing) = missing.filter(|key| is_usable && entry.get(*key).is_none_or(Value::is_null)) {
            self.warn(path, format!("has no `{missing}`; the server is left out"));
            return false;
        }
        is_usable
    }

    /// Takes an address out that nothing can be reached by.
    fn address(&mut self, path: &[&str], owner: &mut Map<String, Value>, key: &str) {
        // A text that begins with a variable is an address once its value is there; an empty one counts as not
        // given.
        let is_known = |url: &&str| !url.is_empty() && !url.starts_with("${");
        let Some(value @ Value::String(url)) = owner.get(key) else { return };
        let Some(problem) = Some(url.as_str()).filter(is_known).and_then(url_problem) else { return };
        let path = [path, &[key]].concat();
        self.warn(&path, format!("{} {problem}; it is ignored", brief(&path, value)));
        owner.shift_remove(key);
    }

    fn provider(&mut self, path: &[&str], value: &mut Value) -> bool {
        let url = value.get("options").and_then(|options| options.get("enterpriseUrl"));
        if url.is_some_and(|url| !url.is_null()) {
            let path = [path, &["options", "enterpriseUrl"]].concat();
            self.note(&path, "is understood, but nothing acts on it yet");
        }
        if let Some(options) = value.get_mut("options").and_then(Value::as_object_mut) {
            let is_limit = |limit: &Value| limit.is_null() || limit.is_u64() || *limit == Value::Bool(false);
            if let Some(limit) = options.get("timeout").filter(|limit| !is_limit(limit)).cloned() {
                let path = [path, &["options", "timeout"]].concat();
                let message = format!("{} is ignored; expected milliseconds or false", brief(&path, &limit));
                self.warn(&path, message);
                options.shift_remove("timeout");
            }
            self.address(&[path, &["options"]].concat(), options, "baseURL");
        }
        self.prune::<ProviderConfig>(path, value)
    }

    /// Checks a key of [`Settings`].
    fn setting(&mut self, key: &str, value: &mut Value) -> bool {
        let decodes = |candidate: &Value| {
            let settings = Value::Object(Map::from_iter([(key.to_owned(), without_nulls(candidate))]));
            Settings::deserialize(&settings).map(drop).map_err(|err| err.to_string())
        };
        if value.is_array() && decodes(&Value::Object(Map::new())).is_ok() {
            self.warn(&[key], "a list cannot be used; expected an object".to_owned());
            return false;
        }
        if let (true, Value::Object(windlass)) = (key == "windlass", &mut *value) {
            self.address(&[key], windlass, "exa_url");
            self.address(&[key], windlass, "parallel_url");
            if let Some(sandbox) = windlass.get_mut("sandbox") {
                self.sandbox(&[key, "sandbox"], sandbox);
            }
        }
        let known: &[(&str, u64)] = match key {
            "tool_output" => &TOOL_OUTPUT_LIMITS,
            "windlass" => &ANSWER_LIMITS,
            _ => &[],
        };
        if let Value::Object(limits) = &mut *value {
            limits.retain(|name, limit| {
                let Some((_, most)) = known.iter().find(|(known, _)| known == name) else {
                    return true;
                };
                let is_right =
                    !limit.is_number() || limit.as_u64().is_some_and(|limit| (1..=*most).contains(&limit));
                if !is_right {
                    let shown = brief(&[key, name], limit);
                    let message = format!("{shown} is ignored; expected a whole number from 1 to {most}");
                    self.warn(&[key, name], message);
                }
                is_right
            });
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

/// Takes out of a permission what says nothing: `null`, and objects that hold nothing else.
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

fn is_within(value: &Value, most: f64) -> bool {
    value.as_f64().is_none_or(|number| (0.0..=most).contains(&number))
}

fn is_color(value: &Value) -> bool {
    let Some(color) = value.as_str() else { return true };
    let is_hex =
        |digits: &str| matches!(digits.len(), 3 | 6) && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    color.strip_prefix('#').map_or(COLORS.contains(&color), is_hex)
}

/// Visits the values at the paths of a pattern.
fn matching<'a>(
    value: &'a Map<String, Value>,
    pattern: &[&str],
    path: &mut Vec<&'a str>,
    found: &mut Vec<(Vec<&'a str>, &'a Value)>,
) {
    let Some((wanted, rest)) = pattern.split_first() else { return };
    for (key, value) in value.iter().filter(|(key, _)| *wanted == ANY || *wanted == key.as_str()) {
        path.push(key);
        match value {
            _ if rest.is_empty() => found.push((path.clone(), value)),
            Value::Object(object) => matching(object, rest, path, found),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
        }
        path.pop();
    }
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

/// Returns the reason why a name cannot be that of an agent or a command.
pub fn name_problem(name: &str) -> Option<&'static str> {
    if name.trim().is_empty() {
        return Some("its name is empty");
    }
    if name.contains(char::is_control) {
        return Some("its name has control characters");
    }
    name.split('/').find_map(|part| match part {
        "" => Some("a part of its name is empty"),
        "." => Some("a part of its name is `.`"),
        ".." => Some("a part of its name is `..`"),
        _ => None,
    })
}

/// Returns true if a key is a typing error of another rather than a word of its own.
fn is_near(key: &str, near: Option<&str>) -> bool {
    near.is_some_and(|near| distance(key, near) <= if near.len() > 5 { 2 } else { 1 })
}

fn brief(path: &[&str], value: &Value) -> String {
    cut(&secrets::mask(path, value).to_string(), 60)
}
