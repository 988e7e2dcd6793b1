//! From checked layers to one `Config`: merges them and decodes the result.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    config::{AgentConfig, McpConfig},
    permission::Rule,
    settings::{SandboxSettings, Settings},
};

use super::{
    ADMINISTRATOR, Config, Environment, Findings, Hook, Instruction, Managed, RULE_KEYS, ToolOutputLimits,
    Warning, WrittenNames,
    binding::bind,
    check::check,
    faults::Faults,
    known_keys,
    layer::{Kind, Layer},
    limits::{self, Bound, Limit},
    merge::merged,
    model::parse_model,
    normalize::normalize,
    paths::Paths,
    project_files::ProjectFiles,
    project_programs::ProjectPrograms,
    protected_paths::ProtectedPaths,
    reader::Sources,
    rules::rules_of,
    secrets, stronger, trust,
    wording::plain,
};

/// Bytes of an answer that are kept unless the configuration says otherwise.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// The project that a configuration is read for.
pub struct ProjectContext<'a> {
    pub paths: &'a Paths,
    pub directory: &'a Path,
    pub project_files: &'a Arc<ProjectFiles>,
}

/// Resolves the sources that were read, and returns the layers too, which know the source of each value.
pub fn resolve(context: &ProjectContext<'_>, sources: Sources, hooks: &[Hook]) -> (Config, Vec<Layer>) {
    let Sources { environment, mut layers, mut findings, directories, watched, kept, broken: _, held } =
        sources;
    bind(&mut layers, &mut findings);
    run_hooks(context, &environment, hooks, &mut layers, &mut findings);
    let project_addresses = bind(&mut layers, &mut findings);
    stronger::bound(&mut layers, &mut findings);
    let mut raw = merged(&layers);
    let home = &environment.home;
    let of_administrator = merged(layers.iter().filter(|layer| layer.kind == Kind::Managed));
    let managed = managed(&of_administrator, &layers, home);
    set_apart(&mut raw, &of_administrator, &layers);
    let raw = raw;
    // Beneath everybody's rules, for the things that it allows; its restrictions are a layer of every policy.
    let permission = [managed.general.clone(), rules_of(&own(&raw, &layers), home)].concat();
    let string =
        |key: &str| raw.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let model = |key: &str| string(key).and_then(|text| parse_model(&text));
    let strings = |key: &str| decode_key::<Vec<String>>(&raw, key);
    let settings = settings(&raw, &environment);
    let names = |key: &str| {
        let entries = raw.get(key).and_then(Value::as_object).into_iter().flatten();
        entries.map(|(name, _)| name.clone()).collect()
    };
    let default_limits = ToolOutputLimits::default();
    let (mut limits, left_out) = bounds(&layers, home);
    // Another agent in the place of one that cannot be understood may do no more than ask.
    if string("default_agent").is_some_and(|name| left_out.contains(&name)) {
        limits.push(Bound { agent: None, is_fetched: false, rules: limits::Kind::Ask.rules(home) });
    }
    let mut config = Config {
        paths: context.paths.clone(),
        directory: context.directory.to_owned(),
        worktree: context.project_files.worktree.clone(),
        project_files: context.project_files.clone(),
        model: model("model"),
        small_model: model("small_model"),
        unread_models: unread_models(&layers, &findings.warnings),
        lost_provider: lost_provider(&layers, &findings.warnings, &raw),
        faults: Faults::default(),
        default_agent: string("default_agent"),
        permission,
        managed,
        agents: agents(&raw, &layers),
        fetched_rules: fetched_rules(&layers, home),
        limits,
        left_out: BTreeSet::new(),
        commands: decode_key(&raw, "command").unwrap_or_default(),
        skills: decode_key(&raw, "skills").unwrap_or_default(),
        directories,
        watched,
        protected: Arc::default(),
        kept,
        held,
        project_addresses,
        own_sandbox: own_sandbox(&layers, &settings),
        project_programs: ProjectPrograms::new(&layers, context.directory, &context.project_files.worktree),
        substituted: layers.iter().flat_map(|layer| layer.substituted.iter().cloned()).collect(),
        providers: decode_key(&raw, "provider").unwrap_or_default(),
        disabled_providers: strings("disabled_providers").unwrap_or_default(),
        enabled_providers: strings("enabled_providers"),
        mcp: mcp(&raw, &layers, &mut findings.warnings),
        instructions: instructions(&layers, &mut findings.warnings),
        shell: string("shell"),
        tool_output: ToolOutputLimits {
            max_lines: settings.tool_output.max_lines.unwrap_or(default_limits.max_lines),
            max_bytes: settings.tool_output.max_bytes.unwrap_or(default_limits.max_bytes),
        },
        file_time: settings.windlass.file_time.unwrap_or(true),
        max_answer_bytes: settings.windlass.max_answer_bytes.map_or(MAX_ANSWER_BYTES, |limit| limit as usize),
        settings,
        written: WrittenNames {
            providers: names("provider"),
            permissions: names("permission"),
            tools: names("tools"),
        },
        raw,
        warnings: findings.warnings,
        notes: findings.notes,
        environment,
    };
    for name in &left_out {
        config.agents.entry(name.clone()).or_default().disable = Some(true);
    }
    config.left_out = left_out;
    config.protected = Arc::new(ProtectedPaths::new(&config, &layers));
    (config, layers)
}

