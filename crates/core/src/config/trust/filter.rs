//! Tells which parts of a project's file only speak or restrict, and holds back the rest.

use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::{
    permission::Action,
    settings::{SandboxAtStart, SandboxSettings},
};

use super::{Gate, quoted, scripts};
use crate::config::{
    layer::Layer,
    limits::{Kind, Limit, Tool},
    market::BUILT_IN,
    merge::{merge, merged, plugin_name},
    sandbox,
};

/// Keys that start, send and allow nothing.
const SPEAKING: [&str; 10] = [
    "$schema",
    "autoupdate",
    "compaction",
    "layout",
    "logLevel",
    "model",
    "small_model",
    "tool_output",
    "username",
    "watcher",
];
/// Keys of an agent that say no more.
const SPEAKING_OF_AGENT: [&str; 16] = [
    "color",
    "description",
    "disable",
    "hidden",
    "maxSteps",
    "mode",
    "model",
    "name",
    "prompt",
    "reasoningEffort",
    "steps",
    "temperature",
    "textVerbosity",
    "title",
    "top_p",
    "variant",
];
/// The beginning of a shell line in a command's template.
const SHELL_LINE: &str = "!`";

/// The words for programs that are on when nothing else is said.
const PROGRAMS: &str = "those that are installed; they run programs, plugins and build files of the project";

/// The owner of rules: an agent by its name, or none for the whole configuration.
type Owner<'a> = Option<&'a str>;

impl Gate {
    /// Takes out of a project's source the parts that do not act yet; `before` are the weaker layers, and `written` is
    /// the source with its `{env:…}`, where it has such. Restrictions hold in any case.
    pub fn hold_back(&mut self, layer: &mut Layer, written: Option<Map<String, Value>>, before: &[Layer]) {
        if self.is_open() {
            return;
        }
        self.written = written;
        let value = std::mem::take(&mut layer.value);
        let mut kept = Map::new();
        for (key, value) in value {
            if let Some(value) = self.key(layer, before, &key, value) {
                kept.insert(key, value);
            }
        }
        layer.value = kept;
    }

    fn key(&mut self, layer: &mut Layer, before: &[Layer], key: &str, value: Value) -> Option<Value> {
        let path = [key];
        match key {
            key if SPEAKING.contains(&key) && self.is_own(&path, &value) => Some(value),
            "permission" | "tools" => self.rules(layer, None, key, value),
            "agent" => Some(self.agents(layer, before, value)),
            "share" if value == "disabled" => Some(value),
            "autoshare" | "lsp" | "formatter" if value == Value::Bool(false) => Some(value),
            // They take the place of the weaker layers' lists.
            "enabled_providers" | "disabled_providers"
                if before.iter().all(|it| it.value.get(key).is_none()) =>
            {
                Some(value)
            }
            "instructions" | "plugin" => self.list(layer, key, value),
            "windlass" => {
                let at_start = self.at_start;
                let is_tightening = |key: &str, value: &Value| match key {
                    "sandbox" => is_no_wider(before, value, at_start),
                    "file_time" => *value == Value::Bool(true),
                    _ => false,
                };
                self.entries(layer, &path, value, is_tightening)
            }
            "mcp" => Some(self.servers(layer, value)),
            "command" => self.entries(layer, &path, value, |_, it| {
                let template = it.get("template").and_then(Value::as_str).unwrap_or_default();
                // Another agent may have other rules.
                !template.contains(SHELL_LINE) && it.get("agent").is_none()
            }),
            _ if value.is_object() => self.entries(layer, &path, value, |_, _| false),
            _ => self.admits_value(layer, &path, &value).then_some(value),
        }
    }

