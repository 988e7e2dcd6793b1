//! The configuration of a directory: read and resolved, explained, and the files beside it that are not read.

use std::{collections::BTreeSet, path::Path, sync::Arc};

use super::{
    ADMINISTRATOR, Config, Environment, Findings, Hook, Warning,
    decode::{ProjectContext, resolve},
    faults::Faults,
    filled_in,
    layer::{Kind, Layer},
    limits::Bound,
    markdown::{self, Broken},
    paths::Paths,
    project_files::ProjectFiles,
    reader::{STILL_HOLDS, project_directories, read, read_again},
    secrets,
    sources::{Leaf, leaves},
};

/// Reads every source for `directory` and resolves it; returns its sources too. Never fails: a source that cannot be
/// used is a
/// warning, and with `before` a file that cannot be used any more says the same as then.
///
/// Does blocking file reads; call it on a blocking thread.
pub fn load(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    hooks: &[Hook],
    before: Option<&Config>,
) -> (Config, Vec<Layer>) {
    let project_files = Arc::new(ProjectFiles::find(environment, paths, directory));
    let mut sources = read_again(environment, paths, directory, &project_files, before);
    let broken = std::mem::take(&mut sources.broken);
    let (mut config, layers) =
        resolve(&ProjectContext { paths, directory, project_files: &project_files }, sources, hooks);
    let mut lost = Vec::new();
    for broken in &broken {
        let is_kept = before.is_some_and(|before| keep_definition(&mut config, broken, before));
        if is_kept {
            continue;
        }
        let source = broken.file.display().to_string();
        let problem = config.warnings.iter().find(|it| it.source == source).cloned();
        let message = "cannot be read".to_owned();
        let problem = problem.unwrap_or(Warning { source, line: None, column: None, message });
        if broken.key == "agent" {
            config.unread_models.insert(format!("agent.{}.model", broken.name), problem.to_string());
        }
        lost.push((vec![broken.key.to_owned(), broken.name.clone()], problem));
    }
    config.faults = Faults::of(&config.warnings, &layers);
    lost.iter().for_each(|(path, problem)| config.faults.add(path.clone(), problem));
    // Hundreds of prompts, which are in their types already.
    config.raw.shift_remove("agent");
    config.raw.shift_remove("command");
    (config, layers)
}

/// Returns the configuration of the user's own files, without any project's. Does blocking file reads.
pub fn of_user(environment: &Environment, paths: &Paths) -> Config {
    load(environment, paths, &paths.opencode_config, &[], None).0
}

/// Returns the configuration of a directory, and the source of each of its values.
pub fn explain(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    hooks: &[Hook],
) -> (Config, Vec<Leaf>) {
    let project_files = Arc::new(ProjectFiles::find(environment, paths, directory));
    let sources = read(environment, paths, directory, &project_files);
    let (config, layers) =
        resolve(&ProjectContext { paths, directory, project_files: &project_files }, sources, hooks);
    let leaves = leaves(&config.raw, &layers);
    (config, leaves)
}

/// Returns the merged JSON of a directory as people may see it, without secrets. Does blocking reads.
pub fn shown(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    hooks: &[Hook],
) -> serde_json::Map<String, serde_json::Value> {
    let (config, _) = explain(environment, paths, directory, hooks);
    let mut shown = secrets::masked(&config.raw);
    shown.shift_remove(ADMINISTRATOR);
    for (key, value) in &mut shown {
        filled_in::hide(std::slice::from_ref(key), value, &config.substituted);
    }
    shown
}