/// Returns the sandbox that all layers but a project's ask for; parts that cannot be read are as strict as the whole.
fn own_sandbox(layers: &[Layer], settings: &Settings) -> SandboxSettings {
    let whole = &settings.windlass.sandbox;
    if layers.iter().all(|layer| !layer.is_projects) {
        return whole.clone();
    }
    let own = merged(layers.iter().filter(|layer| !layer.is_projects));
    let own = match own.get("windlass").and_then(|it| it.get("sandbox")) {
        Some(sandbox) => SandboxSettings::deserialize(sandbox).unwrap_or_else(|_| whole.clone()),
        None => SandboxSettings::default(),
    };
    SandboxSettings { at_start: whole.at_start, ..own }
}

/// Adds the plugins' changes, beneath the administrator's layers.
fn run_hooks(
    context: &ProjectContext<'_>,
    environment: &Environment,
    hooks: &[Hook],
    layers: &mut Vec<Layer>,
    findings: &mut Findings,
) {
    for hook in hooks {
        let first_managed = layers.iter().position(|layer| layer.kind == Kind::Managed);
        let at = first_managed.unwrap_or(layers.len());
        match hook.layer(layers.get(..at).unwrap_or_default(), context.directory) {
            Ok(mut layer) => {
                normalize(&mut layer, findings);
                check(&mut layer, findings);
                if hook.is_held {
                    // Nothing of it is the user's word.
                    layer.is_projects = true;
                    findings.warnings.extend(trust::hold_hook_back(
                        environment,
                        &hook.name,
                        &mut layer,
                        &layers[..at],
                    ));
                }
                layers.insert(at, layer);
            }
            Err(reason) => {
                let message = format!("could not change the configuration, so nothing of it holds: {reason}");
                let (source, line, column) = (hook.name.clone(), None, None);
                findings.warnings.push(Warning { source, line, column, message });
            }
        }
    }
}

/// Returns [`Config::unread_models`]. A stronger source that can be read decides over an unreadable weaker one.
fn unread_models(layers: &[Layer], warnings: &[Warning]) -> BTreeMap<String, String> {
    let mut keys = BTreeSet::from([vec!["model"], vec!["small_model"]]);
    for layer in layers {
        let agents = layer.value.get("agent").and_then(Value::as_object).into_iter().flatten();
        keys.extend(agents.map(|(name, _)| vec!["agent", name, "model"]));
        let commands = layer.value.get("command").and_then(Value::as_object).into_iter().flatten();
        keys.extend(commands.map(|(name, _)| vec!["command", name, "model"]));
    }
    let mut unread = BTreeMap::new();
    for path in keys {
        let may_be_lost = matches!(path.as_slice(), ["model" | "small_model"]);
        for layer in layers.iter().rev() {
            let (first, rest) = (layer.value.get(path[0]), &path[1..]);
            match first.and_then(|value| rest.iter().try_fold(value, |value, key| value.get(*key))) {
                Some(Value::Null) => continue,
                Some(_) => break,
                None => {}
            }
            // The check took out a value that is no model, and its place stayed.
            let position = layer.position(&path);
            let is_wrong = position.is_some();
            if !(is_wrong || may_be_lost && layer.may_have_said(path[0])) {
                continue;
            }
            let is_about = |it: &&Warning| {
                it.source == layer.source
                    && (layer.is_broken
                        || (it.line, it.column) == (position.map(|at| at.0), position.map(|at| at.1)))
            };
            let warning = warnings.iter().find(is_about).map(ToString::to_string);
            unread.insert(
                path.join("."),
                warning.unwrap_or_else(|| format!("{} cannot be read", layer.source)),
            );
            break;
        }
    }
    unread
}