    /// Holds entries of an object back, each by itself.
    fn entries(
        &mut self,
        layer: &Layer,
        path: &[&str],
        value: Value,
        is_harmless: impl Fn(&str, &Value) -> bool,
    ) -> Option<Value> {
        let Value::Object(entries) = value else {
            return self.admits_value(layer, path, &value).then_some(value);
        };
        let is_kept = |gate: &mut Self, key: &str, value: &Value| {
            // An entry of nothing would still be one.
            let path = [path, &[key]].concat();
            !value.is_null()
                && (is_harmless(key, value) && gate.is_own(&path, value)
                    || gate.admits_value(layer, &path, value))
        };
        let kept: Map<String, Value> =
            entries.into_iter().filter(|(key, value)| is_kept(self, key, value)).collect();
        (!kept.is_empty()).then_some(Value::Object(kept))
    }

    /// Holds MCP servers back. One that is switched off is so in any case.
    fn servers(&mut self, layer: &Layer, servers: Value) -> Value {
        let is_off = |(_, server): &(&String, &Value)| server.get("enabled") == Some(&Value::Bool(false));
        let off = servers.as_object().into_iter().flatten().filter(is_off);
        let off: Vec<String> = off.map(|(name, _)| name.clone()).collect();
        let mut kept = match self.entries(layer, &["mcp"], servers, |_, _| false) {
            Some(Value::Object(kept)) => kept,
            Some(_) | None => Map::new(),
        };
        for name in off {
            kept.entry(name).or_insert_with(|| json!({"enabled": false}));
        }
        Value::Object(kept)
    }

    /// Holds elements of `instructions` and `plugin` back.
    fn list(&mut self, layer: &Layer, key: &str, value: Value) -> Option<Value> {
        let Value::Array(list) = value else {
            return self.admits_value(layer, &[key], &value).then_some(value);
        };
        let is_own = self.is_own(&[key], &Value::Array(list.clone()));
        let is_kept = |gate: &mut Self, idx: usize, value: &Value| {
            let is_here = |pattern: &str| is_beneath(pattern) && gate.is_within(&layer.base.join(pattern));
            let is_local = is_own && key == "instructions" && value.as_str().is_some_and(is_here);
            is_local || gate.admits_element(layer, key, (idx, value))
        };
        let kept = list.into_iter().enumerate().filter(|(idx, value)| is_kept(self, *idx, value));
        Some(Value::Array(kept.map(|(_, value)| value).collect()))
    }

    fn agents(&mut self, layer: &mut Layer, before: &[Layer], value: Value) -> Value {
        let Value::Object(agents) = value else { return value };
        let has =
            |layer: &Layer, name: &str| layer.value.get("agent").is_some_and(|it| it.get(name).is_some());
        let mut kept = Map::new();
        for (name, agent) in agents {
            // A name is shown to models, so it is the project's own.
            let is_named = self.is_named(&["agent", &name]);
            let Value::Object(agent) = agent else {
                kept.extend(is_named.then_some((name, agent)));
                continue;
            };
            let mut own = Map::new();
            for (key, value) in agent {
                // Without one of the user's agents, prompts go to another, with other rules.
                let is_users = || BUILT_IN.contains(&name.as_str()) || before.iter().any(|it| has(it, &name));
                let value = match key.as_str() {
                    "permission" | "tools" => self.rules(layer, Some(&name), &key, value),
                    "mode" | "disable" | "hidden" if is_users() => {
                        self.admits_value(layer, &["agent", &name, &key], &value).then_some(value)
                    }
                    key if SPEAKING_OF_AGENT.contains(&key)
                        && self.is_own(&["agent", &name, key], &value) =>
                    {
                        Some(value)
                    }
                    // Options are a part of the request, in which a provider may find addresses and tools.
                    _ => self.admits_value(layer, &["agent", &name, &key], &value).then_some(value),
                };
                own.extend(value.map(|value| (key, value)));
            }
            kept.extend((is_named || !own.is_empty()).then_some((name, Value::Object(own))));
        }
        Value::Object(kept)
    }

