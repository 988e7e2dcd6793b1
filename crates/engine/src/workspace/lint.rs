//! Finds values of a configuration that cannot work.

use std::{collections::HashSet, path::Path};

use serde_json::Value;
use windlass_base::{program, text::nearest};
use windlass_core::{
    config::{Config, Warning, model::parse_model},
    library::Agent,
};
use windlass_provider::catalog::Catalog;
use windlass_services::{
    lsp,
    tool::{self, bash},
};

use super::model_names;
use crate::permission_names;

/// Finds values that cannot work, each by its key, as in `agent.build.variant`.
pub fn warnings(config: &Config, agents: &[Agent], catalog: &Catalog) -> Vec<Warning> {
    let mut warnings: Vec<Warning> =
        agents.iter().filter_map(|agent| missing_model(agent, catalog)).collect();
    warnings.extend(agents.iter().filter_map(|agent| missing_variant(agent, catalog)));
    let names: HashSet<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
    for (name, command) in &config.commands {
        let mut warn =
            |key: &str, message: String| warnings.push(at(format!("command.{name}{key}"), message));
        if let Some(agent) = command.agent.as_deref().filter(|agent| !names.contains(agent)) {
            warn(".agent", format!("there is no agent `{agent}`, so the command cannot be called"));
        }
        let Some(reference) = command.model.as_deref().and_then(parse_model) else { continue };
        let model = match catalog.get(&reference) {
            Ok(model) => model,
            Err(reason) => {
                warn(
                    ".model",
                    format!(
                        "the command cannot be used, because its model {reference} is not available: {reason}"
                    ),
                );
                continue;
            }
        };
        let variant = command.variant.as_ref().or(reference.variant.as_ref());
        if let Some(variant) = variant.filter(|variant| model.variant(variant).is_none()) {
            warn(".variant", no_variant(variant, &reference.to_string(), &model.variants));
        }
    }
    let boxed = config.settings.windlass.sandbox.agents.keys();
    warnings.extend(boxed.filter(|name| !names.contains(name.as_str())).map(|name| {
        let message = format!("there is no agent `{name}`, so nothing runs in this sandbox");
        at(format!("windlass.sandbox.agents.{name}"), message)
    }));
    warnings.extend(missing_shell(config));
    warnings.extend(unusable_shell(config));
    warnings.extend(switches(config).filter_map(|(place, name)| Some(at(place, no_tool(name, config)?))));
    warnings.extend(lsp::incomplete(config).into_iter().map(|(server, key)| {
        let message =
            format!("has no `{key}`, and windlass knows no server of this name, so it is never started");
        at(format!("lsp.{server}"), message)
    }));
    let general = config.written.permissions.iter().map(|name| (format!("permission.{name}"), name));
    let own = config.agents.iter().flat_map(|(agent, it)| {
        let rules = it.permission.as_ref().and_then(Value::as_object).into_iter().flatten();
        rules.map(move |(name, _)| (format!("agent.{agent}.permission.{name}"), name))
    });
    let named = general.chain(own);
    warnings.extend(named.filter_map(|(place, name)| Some(at(place, misnamed(name, config)?))));
    warnings
}

/// Notes about models that their providers may know and the catalog does not.
pub fn unlisted_models(config: &Config, agents: &[Agent], catalog: &Catalog) -> Vec<Warning> {
    let general = [("model", &config.model), ("small_model", &config.small_model)];
    let general = general.into_iter().filter_map(|(key, model)| Some((key.to_owned(), model.clone()?)));
    let own =
        agents.iter().filter_map(|agent| Some((format!("agent.{}.model", agent.name), agent.model.clone()?)));
    let commands = config.commands.iter().filter_map(|(name, command)| {
        Some((format!("command.{name}.model"), parse_model(command.model.as_deref()?)?))
    });
    let named = general.chain(own).chain(commands);
    let note = |(key, model)| {
        let is_usable = catalog.get(&model).is_ok();
        Some(at(key, model_names::unlisted(catalog, &model).filter(|_| is_usable)?))
    };
    named.filter_map(note).collect()
}

