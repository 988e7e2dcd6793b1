//! Understands restrictions of tools, agents and servers in other words than ours. Nothing of them may be dropped.

use std::path::Path;

use serde_json::{Map, Value};
use windlass_base::text::distance;
use windlass_protocol::opencode::permission::Action;

use super::Normalizer;
use crate::config::{
    known_keys,
    limits::{Kind, Limit, Tool, own_name, tools},
    market::BUILT_IN,
    rules::is_edit,
    wording::cut,
};

/// Keys that restrict, by their letters, and the letters that may be wrong in them.
const RESTRICTING: [(&str, Meaning, usize); 7] = [
    ("permission", Meaning::Permission, 2),
    ("permissionmode", Meaning::Mode, 1),
    ("tools", Meaning::Tools, 1),
    ("allowedtools", Meaning::Only, 2),
    ("disallowedtools", Meaning::Without, 2),
    // Gemini's.
    ("coretools", Meaning::Only, 1),
    ("excludetools", Meaning::Without, 1),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Permission,
    /// The way in which an agent of Claude Code is asked about.
    Mode,
    Tools,
    Only,
    Without,
    /// Its words say that it restricts something.
    Unclear,
}

/// The owner of restrictions: an agent by its name, or none for the whole configuration.
type Owner<'a> = Option<&'a str>;