    /// Lets rules restrict. Where they allow something they are an entry, and replace others only once that acts.
    fn rules(&mut self, layer: &mut Layer, owner: Owner<'_>, key: &str, value: Value) -> Option<Value> {
        let path: Vec<&str> = owner.map(|name| ["agent", name]).into_iter().flatten().chain([key]).collect();
        if allows(&value) && self.admits_value(layer, &path, &value) {
            return Some(value);
        }
        // Models read the rules that deny them something. Where nothing is left as it is written, everything asks.
        let value = match self.is_own(&path, &value) {
            true => value,
            false => self.as_written(&path).cloned().unwrap_or_else(|| json!("ask")),
        };
        let kind = match value {
            Value::Object(switches) if key == "tools" => {
                let off = switches.iter().filter(|(_, is_on)| **is_on == Value::Bool(false));
                Kind::Restricted(Action::Deny, off.filter_map(|(name, _)| Tool::parse(name)).collect())
            }
            Value::Object(permission) => Kind::Stricter(permission),
            action => Kind::Stricter(Map::from_iter([("*".to_owned(), action)])),
        };
        layer.limits.push(Limit { agent: owner.map(str::to_owned), kind });
        None
    }

    /// Returns true if a value is the project's own text: nothing in it is a variable's, or a file's from elsewhere.
    fn is_own(&self, path: &[&str], value: &Value) -> bool {
        self.written.is_none() || self.as_written(path) == Some(value)
    }

    fn as_written(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.written.as_ref()?.get(*first)?, |value, key| match value {
            Value::Array(list) => list.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })
    }

    fn admits_value(&mut self, layer: &Layer, path: &[&str], value: &Value) -> bool {
        // People read the text that stands in the file, and it stays the same when a variable changes.
        if self.is_named(path) {
            let written = self.as_written(path).unwrap_or(value).clone();
            return self.admits_written(layer, path, &written, &[]);
        }
        // Its name or its form is a variable's, which is nobody's to read.
        let named = (1..path.len()).rev().map(|n_known| &path[..n_known]).find(|it| self.is_named(it));
        let what = format!("`{}`", named.unwrap_or_default().join("."));
        let shown = "what variables say there".to_owned();
        let place = format!("{} {}", self.place(Path::new(&layer.source)), path.join("\0"));
        self.admits(what, shown, &place, value.to_string().as_bytes())
    }

    /// Returns true if a source has a path as it is written.
    fn is_named(&self, path: &[&str]) -> bool {
        self.written.is_none() || self.as_written(path).is_some()
    }

    fn admits_element(&mut self, layer: &Layer, key: &str, (idx, value): (usize, &Value)) -> bool {
        let written = self.as_written(&[key, &idx.to_string()]).unwrap_or(value).clone();
        let spec = value.as_str().or_else(|| value.get(0)?.as_str()).filter(|_| key == "plugin");
        match spec.map_or(Some(Vec::new()), |spec| scripts::of_plugin(&self.home, &layer.base, spec)) {
            Some(files) => self.admits_written(layer, &[key], &written, &files),
            None => {
                let (what, shown) = words(&[key], &written);
                self.holds_all(what, &shown)
            }
        }
    }

    fn admits_written(&mut self, layer: &Layer, path: &[&str], written: &Value, files: &[u8]) -> bool {
        let file = self.place(Path::new(&layer.source));
        let (what, shown) = words(path, written);
        let content = [written.to_string().as_bytes(), files].concat();
        self.admits(what, shown, &format!("{file} {}", path.join("\0")), &content)
    }
}

/// Returns true if rules allow something.
fn allows(value: &Value) -> bool {
    match value {
        Value::String(action) => action == "allow",
        Value::Bool(is_on) => *is_on,
        Value::Object(inner) => inner.values().any(allows),
        Value::Null | Value::Number(_) | Value::Array(_) => false,
    }
}

/// Returns true for a path below the directory of the file that names it.
fn is_beneath(pattern: &str) -> bool {
    let is_url = pattern.contains("://");
    !is_url && !pattern.starts_with(['/', '~']) && !pattern.split('/').any(|part| part == "..")
}