/// Returns the problem of a permission's name that no tool asks for; a name unlike ours may be another tool's.
fn misnamed(name: &str, config: &Config) -> Option<String> {
    let governing = tool::permission_name(name);
    if governing != name {
        return Some(format!("has no effect: the tool `{name}` asks for `{governing}`"));
    }
    let known = || permission_names().into_iter().chain(tool::OTHER_PERMISSIONS);
    let is_others =
        name.contains(['*', '?']) || config.mcp.keys().any(|server| name.starts_with(&format!("{server}_")));
    if is_others || known().any(|known| known == name) {
        return None;
    }
    let near = nearest(name, known())?;
    Some(format!("has no effect: nothing asks for `{name}`; did you mean `{near}`?"))
}

/// Returns the names in the deprecated `tools`, the general one's and those of agents, each with its place.
fn switches(config: &Config) -> impl Iterator<Item = (String, &str)> {
    let general = config.written.tools.iter().map(|name| (format!("tools.{name}"), name.as_str()));
    let own = config.agents.iter().flat_map(|(agent, it)| {
        let switches = it.tools.iter().flat_map(|switches| &switches.0);
        switches.map(move |(name, _)| (format!("agent.{agent}.tools.{name}"), name.as_str()))
    });
    general.chain(own)
}

/// Returns the problem of an unknown tool's name.
fn no_tool(name: &str, config: &Config) -> Option<String> {
    let tools = || tool::BUILTIN.iter().map(|tool| &*tool.name).chain(tool::OTHER_PERMISSIONS);
    let is_of_server =
        config.mcp.keys().any(|server| name == server || name.starts_with(&format!("{server}_")));
    if name.contains(['*', '?']) || is_of_server || tools().any(|tool| tool == name) {
        return None;
    }
    let hint = nearest(name, tools()).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Some(format!("has no effect: there is no tool `{name}`{hint}"))
}

fn missing_model(agent: &Agent, catalog: &Catalog) -> Option<Warning> {
    let reference = agent.model.as_ref()?;
    let reason = catalog.get(reference).err()?;
    let message = format!("{reference} cannot be used, so the agent does not answer: {reason}");
    Some(at(format!("agent.{}.model", agent.name), message))
}

fn missing_variant(agent: &Agent, catalog: &Catalog) -> Option<Warning> {
    let reference = agent.model.as_ref()?;
    let model = catalog.find(reference)?;
    let variant = agent.variant.as_ref().filter(|variant| model.variant(variant).is_none())?;
    let name = format!("{}/{}", reference.provider_id, reference.model_id);
    Some(at(format!("agent.{}.variant", agent.name), no_variant(variant, &name, &model.variants)))
}

fn no_variant<T>(variant: &str, model: &str, variants: &[(String, T)]) -> String {
    let names: Vec<&str> = variants.iter().map(|(name, _)| name.as_str()).collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    format!("{model} has no variant `{variant}`, so it is ignored; there is {there}")
}

fn missing_shell(config: &Config) -> Option<Warning> {
    let named = config.shell.as_deref()?;
    let shell = bash::shell(config);
    let found = program::find(config.environment.get("PATH"), &config.directory, Path::new(&shell));
    let message = || format!("there is no program {named}, so `bash` and shell commands of templates fail");
    found.is_none().then(|| at("shell".to_owned(), message()))
}

/// Says that commands do not run in the shell that the account names. That fish and nu are passed over is documented.
fn unusable_shell(config: &Config) -> Option<Warning> {
    let own = config.environment.get("SHELL").filter(|_| config.shell.is_none())?;
    let shell = bash::shell(config);
    let is_known = ["fish", "nu"].iter().any(|name| Path::new(own).ends_with(name));
    let message = || {
        let used = shell.display();
        format!(
            "`{own}` is no shell that runs commands here, so {used} does; `shell` in opencode.json names another"
        )
    };
    (!is_known && shell != own).then(|| at("$SHELL".to_owned(), message()))
}

fn at(source: String, message: String) -> Warning {
    Warning { source, line: None, column: None, message }
}
