//! From checked layers to one [`Config`]: drops what has the wrong shape, says where, and decodes the rest.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::{AgentConfig, CommandConfig, McpConfig, ProviderConfig, SkillsConfig},
    message::ModelRef,
    permission::Rule,
};

use super::{
    Config, Environment, Instruction, ToolOutputLimits, Warning,
    layers::{self, Layer},
    merge::merge,
    paths::Paths,
    rules::{read_rules, rules_from_tools},
};
use crate::base::text::head;

/// `agent.<name>` keys that are not model options.
const AGENT_KEYS: [&str; 16] = [
    "name",
    "model",
    "variant",
    "temperature",
    "top_p",
    "prompt",
    "description",
    "mode",
    "hidden",
    "disable",
    "color",
    "steps",
    "maxSteps",
    "permission",
    "options",
    "tools",
];

/// Where the configuration is for.
pub struct Place<'a> {
    pub environment: &'a Environment,
    pub paths: &'a Paths,
    pub directory: &'a Path,
    pub worktree: &'a Path,
}

/// Resolves layers, the weakest first. `warnings` are those found while reading them.
pub fn resolve(place: &Place<'_>, mut layers: Vec<Layer>, mut warnings: Vec<Warning>) -> Config {
    let home = &place.environment.home;
    for layer in &mut layers {
        check(layer, &mut warnings);
    }
    let mut raw = Map::new();
    for layer in &layers {
        merge(&mut raw, &layer.value);
    }
    let string =
        |key: &str| raw.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let model = |key: &str| string(key).and_then(|text| parse_model(&text));
    let strings = |key: &str| decode_key::<Vec<String>>(&raw, key);
    let tool_output: ToolOutputConfig = decode_key(&raw, "tool_output").unwrap_or_default();
    let windlass: WindlassConfig = decode_key(&raw, "windlass").unwrap_or_default();
    let default_limits = ToolOutputLimits::default();
    Config {
        environment: place.environment.clone(),
        paths: place.paths.clone(),
        directory: place.directory.to_owned(),
        worktree: place.worktree.to_owned(),
        model: model("model"),
        small_model: model("small_model"),
        default_agent: string("default_agent"),
        permission: permission(&raw, &layers, home),
        agents: agents(&raw, &layers),
        commands: decode_key(&raw, "command").unwrap_or_default(),
        skills: decode_key(&raw, "skills").unwrap_or_default(),
        directories: layers::directories(place.environment, place.paths, place.directory, place.worktree),
        providers: decode_key(&raw, "provider").unwrap_or_default(),
        disabled_providers: strings("disabled_providers").unwrap_or_default(),
        enabled_providers: strings("enabled_providers"),
        mcp: mcp(&raw, &layers, &mut warnings),
        instructions: instructions(&layers),
        shell: string("shell"),
        tool_output: ToolOutputLimits {
            max_lines: tool_output.max_lines.unwrap_or(default_limits.max_lines),
            max_bytes: tool_output.max_bytes.unwrap_or(default_limits.max_bytes),
        },
        file_time: windlass.file_time.unwrap_or(true),
        raw,
        warnings,
    }
}

/// Splits `provider/model`, and `provider/model#variant`.
pub fn parse_model(text: &str) -> Option<ModelRef> {
    let (name, variant) = match text.split_once('#') {
        Some((name, variant)) => (name, Some(variant.to_owned())),
        None => (text, None),
    };
    let model_ref = ModelRef::parse(name)?;
    Some(ModelRef { variant, ..model_ref })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolOutputConfig {
    max_lines: Option<usize>,
    max_bytes: Option<usize>,
}

/// What OpenCode does not have.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WindlassConfig {
    file_time: Option<bool>,
}

/// Lowers deprecated forms of one layer and removes what has the wrong shape, so that what a weaker layer says
/// stays in force.
fn check(layer: &mut Layer, warnings: &mut Vec<Warning>) {
    let mut value = std::mem::take(&mut layer.value);
    let mut checker = Checker { layer, warnings };
    if value.contains_key("permissions") {
        checker.warn(&["permissions"], "`permissions` is not understood; use `permission`".to_owned());
    }
    lower_modes(&mut value);
    value.retain(|key, value| match key.as_str() {
        "model" | "small_model" => checker.is_model(&[key], value),
        "default_agent" | "shell" => checker.prune::<String>(&[key], value),
        "instructions" | "disabled_providers" | "enabled_providers" => checker.strings(key, value),
        "tool_output" => checker.prune::<ToolOutputConfig>(&[key], value),
        "windlass" => checker.prune::<WindlassConfig>(&[key], value),
        "tools" => checker.prune::<BTreeMap<String, bool>>(&[key], value),
        "permission" => {
            checker.permission(&[key], value);
            true
        }
        "provider" => checker
            .entries(key, value, |checker, path, provider| checker.prune::<ProviderConfig>(path, provider)),
        "agent" => checker.entries(key, value, Checker::agent),
        "command" => checker
            .entries(key, value, |checker, path, command| checker.prune::<CommandConfig>(path, command)),
        "skills" => checker.prune::<SkillsConfig>(&[key], value),
        "mcp" => checker.entries(key, value, Checker::mcp),
        _ => true,
    });
    layer.value = value;
}