impl Normalizer<'_> {
    /// Reads the restrictions of the whole configuration and of every agent, and the switches that turn
    /// something off.
    pub(super) fn restrictions(&mut self) {
        let mut value = std::mem::take(&mut self.layer.value);
        self.restrictions_of(None, &mut value);
        for (name, agent) in value.get_mut("agent").and_then(Value::as_object_mut).into_iter().flatten() {
            let Value::Object(agent) = agent else { continue };
            self.restrictions_of(Some(name), agent);
            self.switched_off(&["agent", name], agent, ("disable", true));
        }
        for (name, server) in value.get_mut("mcp").and_then(Value::as_object_mut).into_iter().flatten() {
            let Value::Object(server) = server else { continue };
            self.switched_off(&["mcp", name], server, ("enabled", false));
        }
        for key in ["enabled_providers", "disabled_providers"] {
            if let Some(name) = value.get_mut(key).filter(|said| said.is_string()) {
                let message = format!("{} is read as a list of it alone", cut(&name.to_string(), 60));
                *name = Value::Array(vec![name.take()]);
                self.warn(None, &[key], message);
            }
        }
        self.layer.value = value;
    }

    fn restrictions_of(&mut self, owner: Owner<'_>, object: &mut Map<String, Value>) {
        let keys: Vec<(String, Meaning)> =
            object.keys().filter_map(|key| Some((key.clone(), meaning(key, owner)?))).collect();
        for (key, meaning) in keys {
            let is_said = |value: &Value| !value.is_null();
            let Some(value) = object.get(&key).filter(|value| is_said(value)).cloned() else {
                if !matches!(key.as_str(), "permission" | "tools") {
                    object.shift_remove(&key);
                }
                continue;
            };
            let value = if meaning == Meaning::Permission { in_lower_case(value) } else { value };
            match meaning {
                Meaning::Permission if key == "permission" => {
                    let value = self.permission(owner, &key, value);
                    object.insert(key, value);
                }
                Meaning::Permission => {
                    object.shift_remove(&key);
                    let is_rules = value.is_object() || is_action(&value);
                    if !is_rules || object.get("permission").is_some_and(is_said) {
                        self.unread(owner, &[&key], "is not understood; use `permission`");
                        continue;
                    }
                    self.warn(owner, &[&key], "is read as `permission`".to_owned());
                    self.layer.move_places(&path(owner, &[&key]), &path(owner, &["permission"]));
                    let value = self.permission(owner, "permission", value);
                    object.insert("permission".to_owned(), value);
                }
                Meaning::Mode => {
                    object.shift_remove(&key);
                    if value == "plan" {
                        self.warn(
                            owner,
                            &[&key],
                            "is read as `permission` with `\"edit\": \"deny\"`".to_owned(),
                        );
                        self.limit(
                            owner,
                            Kind::Restricted(Action::Deny, Tool::parse("edit").into_iter().collect()),
                        );
                    } else {
                        self.warn(owner, &[&key], "has no effect; use `permission`".to_owned());
                    }
                }
                Meaning::Tools if value.is_object() && (key == "tools" || !object.contains_key("tools")) => {
                    object.shift_remove(&key);
                    self.note(&path(owner, &[&key]), "is deprecated; write `permission`");
                    self.layer.move_places(&path(owner, &[&key]), &path(owner, &["tools"]));
                    let switches = self.tool_switches(owner, value);
                    object.insert("tools".to_owned(), switches);
                }
                Meaning::Unclear => {
                    object.shift_remove(&key);
                    if !matches!(value, Value::Bool(false)) {
                        self.unread(owner, &[&key], "is not understood; use `permission`");
                    }
                }
                Meaning::Tools | Meaning::Only | Meaning::Without => {
                    object.shift_remove(&key);
                    match tools(&value).map_err(|odd| cut(&odd, 60)) {
                        Ok(tools) if meaning == Meaning::Without => {
                            self.note(&path(owner, &[&key]), "denies these tools; write `permission`");
                            self.limit(owner, Kind::Restricted(Action::Deny, tools));
                        }
                        Ok(tools) => {
                            let message =
                                "allows no other tools; rules for these are written in `permission`";
                            if meaning == Meaning::Only {
                                self.warn(owner, &[&key], message.to_owned());
                            } else {
                                self.note(&path(owner, &[&key]), message);
                            }
                            self.limit(owner, Kind::Only(tools));
                        }
                        Err(odd) => {
                            let problem = format!("{odd} is not a list of tools; use `permission`");
                            self.unread(owner, &[&key], &problem);
                        }
                    }
                }
            }
        }
    }

    /// Reads the names of a permission as ours, and lists of tools by action as Claude Code's settings have them.
    fn permission(&mut self, owner: Owner<'_>, key: &str, value: Value) -> Value {
        let Value::Object(said) = value else {
            if !is_action(&value) {
                // The check says so. The rules of other sources must not lift the restriction that was meant.
                self.limit(owner, Kind::Ask);
            }
            return value;
        };
        let said: Map<String, Value> = said.into_iter().filter(|(_, actions)| !actions.is_null()).collect();
        let n_keys = |wanted: &str| said.keys().filter(|name| target(name) == wanted).count();
        let mut permission = Map::new();
        for (name, actions) in &said {
            let action = match name.to_lowercase().as_str() {
                "deny" => Some(Action::Deny),
                "ask" => Some(Action::Ask),
                _ => None,
            };
            if let Some(action) = action.filter(|_| !is_action(actions)) {
                match tools(actions) {
                    Ok(tools) => {
                        let outcome = if action == Action::Deny {
                            "denies these tools"
                        } else {
                            "asks about these tools"
                        };
                        self.note(&path(owner, &[key, name]), outcome);
                        self.limit(owner, Kind::Restricted(action, tools));
                    }
                    Err(odd) => self.unread(owner, &[key, name], &format!("{} is not a tool", cut(&odd, 60))),
                }
                continue;
            }
            if name.contains('(') {
                match (Tool::parse(name), actions.as_str()) {
                    (Some(tool), Some("allow")) => {
                        for rule in tool.rules(Action::Allow, Path::new("~")) {
                            let patterns = Value::from_iter([(rule.pattern, actions.clone())]);
                            put(&mut permission, rule.permission, patterns);
                        }
                    }
                    (Some(tool), Some("ask")) => self.limit(owner, Kind::Restricted(Action::Ask, vec![tool])),
                    (Some(tool), _) if is_action(actions) => {
                        self.limit(owner, Kind::Restricted(Action::Deny, vec![tool]));
                    }
                    _ => self.unread(owner, &[key, name], "is not understood"),
                }
                continue;
            }
            let meant = target(name);
            // Another name of `edit` loosens nothing; the check says that it has no effect.
            let has_effect = meant == own_name(name) || !allows(actions);
            if meant == *name || !has_effect {
                put(&mut permission, name.clone(), actions.clone());
                continue;
            }
            let message = match own_name(name) {
                own if own == meant => format!("is read as `{own}`"),
                own => format!("is read as `{meant}`, which the tool `{own}` asks for"),
            };
            self.note(&path(owner, &[key, name]), &message);
            if n_keys(&meant) > 1 {
                // No order of the keys decides between two names of one tool: the stricter holds.
                self.limit(owner, Kind::Stricter(Map::from_iter([(meant, actions.clone())])));
            } else {
                self.layer.move_places(&path(owner, &[key, name]), &path(owner, &[key, &meant]));
                put(&mut permission, meant, actions.clone());
            }
        }
        Value::Object(permission)
    }

    /// Reads a deprecated object of tools as true and false.
    fn tool_switches(&mut self, owner: Owner<'_>, value: Value) -> Value {
        let Value::Object(said) = value else { return value };
        let mut switches = Map::new();
        for (name, value) in said.into_iter().filter(|(_, value)| !value.is_null()) {
            let place = ["tools", name.as_str()];
            if value.is_array() {
                self.unread(owner, &place, "is a list where true or false is expected; use `permission`");
                continue;
            }
            let is_enabled = switch(&value).unwrap_or(false);
            if !value.is_boolean() {
                let shown = cut(&value.to_string(), 60);
                self.warn(owner, &place, format!("{shown} is read as {is_enabled}; expected true or false"));
            }
            let own = match name.split_once('(') {
                Some(_) if is_enabled => {
                    self.warn(owner, &place, "is ignored; write `permission`".to_owned());
                    continue;
                }
                Some((tool, _)) => {
                    self.warn(owner, &place, "is denied as a whole; write `permission`".to_owned());
                    own_name(tool.trim()).into_owned()
                }
                None if name == "all" => "*".to_owned(),
                None => own_name(&name).into_owned(),
            };
            self.layer.move_places(&path(owner, &place), &path(owner, &["tools", &own]));
            // Of two spellings of one name the stricter holds.
            let was_off = switches.shift_remove(&own) == Some(Value::Bool(false));
            switches.insert(own, Value::from(is_enabled && !was_off));
        }
        Value::Object(switches)
    }

    /// Reads a switch that turns an entry off, also in the words `enabled` and `disabled`; a value that is
    /// neither true nor false turns it off.
    fn switched_off(&mut self, place: &[&str], entry: &mut Map<String, Value>, (key, off): (&str, bool)) {
        for (word, is_off) in [("disable", true), ("disabled", true), ("enabled", false)] {
            let Some(value) = entry.get(word).filter(|value| !value.is_null()).cloned() else {
                if word != key {
                    entry.shift_remove(word);
                }
                continue;
            };
            if word == key && value.is_boolean() {
                continue;
            }
            let path = [place, &[word]].concat();
            let said = switch(&value);
            let is_switched_off = said.is_none_or(|it| it == is_off);
            let (shown, meant) = (cut(&value.to_string(), 60), is_switched_off == off);
            let message = format!("{shown} is read as `{key}: {meant}`");
            if word == key || said.is_none() {
                let warning = self.layer.warning(&path, message);
                self.findings.warnings.push(warning);
            } else {
                self.note(&path, &message);
            }
            if word != key {
                entry.shift_remove(word);
            }
            if is_switched_off || word == key {
                entry.insert(key.to_owned(), Value::from(meant));
            }
        }
    }

    fn limit(&mut self, owner: Owner<'_>, kind: Kind) {
        self.layer.limits.push(Limit { agent: owner.map(str::to_owned), kind });
    }

    /// Takes a restriction that cannot be understood for the strictest that does not stop everything.
    fn unread(&mut self, owner: Owner<'_>, keys: &[&str], problem: &str) {
        self.unread_at(owner, &path(owner, keys), problem);
    }

    /// Does so for a place by its whole path.
    pub(super) fn unread_at(&mut self, owner: Option<&str>, place: &[&str], problem: &str) {
        let (kind, outcome) = match owner {
            Some(name) if !BUILT_IN.contains(&name) => (Kind::LeftOut, "the agent is left out"),
            Some(_) | None => (Kind::Ask, "everything asks until it is mended"),
        };
        let warning = self.layer.warning(place, format!("{problem}; {outcome}"));
        self.findings.warnings.push(warning);
        self.limit(owner, kind);
    }

    fn warn(&mut self, owner: Owner<'_>, keys: &[&str], message: String) {
        let warning = self.layer.warning(&path(owner, keys), message);
        self.findings.warnings.push(warning);
    }
}