/// Returns [`Config::lost_provider`]: the fault in a provider that the check took out of every source.
fn lost_provider(layers: &[Layer], warnings: &[Warning], raw: &Map<String, Value>) -> Option<String> {
    let providers = raw.get("provider").and_then(Value::as_object);
    layers.iter().rev().find_map(|layer| {
        let own = layer.value.get("provider");
        let is_lost = |place: &str| {
            let Some(rest) = place.strip_prefix("/provider") else { return false };
            if rest.is_empty() {
                return own.is_none() && providers.is_none_or(Map::is_empty);
            }
            let name = rest.strip_prefix('/').and_then(|rest| rest.split('/').next());
            let name = name.map(|name| name.replace("~1", "/").replace("~0", "~"));
            // Another source may describe it, and a later one may take it away on purpose.
            let is_in =
                |providers: Option<&Value>, name: &str| providers.is_some_and(|it| it.get(name).is_some());
            name.is_some_and(|name| !is_in(own, &name) && !is_in(raw.get("provider"), &name))
        };
        let lost = layer.places.iter().filter(|(place, _)| is_lost(place)).map(|(_, at)| *at);
        let lost: BTreeSet<(usize, usize)> = lost.collect();
        // A value that is removed without a warning, such as `null`, was not meant.
        let is_about = |it: &&Warning| {
            it.source == layer.source && it.line.zip(it.column).is_some_and(|at| lost.contains(&at))
        };
        warnings.iter().find(is_about).map(ToString::to_string)
    })
}

/// Settings one by one: a value that does not go together with the rest must not take the rest with it.
fn settings(raw: &Map<String, Value>, environment: &Environment) -> Settings {
    let mut settings = Settings::deserialize(raw).unwrap_or_else(|_| {
        let is_usable = |(key, value): &(&String, &Value)| {
            let alone = Map::from_iter([((*key).clone(), (*value).clone())]);
            Settings::deserialize(Value::Object(alone)).is_ok()
        };
        let usable = raw.iter().filter(is_usable).map(|(key, value)| (key.clone(), value.clone()));
        Settings::deserialize(Value::Object(usable.collect())).unwrap_or_default()
    });
    settings.windlass.sandbox.at_start = environment.sandbox_at_start();
    if environment.requires_sandbox() {
        settings.windlass.sandbox.required = Some(true);
    }
    settings
}

/// Returns the rules of the administrator's own sources, which are merged in `raw`.
fn managed(raw: &Map<String, Value>, layers: &[Layer], home: &Path) -> Managed {
    let agents = raw.get("agent").and_then(Value::as_object).into_iter().flatten();
    let agents = agents.filter_map(|(name, agent)| Some((name.clone(), rules_of(agent.as_object()?, home))));
    let mut managed = Managed {
        general: rules_of(raw, home),
        agents: agents.filter(|(_, rules)| !rules.is_empty()).collect(),
    };
    if layers.iter().any(|layer| layer.kind == Kind::Managed && layer.is_broken) {
        managed.let_ask();
    }
    managed
}

/// Removes the rules that must not decide by being last: those that came over the network, which have their own
/// place (see `fetched_rules`), and the administrator's, which would take the place of a stricter rule. Shows
/// an administrator's rules under a key of their own: they hold beside the others, not in their place.
fn set_apart(raw: &mut Map<String, Value>, managed: &Map<String, Value>, layers: &[Layer]) {
    let rules = |owner: &Map<String, Value>| -> Map<String, Value> {
        let rules = RULE_KEYS.iter().filter_map(|&key| Some((key.to_owned(), owner.get(key)?.clone())));
        rules.collect()
    };
    let agents = |all: &Map<String, Value>| -> Map<String, Value> {
        let agents = all.get("agent").and_then(Value::as_object).into_iter().flatten();
        let rules = agents.filter_map(|(name, agent)| Some((name.clone(), rules(agent.as_object()?))));
        rules.filter(|(_, rules)| !rules.is_empty()).map(|(name, it)| (name, Value::Object(it))).collect()
    };
    let (mut administrator, managed_agents) = (rules(managed), agents(managed));
    if administrator.is_empty() && managed_agents.is_empty() {
        return;
    }
    let restore = |owner: &mut Map<String, Value>, own: Map<String, Value>| {
        owner.retain(|key, _| !RULE_KEYS.contains(&key.as_str()) || own.contains_key(key));
        owner.extend(own);
    };
    let own = merged(layers.iter().filter(|layer| layer.kind != Kind::Managed));
    restore(raw, rules(&own));
    let own_agents = agents(&own);
    for (name, agent) in raw.get_mut("agent").and_then(Value::as_object_mut).into_iter().flatten() {
        let Value::Object(agent) = agent else { continue };
        let said = own_agents.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        restore(agent, said);
    }
    if !managed_agents.is_empty() {
        administrator.insert("agent".to_owned(), Value::Object(managed_agents));
    }
    raw.insert(ADMINISTRATOR.to_owned(), Value::Object(administrator));
}