/// Returns the reasons why there may be MCP servers that the configuration does not show: sources that cannot
/// be read, and
/// the faults in an entry. Does blocking reads.
pub fn hidden_servers(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    hooks: &[Hook],
) -> Vec<Warning> {
    let project_files = Arc::new(ProjectFiles::find(environment, paths, directory));
    let sources = read(environment, paths, directory, &project_files);
    let (config, layers) =
        resolve(&ProjectContext { paths, directory, project_files: &project_files }, sources, hooks);
    let is_about = |warning: &Warning| {
        layers.iter().filter(|layer| layer.source == warning.source).any(|layer| {
            let position = warning.line.zip(warning.column);
            let of_servers = layer.places.iter().filter(|(place, _)| place.starts_with("/mcp"));
            layer.may_have_said("mcp") || of_servers.into_iter().any(|(_, at)| Some(*at) == position)
        })
    };
    config.warnings.into_iter().filter(is_about).collect()
}

/// Returns the sources that are read for a directory, the weakest first. Does blocking reads.
pub fn sources(environment: &Environment, paths: &Paths, directory: &Path) -> Vec<String> {
    let project_files = ProjectFiles::find(environment, paths, directory);
    let read = read(environment, paths, directory, &project_files);
    read.layers.into_iter().filter(|layer| layer.kind != Kind::Default).map(|layer| layer.source).collect()
}

/// Finds the files that are in the places of configuration and are not read, and the faults in them.
pub fn unread(environment: &Environment, paths: &Paths, directory: &Path) -> Findings {
    const SWITCH: &str = "OPENCODE_DISABLE_PROJECT_CONFIG";
    let project_files = Arc::new(ProjectFiles::find(environment, paths, directory));
    let mut findings = Findings::default();
    let mut note = |path: &Path, message: &str| {
        let source = path.display().to_string();
        findings.notes.push(Warning { source, line: None, column: None, message: message.to_owned() });
    };
    let read_now = read(environment, paths, directory, &project_files);
    let mut variables = environment.variables.clone();
    variables.remove(SWITCH);
    let without_switch = Environment { variables, ..environment.clone() };
    let all = read(&without_switch, paths, directory, &project_files);
    let is_read = |source: &str| read_now.layers.iter().any(|layer| layer.source == source);
    let unread: Vec<&Layer> = all.layers.iter().filter(|layer| !is_read(&layer.source)).collect();
    for layer in &unread {
        note(Path::new(&layer.source), &format!("is not read, because {SWITCH} is set"));
    }
    let project = project_directories(directory, &project_files.worktree);
    let named = project.into_iter().chain(all.directories.iter().cloned());
    for directory in named.collect::<BTreeSet<_>>() {
        for name in ["opencode.json5", "opencode.yaml", "opencode.yml", "opencode.toml", ".opencode.json"] {
            let file = directory.join(name);
            if file.is_file() {
                note(&file, "is not read; `opencode.json` and `opencode.jsonc` are");
            }
        }
    }
    let legacy = paths.opencode_config.join("config");
    if legacy.is_file() {
        note(&legacy, "is not read; write what it says as `opencode.json`");
    }
    let of_unread = |warning: &Warning| unread.iter().any(|layer| layer.source == warning.source);
    findings.warnings.extend(all.findings.warnings.into_iter().filter(of_unread));
    findings
}

/// Keeps an earlier agent or command after its file broke; returns false if there was none.
fn keep_definition(config: &mut Config, broken: &Broken, before: &Config) -> bool {
    let Broken { file, key, name } = broken;
    let is_kept = match *key {
        "agent" => {
            let agent = before.agents.get(name);
            let is_known = agent.map(|agent| config.agents.insert(name.clone(), agent.clone())).is_some();
            let held = before.limits.iter().filter(|it| it.agent.as_ref() == Some(name)).cloned();
            let held: Vec<Bound> = held.filter(|it| is_known && !config.limits.contains(it)).collect();
            config.limits.extend(held);
            is_known
        }
        _ => {
            let command = before.commands.get(name);
            command.map(|command| config.commands.insert(name.clone(), command.clone())).is_some()
        }
    };
    let source = file.display().to_string();
    for warning in config.warnings.iter_mut().filter(|it| is_kept && it.source == source) {
        warning.message = warning.message.replace(markdown::LEFT_OUT, STILL_HOLDS);
    }
    is_kept
}

#[cfg(test)]
mod tests;
