//! Turns deprecated and newer forms of one source into the form that is checked and decoded (facts: OpenCode §2.2).

use serde_json::{Map, Value};

use super::{layer::Layer, merge::merge, warning::Findings};

pub mod providers;
mod restrictions;
pub mod second_version;
mod spelling;

/// Keys that are OpenCode's terminal interface's own.
pub const TERMINAL_KEYS: [&str; 3] = ["theme", "keybinds", "tui"];

/// Keys by another name: the other, and ours.
pub const RENAMED: [(&str, &str); 5] = [
    ("agents", "agent"),
    ("commands", "command"),
    ("reference", "references"),
    ("snapshots", "snapshot"),
    ("media", "attachment"),
];

/// Rewrites the layer's value; places move along.
pub fn normalize(layer: &mut Layer, findings: &mut Findings) {
    layer.value.values_mut().for_each(whole_numbers);
    let mut normalizer = Normalizer { layer, findings };
    normalizer.spelling();
    for key in TERMINAL_KEYS {
        if normalizer.layer.value.shift_remove(key).is_some() {
            normalizer.note(&[key], "is of OpenCode's terminal interface and has no effect here");
        }
    }
    if normalizer.layer.value.contains_key("layout") {
        normalizer.note(&["layout"], "is deprecated and has no effect");
    }
    normalizer.modes();
    RENAMED.iter().for_each(|(from, to)| normalizer.rename(from, to));
    normalizer.time_limits();
    normalizer.servers();
    normalizer.second_version();
    normalizer.compaction();
    normalizer.share();
    normalizer.steps();
    normalizer.restrictions();
}

/// Takes `5.0` for the whole number that it is, as JavaScript and JSON schemas do.
fn whole_numbers(value: &mut Value) {
    /// Beyond it not every whole number has a float.
    const MOST: f64 = (1_u64 << 53) as f64;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= MOST);
            *value = whole.map_or_else(|| value.take(), |float| Value::from(float as i64));
        }
        Value::Array(list) => list.iter_mut().for_each(whole_numbers),
        Value::Object(object) => object.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

struct Normalizer<'a> {
    layer: &'a mut Layer,
    findings: &'a mut Findings,
}