fn own<'a>(raw: &'a Map<String, Value>, layers: &[Layer]) -> Cow<'a, Map<String, Value>> {
    let is_own = |layer: &&Layer| !matches!(layer.kind, Kind::Market | Kind::Managed);
    if layers.iter().all(|layer| is_own(&layer)) {
        Cow::Borrowed(raw)
    } else {
        Cow::Owned(merged(layers.iter().filter(is_own)))
    }
}

fn agents(raw: &Map<String, Value>, layers: &[Layer]) -> BTreeMap<String, AgentConfig> {
    let own = own(raw, layers);
    let place = known_keys::keys().below("agent").and_then(|agents| agents.below(""));
    let is_known = |key: &str| place.is_some_and(|agent| agent.known().contains_key(key));
    let mut agents = BTreeMap::new();
    for (name, value) in raw.get("agent").and_then(Value::as_object).into_iter().flatten() {
        let Ok(mut agent) = AgentConfig::deserialize(value) else { continue };
        for (key, option) in value.as_object().into_iter().flatten() {
            if !is_known(key) {
                agent.options.insert(key.clone(), option.clone());
            }
        }
        let said = |key: &str| own.get("agent").and_then(|agents| agents.get(name)?.get(key));
        agent.permission = said("permission").cloned();
        agent.tools = said("tools").and_then(|tools| Deserialize::deserialize(tools).ok());
        agents.insert(name.clone(), agent);
    }
    agents
}

/// Returns the limits as rules, and the agents that are left out.
fn bounds(layers: &[Layer], home: &Path) -> (Vec<Bound>, BTreeSet<String>) {
    let is_own = |name: &str| {
        let agents =
            layers.iter().filter(|it| it.kind != Kind::Market).filter_map(|it| it.value.get("agent"));
        agents.into_iter().any(|agents| agents.get(name).is_some())
    };
    let mut bounds = Vec::new();
    let mut left_out = BTreeSet::new();
    for layer in layers {
        for Limit { agent, kind } in &layer.limits {
            match (agent, kind) {
                // A fetched agent does not turn off an agent of the user's own, and may do no more than ask.
                (Some(name), limits::Kind::LeftOut) if layer.kind == Kind::Market && is_own(name) => {
                    let (agent, rules) = (Some(name.clone()), limits::Kind::Ask.rules(home));
                    bounds.push(Bound { agent, is_fetched: true, rules });
                }
                (Some(name), limits::Kind::LeftOut) => drop(left_out.insert(name.clone())),
                _ => {
                    let (agent, is_fetched) = (agent.clone(), layer.kind == Kind::Market);
                    bounds.push(Bound { agent, is_fetched, rules: kind.rules(home) });
                }
            }
        }
    }
    (bounds, left_out)
}

fn fetched_rules(layers: &[Layer], home: &Path) -> BTreeMap<String, Vec<Rule>> {
    let mut fetched: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
    for layer in layers.iter().filter(|layer| layer.kind == Kind::Market) {
        for (name, agent) in layer.value.get("agent").and_then(Value::as_object).into_iter().flatten() {
            let Value::Object(agent) = agent else { continue };
            // A server allows nothing by a switch.
            let mut agent = agent.clone();
            if let Some(Value::Object(switches)) = agent.get_mut("tools") {
                switches.retain(|_, is_enabled| *is_enabled == Value::Bool(false));
            }
            let rules = rules_of(&agent, home);
            if !rules.is_empty() {
                fetched.entry(name.clone()).or_default().extend(rules);
            }
        }
    }
    fetched
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
                let reason = plain(&secrets::mask_message(&["mcp", name], value, &err.to_string()));
                let message = format!("MCP server `{name}` is left out: {reason}");
                warnings.push(layer.warning(&["mcp", name], message));
            }
        }
    }
    servers
}

fn instructions(layers: &[Layer], warnings: &mut Vec<Warning>) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for layer in layers {
        let patterns = layer.value.get("instructions").and_then(Value::as_array).into_iter().flatten();
        for (idx, pattern) in patterns.enumerate() {
            let Some(pattern) = pattern.as_str() else { continue };
            if pattern.trim().is_empty() {
                let message = "is empty and names nothing; a variable in it may not be set".to_owned();
                warnings.push(layer.warning(&["instructions", &idx.to_string()], message));
                continue;
            }
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

#[cfg(test)]
mod tests;