/// Returns true if a sandbox leaves no agent and no server more than the weaker layers do.
fn is_no_wider(before: &[Layer], own: &Value, at_start: SandboxAtStart) -> bool {
    let decoded = |value: &Value| SandboxSettings::deserialize(value).ok();
    let below = merged(before.iter());
    let below = below.get("windlass").and_then(|it| it.get("sandbox")).cloned().unwrap_or_else(|| json!({}));
    let mut whole = Map::from_iter([("sandbox".to_owned(), below.clone())]);
    merge(&mut whole, &Map::from_iter([("sandbox".to_owned(), own.clone())]));
    let (Some(mut before), Some(mut after)) = (decoded(&below), whole.get("sandbox").and_then(decoded))
    else {
        return false;
    };
    // Where a sandbox is the usual thing, as for `run --auto`, switching it off is wider.
    (before.at_start, after.at_start) = (at_start, at_start);
    let named = before.agents.keys().chain(after.agents.keys()).map(String::as_str);
    let mut agents = named.chain(["build", "plan"]);
    let is_wider = |old: sandbox::Wanted, new: sandbox::Wanted| !new.wider_than(&old).is_empty();
    let servers = [(&before.mcp, &after.mcp), (&before.lsp, &after.lsp), (&before.plugins, &after.plugins)];
    !agents.any(|name| is_wider(sandbox::wanted(&before, name), sandbox::wanted(&after, name)))
        && !servers
            .into_iter()
            .any(|(old, new)| is_wider(sandbox::wanted_of_servers(old), sandbox::wanted_of_servers(new)))
}

/// Returns the words for an entry, and all that it says for people.
fn words(path: &[&str], value: &Value) -> (String, String) {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    // No value in a project's file is the user's, and stars would hide the values that a yes is about.
    let all = Value::to_string;
    // The keys beside the command act as well: a variable may name a file to load.
    let program = || {
        let words = value.get("command")?.as_array()?.iter().filter_map(Value::as_str).collect::<Vec<_>>();
        let command = words.into_iter().map(quoted).collect::<Vec<_>>().join(" ");
        let is_shown = |key: &str| matches!(key, "command" | "type" | "enabled");
        let mut rest = value.as_object()?.clone();
        rest.retain(|key, _| !is_shown(key));
        Some(if rest.is_empty() { command } else { format!("{command} with {}", Value::Object(rest)) })
    };
    match path {
        ["mcp", name] => (format!("MCP server {name}"), program().unwrap_or_else(|| all(value))),
        ["plugin"] => {
            let (name, options) = (plugin_name(value), value.get(1).map(all).unwrap_or_default());
            let spec = value.as_str().or_else(|| value.get(0)?.as_str()).unwrap_or_default();
            let spec = if spec == name { String::new() } else { spec.to_owned() };
            (format!("plugin {name}"), [spec, options].join(" ").trim().to_owned())
        }
        ["lsp", name] => (format!("language server {name}"), program().unwrap_or_else(|| all(value))),
        ["formatter", name] => (format!("formatter {name}"), program().unwrap_or_else(|| all(value))),
        ["lsp"] => ("language servers".to_owned(), PROGRAMS.to_owned()),
        ["formatter"] => ("formatters".to_owned(), PROGRAMS.to_owned()),
        ["provider", name] => (format!("provider {name}"), all(value)),
        ["command", name] => {
            let template = text("template").unwrap_or_default();
            let agent = text("agent").map(|agent| format!(" (agent {agent})")).unwrap_or_default();
            (format!("command /{name}{agent}"), template.to_owned())
        }
        ["instructions"] => ("instructions".to_owned(), value.as_str().unwrap_or_default().to_owned()),
        ["agent", name, "permission" | "tools"] => (format!("rules of the agent {name}"), all(value)),
        ["agent", name, key] => (format!("`{key}` of the agent {name}"), all(value)),
        ["permission" | "tools"] => ("rules".to_owned(), all(value)),
        path => (format!("`{}`", path.join(".")), all(value)),
    }
}