/// Turns `mode.<name>` into a primary `agent.<name>`, below what `agent` itself says.
fn lower_modes(value: &mut Map<String, Value>) {
    let Some(Value::Object(modes)) = value.shift_remove("mode") else { return };
    let mut lowered = Map::new();
    let mut agents = Map::new();
    for (name, mut mode) in modes {
        if let Value::Object(mode) = &mut mode {
            mode.insert("mode".to_owned(), Value::from("primary"));
        }
        agents.insert(name, mode);
    }
    lowered.insert("agent".to_owned(), Value::Object(agents));
    if let Some(own) = value.shift_remove("agent") {
        let upper = Map::from_iter([("agent".to_owned(), own)]);
        merge(&mut lowered, &upper);
    }
    value.extend(lowered);
}

struct Checker<'a> {
    layer: &'a Layer,
    warnings: &'a mut Vec<Warning>,
}

impl Checker<'_> {
    fn warn(&mut self, path: &[&str], message: String) {
        self.warnings.push(self.layer.warning(path, message));
    }

    fn is_model(&mut self, path: &[&str], value: &Value) -> bool {
        let is_model = value.as_str().is_some_and(|text| parse_model(text).is_some());
        if !is_model {
            self.warn(path, format!("{} is not a model; write \"provider/model\"", brief(value)));
        }
        is_model
    }

    fn strings(&mut self, key: &str, value: &mut Value) -> bool {
        let Value::Array(elements) = value else {
            self.warn(&[key], format!("`{key}` is not a list of strings"));
            return false;
        };
        let mut idx = 0;
        elements.retain(|element| {
            let idx_text = idx.to_string();
            idx += 1;
            if !element.is_string() {
                self.warn(&[key, &idx_text], format!("{} is not a string", brief(element)));
            }
            element.is_string()
        });
        true
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
        entries.retain(|name, entry| check(self, &[key, name], entry));
        true
    }

    fn agent(&mut self, path: &[&str], value: &mut Value) -> bool {
        if let Value::Object(agent) = value {
            if let Some(steps) = agent.shift_remove("maxSteps") {
                agent.entry("steps").or_insert(steps);
            }
            if let Some(permission) = agent.get_mut("permission") {
                self.permission(&[path, &["permission"]].concat(), permission);
            }
            let is_bad_model =
                agent.get("model").is_some_and(|model| !self.is_model(&[path, &["model"]].concat(), model));
            if is_bad_model {
                agent.shift_remove("model");
            }
        }
        self.prune::<AgentConfig>(path, value)
    }

    fn permission(&mut self, path: &[&str], value: &mut Value) {
        let (_, problems) = read_rules(value, Path::new(""));
        for problem in problems {
            let keys: Vec<&str> =
                path.iter().copied().chain(problem.path.iter().map(String::as_str)).collect();
            self.warn(&keys, format!("{}; `ask` is used", problem.message));
        }
        if !value.is_object() {
            *value = Value::Object(Map::from_iter([("*".to_owned(), value.take())]));
        }
    }

    /// An entry without `type` changes an inherited one and is checked after merging.
    fn mcp(&mut self, path: &[&str], value: &mut Value) -> bool {
        let is_whole = value.as_object().is_none_or(|entry| entry.contains_key("type"));
        !is_whole || self.prune::<McpConfig>(path, value)
    }

    /// Removes the parts of `value` that do not decode as `T`; false when nothing usable is left.
    fn prune<T: DeserializeOwned>(&mut self, path: &[&str], value: &mut Value) -> bool {
        let decodes =
            |candidate: &Value| T::deserialize(candidate).map(drop).map_err(|err| plain(&err.to_string()));
        // Serde takes a list for a struct's fields in order.
        if value.is_array() && decodes(&Value::Object(Map::new())).is_ok() {
            self.warn(path, "invalid type: list, expected an object".to_owned());
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
        let Value::Object(object) = value else {
            self.warn(path, message);
            return false;
        };
        if !can_lose_keys {
            self.warn(path, message);
            return false;
        }
        object.retain(|key, part| {
            let decodes_part = |candidate: &Value| {
                decodes(&Value::Object(Map::from_iter([(key.clone(), candidate.clone())])))
            };
            self.prune_by(&[path, &[key]].concat(), part, &decodes_part)
        });
        let Err(message) = decodes(value) else { return true };
        self.warn(path, message);
        false
    }
}