impl Normalizer<'_> {
    fn note(&mut self, path: &[&str], message: &str) {
        self.findings.notes.push(self.layer.warning(path, message.to_owned()));
    }

    /// Moves the value of one key below the value of another.
    fn rename(&mut self, from: &str, to: &str) {
        let Some(value) = self.layer.value.shift_remove(from).filter(|value| !value.is_null()) else {
            return;
        };
        self.note(&[from], &format!("is read as `{to}`"));
        self.layer.move_places(&[from], &[to]);
        self.put_below(to, value);
    }

    fn put_below(&mut self, key: &str, value: Value) {
        let mut below = Map::from_iter([(key.to_owned(), value)]);
        if let Some(own) = self.layer.value.shift_remove(key) {
            merge(&mut below, &Map::from_iter([(key.to_owned(), own)]));
        }
        self.layer.value.extend(below);
    }

    /// Turns `mode.<name>` into a primary `agent.<name>`, below the values of `agent` itself.
    fn modes(&mut self) {
        // A markdown agent's `mode` is inside its agent; at the top it is the deprecated key.
        let modes = match self.layer.value.shift_remove("mode") {
            Some(Value::Object(modes)) => modes,
            Some(other) => {
                // The check says that it is none.
                self.layer.value.insert("mode".to_owned(), other);
                return;
            }
            None => return,
        };
        self.note(&["mode"], "is deprecated; write `agent` with `\"mode\": \"primary\"`");
        self.layer.move_places(&["mode"], &["agent"]);
        let mut agents = Map::new();
        for (name, mut mode) in modes {
            if let Value::Object(mode) = &mut mode {
                let is_word = |said: &Value| matches!(said.as_str(), Some("primary" | "subagent" | "all"));
                if let Some(said) = mode.get("mode").filter(|said| !said.is_null() && !is_word(said)) {
                    let message = format!("{said} is ignored; an entry of `mode` is a primary agent");
                    let warning = self.layer.warning(&["agent", &name, "mode"], message);
                    self.findings.warnings.push(warning);
                }
                mode.insert("mode".to_owned(), Value::from("primary"));
            }
            agents.insert(name, mode);
        }
        self.put_below("agent", Value::Object(agents));
    }

    /// Turns `mcp.servers.<name>` into `mcp.<name>`.
    fn servers(&mut self) {
        let Some(Value::Object(mcp)) = self.layer.value.get_mut("mcp") else { return };
        let is_server = |value: &Value| value.get("type").is_some() || value.get("enabled").is_some();
        if mcp.get("servers").is_none_or(|servers| !servers.is_object() || is_server(servers)) {
            return;
        }
        let Some(servers) = mcp.shift_remove("servers") else { return };
        self.note(&["mcp", "servers"], "is read as `mcp`");
        self.layer.move_places(&["mcp", "servers"], &["mcp"]);
        self.put_below("mcp", servers);
    }

    fn compaction(&mut self) {
        let Some(Value::Object(compaction)) = self.layer.value.get_mut("compaction") else { return };
        let keep = compaction.shift_remove("keep");
        let buffer = compaction.shift_remove("buffer");
        let mut unknown = Vec::new();
        let kept = match keep {
            Some(Value::Object(mut keep)) => {
                let known = [("turns", "tail_turns"), ("tokens", "preserve_recent_tokens")].into_iter();
                let known =
                    known.filter_map(|(from, to)| Some((vec!["keep", from], to, keep.shift_remove(from)?)));
                let known = known.collect();
                unknown = keep.into_iter().map(|(key, _)| key).collect();
                known
            }
            Some(tokens) => vec![(vec!["keep"], "preserve_recent_tokens", tokens)],
            None => Vec::new(),
        };
        for key in unknown {
            let message = "is not a known key and is ignored".to_owned();
            let warning = self.layer.warning(&["compaction", "keep", &key], message);
            self.findings.warnings.push(warning);
        }
        let reserved = buffer.map(|buffer| (vec!["buffer"], "reserved", buffer));
        for (from, to, value) in kept.into_iter().chain(reserved) {
            let from = [&["compaction"], from.as_slice()].concat();
            self.note(&from, &format!("is read as `compaction.{to}`"));
            self.layer.move_places(&from, &["compaction", to]);
            if let Some(Value::Object(compaction)) = self.layer.value.get_mut("compaction") {
                compaction.entry(to).or_insert(value);
            }
        }
    }

    fn share(&mut self) {
        if self.layer.value.contains_key("autoshare") {
            self.note(&["autoshare"], "is deprecated; write `\"share\": \"auto\"`");
        }
        if self.layer.value.get("autoshare") == Some(&Value::Bool(true))
            && !self.layer.value.contains_key("share")
        {
            self.layer.value.insert("share".to_owned(), Value::from("auto"));
            if let Some(position) = self.layer.position(&["autoshare"]) {
                self.layer.places.insert("/share".to_owned(), position);
            }
        }
    }

    /// Turns `maxSteps` of agents into `steps`.
    fn steps(&mut self) {
        let Some(Value::Object(agents)) = self.layer.value.get_mut("agent") else { return };
        let mut renamed = Vec::new();
        for (name, agent) in agents {
            let Value::Object(agent) = agent else { continue };
            if let Some(steps) = agent.shift_remove("maxSteps") {
                agent.entry("steps").or_insert(steps);
                renamed.push(name.clone());
            }
        }
        for name in renamed {
            self.note(&["agent", &name, "maxSteps"], "is deprecated; write `steps`");
            self.layer.move_places(&["agent", &name, "maxSteps"], &["agent", &name, "steps"]);
        }
    }
}