fn path<'a>(owner: Owner<'a>, keys: &[&'a str]) -> Vec<&'a str> {
    owner.map(|name| ["agent", name]).into_iter().flatten().chain(keys.iter().copied()).collect()
}

/// Returns the meaning of a key that restricts, however it is spelt.
fn meaning(key: &str, owner: Owner<'_>) -> Option<Meaning> {
    let exact = RESTRICTING.iter().find(|(known, ..)| *known == key);
    let place = known_keys::keys();
    let place = if owner.is_some() { place.below("agent")?.below("")? } else { place };
    if exact.is_none() && place.known().contains_key(key) {
        return None;
    }
    let letters: String = key.chars().filter(|it| it.is_alphanumeric()).collect::<String>().to_lowercase();
    let near = RESTRICTING.iter().find(|(known, _, most)| distance(&letters, known) <= *most);
    let unclear = || is_restricting(&letters).then_some(Meaning::Unclear);
    exact.or(near).map(|(_, meaning, _)| *meaning).or_else(unclear)
}

/// Returns true for the letters of a key that speaks of tools that there are or are not, or of permissions. Options of
/// providers say how a tool is called (`tool_choice`, `disable_parallel_tool_use`).
fn is_restricting(letters: &str) -> bool {
    let has = |word: &str| letters.contains(word);
    let limits =
        ["allow", "avail", "ban", "block", "deni", "deny", "disab", "enab", "exclud", "forbid", "only"];
    has("readonly") || has("permission") || (has("tools") && limits.into_iter().any(has))
}

/// Returns a permission with its actions in lower case.
fn in_lower_case(value: Value) -> Value {
    match value {
        Value::String(text) => match text.to_lowercase() {
            lower if matches!(lower.as_str(), "allow" | "ask" | "deny") => lower.into(),
            _ => text.into(),
        },
        Value::Object(said) => said.into_iter().map(|(key, value)| (key, in_lower_case(value))).collect(),
        other => other,
    }
}

/// Returns the permission that a key of `permission` is about.
fn target(name: &str) -> String {
    match own_name(name) {
        own if is_edit(&own) => "edit".to_owned(),
        own => own.into_owned(),
    }
}

fn is_action(value: &Value) -> bool {
    *value == Value::Bool(false) || matches!(value.as_str(), Some("allow" | "ask" | "deny"))
}

/// Returns true if an action, or every action of an object, is `allow`.
fn allows(actions: &Value) -> bool {
    match actions {
        Value::Object(patterns) => patterns.values().all(|action| action == "allow"),
        action => action == "allow",
    }
}

/// Adds actions to a permission behind all others, where they decide.
fn put(permission: &mut Map<String, Value>, name: String, actions: Value) {
    let merged = match (permission.shift_remove(&name), actions) {
        (Some(Value::Object(mut patterns)), Value::Object(more)) => {
            for (pattern, action) in more {
                patterns.shift_remove(&pattern);
                patterns.insert(pattern, action);
            }
            Value::Object(patterns)
        }
        (Some(action @ Value::String(_)), Value::Object(more)) => {
            Value::Object(std::iter::once(("*".to_owned(), action)).chain(more).collect())
        }
        (_, actions) => actions,
    };
    permission.insert(name, merged);
}

/// Returns the truth of a value that people write for true or false.
fn switch(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_on) => Some(*is_on),
        Value::Number(number) => [(0, false), (1, true)]
            .into_iter()
            .find_map(|(known, is_on)| (number.as_u64() == Some(known)).then_some(is_on)),
        Value::String(word) => word.trim().to_lowercase().parse().ok(),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