/// Rules of the layers one after the other, over those of the deprecated `tools`.
///
/// Joined, not read from the merged object: there a key that a later layer sets again would carry the earlier
/// layers' patterns to the end with it, past rules that were meant to stand over them.
fn permission(raw: &Map<String, Value>, layers: &[Layer], home: &Path) -> Vec<Rule> {
    let tools = raw.get("tools").and_then(Value::as_object).into_iter().flatten();
    let tools = tools.filter_map(|(tool, is_enabled)| Some((tool.as_str(), is_enabled.as_bool()?)));
    let mut rules = rules_from_tools(tools);
    for value in layers.iter().filter_map(|layer| layer.value.get("permission")) {
        rules.extend(read_rules(value, home).0);
    }
    rules
}

fn agents(raw: &Map<String, Value>, layers: &[Layer]) -> BTreeMap<String, AgentConfig> {
    let mut agents = BTreeMap::new();
    for (name, value) in raw.get("agent").and_then(Value::as_object).into_iter().flatten() {
        let Ok(mut agent) = AgentConfig::deserialize(value) else { continue };
        for (key, option) in value.as_object().into_iter().flatten() {
            if !AGENT_KEYS.contains(&key.as_str()) {
                agent.options.insert(key.clone(), option.clone());
            }
        }
        let of_layer = |layer: &Layer| Some(layer.value.get("agent")?.get(name)?.get("permission")?.clone());
        let mut permissions: Vec<Value> = layers.iter().filter_map(of_layer).collect();
        // See `permission` for why the merged object would not do.
        agent.permission =
            if permissions.len() > 1 { Some(Value::Array(permissions)) } else { permissions.pop() };
        agents.insert(name.clone(), agent);
    }
    agents
}

fn mcp(
    raw: &Map<String, Value>,
    layers: &[Layer],
    warnings: &mut Vec<Warning>,
) -> BTreeMap<String, McpConfig> {
    let mut servers = BTreeMap::new();
    for (name, value) in raw.get("mcp").and_then(Value::as_object).into_iter().flatten() {
        match McpConfig::deserialize(value) {
            Ok(server) => {
                servers.insert(name.clone(), server);
            }
            Err(_) if value.get("type").is_none() && value.get("enabled") == Some(&Value::Bool(false)) => {}
            Err(err) => {
                let naming =
                    |layer: &&Layer| layer.value.get("mcp").is_some_and(|mcp| mcp.get(name).is_some());
                let Some(layer) = layers.iter().rev().find(naming) else { continue };
                warnings
                    .push(layer.warning(&["mcp", name], format!("MCP server `{name}` is left out: {err}")));
            }
        }
    }
    servers
}

fn instructions(layers: &[Layer]) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for layer in layers {
        let patterns = layer.value.get("instructions").and_then(Value::as_array).into_iter().flatten();
        for pattern in patterns.filter_map(Value::as_str) {
            let instruction = Instruction { pattern: pattern.to_owned(), base: PathBuf::from(&layer.base) };
            if !instructions.contains(&instruction) {
                instructions.push(instruction);
            }
        }
    }
    instructions
}

fn decode_key<T: DeserializeOwned>(raw: &Map<String, Value>, key: &str) -> Option<T> {
    T::deserialize(raw.get(key)?).ok()
}

/// Serde's message in the words of someone who writes JSON.
fn plain(message: &str) -> String {
    let words = [
        ("expected struct AgentConfig", "expected an object"),
        ("expected struct CommandConfig", "expected an object"),
        ("expected struct SkillsConfig", "expected an object"),
        ("expected struct ModelConfig", "expected an object"),
        ("expected struct ProviderConfig", "expected an object"),
        ("expected struct ToolOutputConfig", "expected an object"),
        ("expected struct WindlassConfig", "expected an object"),
        ("expected struct ", "expected an object: "),
        ("expected a map", "expected an object"),
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "invalid type: list"),
        ("invalid type: map", "invalid type: object"),
        ("expected usize", "expected a whole number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected f64", "expected a number"),
    ];
    // Serde quotes the value, however long it is.
    words.iter().fold(cut(message, 200), |text, (from, to)| text.replace(from, to))
}

fn brief(value: &Value) -> String {
    cut(&value.to_string(), 60)
}

fn cut(text: &str, max_bytes: usize) -> String {
    let kept = head(text, max_bytes);
    if kept.len() < text.len() { format!("{kept}…") } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
