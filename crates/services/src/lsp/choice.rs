//! Chooses the language servers for a file: configured and known ones, their roots and programs.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_base::{path::absolute, program};
use windlass_core::config::{
    Config, Environment,
    paths::Paths,
    sandbox::enclosure::{Enclosure, Enclosures},
    text_file,
};
use windlass_protocol::opencode::settings::{LanguageServer, Programs};

use super::table::{Extra, ROWS, Row};

/// A server that may be started.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub id: String,
    pub command: Vec<String>,
    pub extensions: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub initialization: Map<String, Value>,
    /// The row of a known server.
    pub row: Option<&'static Row>,
    pub sandbox: Option<Enclosure>,
    /// The sandbox where the program lies in the project.
    pub sandbox_in_project: Option<Enclosure>,
}

/// A server for a file: the command and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub definition: Definition,
    /// The first word of the command; for a known server, the path of the program that was found.
    pub program: PathBuf,
    pub root: PathBuf,
    /// The directory to start in. Words of a configured command are resolved from the session's directory,
    /// where `config::protected_paths` guards them: the root is anywhere that a project has a marker file.
    pub directory: PathBuf,
    /// The options for the server's initialization and for its requests of configuration.
    pub initialization: Value,
    pub sandbox: Option<Enclosure>,
}

/// The directories and the search path of a project.
#[derive(Debug, Clone)]
pub struct Lookup {
    pub directory: PathBuf,
    pub worktree: PathBuf,
    pub environment: Environment,
    pub paths: Paths,
}

impl Lookup {
    pub fn of(config: &Config) -> Self {
        Self {
            directory: config.directory.clone(),
            worktree: config.worktree.clone(),
            environment: config.environment.clone(),
            paths: config.paths.clone(),
        }
    }
}

/// The servers for a file.
#[derive(Debug, Default, PartialEq)]
pub struct Choice {
    pub specs: Vec<Spec>,
    /// Known servers without their programs on this machine: the program and the id of each.
    pub missing: Vec<(&'static str, &'static str)>,
}

/// Returns the servers of a configuration: none unless `lsp` switches them on.
pub fn definitions(config: &Config) -> Vec<Definition> {
    if is_off(config) {
        return Vec::new();
    }
    every(config).into_iter().filter_map(|(definition, is_on)| is_on.then_some(definition)).collect()
}

/// Returns true if the configuration has no language servers.
pub fn is_off(config: &Config) -> bool {
    config.held.holds_programs || matches!(config.settings.lsp, None | Some(Programs::All(false)))
}

/// Returns all known and configured servers, each with true if it is switched on.
fn every(config: &Config) -> Vec<(Definition, bool)> {
    let none = BTreeMap::new();
    let own = match &config.settings.lsp {
        None | Some(Programs::All(_)) => &none,
        Some(Programs::ByName(own)) => own,
    };
    let unused = if config.environment.is_on("OPENCODE_EXPERIMENTAL_LSP_TY") { "pyright" } else { "ty" };
    let sandboxes = Enclosures::of_lsp(config);
    let define = |id: &str, row, own| {
        let is_projects = config.project_programs.names("lsp", id);
        let of_project = sandboxes.of_project();
        define(id, row, own, if is_projects { of_project.clone() } else { sandboxes.own() }, of_project)
    };
    let known = ROWS.iter().map(|row| {
        let is_used = row.id != unused || own.contains_key(row.id);
        define(row.id, Some(row), own.get(row.id)).map(|(definition, is_on)| (definition, is_on && is_used))
    });
    let is_known = |id: &str| ROWS.iter().any(|row| row.id == id);
    let others = own.iter().filter(|(id, _)| !is_known(id)).map(|(id, own)| define(id, None, Some(own)));
    let is_off = is_off(config);
    known.chain(others).flatten().map(|(definition, is_on)| (definition, is_on && !is_off)).collect()
}

/// Defines a server, with true unless its own entry switches it off; `None` if it has no command or no kind of files.
fn define(
    id: &str,
    row: Option<&'static Row>,
    own: Option<&LanguageServer>,
    sandbox: Option<Enclosure>,
    sandbox_in_project: Option<Enclosure>,
) -> Option<(Definition, bool)> {
    let default = LanguageServer::default();
    let own = own.unwrap_or(&default);
    let or_known = |own: &[String], known: Option<&[&str]>| match own {
        [] => known.unwrap_or_default().iter().map(|it| (*it).to_owned()).collect(),
        own => own.to_vec(),
    };
    let command: Vec<String> = or_known(&own.command, row.map(|row| row.command));
    let extensions: Vec<String> = or_known(&own.extensions, row.map(|row| row.extensions));
    let is_usable = !command.is_empty() && !extensions.is_empty();
    let is_on = own.disabled != Some(true);
    let definition = || Definition {
        id: id.to_owned(),
        command,
        extensions,
        environment: own.environment.iter().chain(&own.env).map(|(k, v)| (k.clone(), v.clone())).collect(),
        initialization: own.initialization.clone(),
        row,
        sandbox,
        sandbox_in_project,
    };
    is_usable.then(|| (definition(), is_on))
}

/// Returns the unknown servers of the configuration that lack a key, with that key.
pub fn incomplete(config: &Config) -> Vec<(&str, &'static str)> {
    let Some(Programs::ByName(own)) = &config.settings.lsp else { return Vec::new() };
    let custom = own
        .iter()
        .filter(|(id, own)| own.disabled != Some(true) && !ROWS.iter().any(|row| row.id == id.as_str()));
    custom
        .filter_map(|(id, own)| match (own.command.is_empty(), own.extensions.is_empty()) {
            (true, _) => Some((id.as_str(), "command")),
            (false, true) => Some((id.as_str(), "extensions")),
            (false, false) => None,
        })
        .collect()
}

/// A language server and its program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub id: String,
    /// The first word of its command.
    pub command: String,
    /// The path of the program; `None` if it was not found.
    pub path: Option<PathBuf>,
    /// Set if the configuration names it, so that its absence deserves a warning.
    pub is_configured: bool,
    pub is_on: bool,
    /// Ends of the names of its files, or whole names.
    pub extensions: Vec<String>,
    /// The packages of npm that bring the program.
    pub packages: &'static [&'static str],
}

/// Returns the enabled servers with their programs. Reads directories: call it on a blocking thread.
pub fn programs(config: &Config) -> Vec<Program> {
    if is_off(config) {
        return Vec::new();
    }
    every_program(config).into_iter().filter(|it| it.is_on).collect()
}

/// Returns all known and configured servers with their programs. Reads directories: call it on a blocking thread.
pub fn every_program(config: &Config) -> Vec<Program> {
    let own = match &config.settings.lsp {
        Some(Programs::ByName(own)) => Some(own),
        Some(Programs::All(_)) | None => None,
    };
    let of_definition = |(definition, is_on): (Definition, bool)| {
        let command = definition.command.first().cloned().unwrap_or_default();
        let path = definition.environment.get("PATH").map(String::as_str);
        let search = path.or_else(|| config.environment.get("PATH"));
        Program {
            path: program::find(search, &config.directory, Path::new(&command))
                .or_else(|| installed(&command, &config.directory, &config.worktree))
                .or_else(|| fetched(&config.paths, definition.usual_row()?)),
            is_configured: own.is_some_and(|own| own.contains_key(&definition.id)),
            is_on,
            packages: definition.usual_row().map(|row| row.packages).unwrap_or_default(),
            extensions: definition.extensions,
            id: definition.id,
            command,
        }
    };
    every(config).into_iter().map(of_definition).collect()
}

impl Definition {
    /// Returns the row of a known server that is started by its own command.
    fn usual_row(&self) -> Option<&'static Row> {
        self.row.filter(|row| self.command == row.command)
    }

    /// Returns true if a file belongs to this server, by its name.
    pub fn takes(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let ends = |end: &String| {
            if end.starts_with('.') {
                name.len() > end.len() && name.ends_with(end.as_str())
            } else {
                *end == name || name.rsplit_once('.').is_some_and(|(_, extension)| extension == end)
            }
        };
        self.extensions.iter().any(ends)
    }

    /// Returns the root for a file; `None` if the file belongs to another server after all.
    fn root(&self, path: &Path, project: &Path, worktree: &Path) -> Option<PathBuf> {
        let Some(row) = self.row else { return Some(project.to_owned()) };
        if nearest(path, project, row.unless).is_some() {
            return None;
        }
        match row.roots.iter().find_map(|markers| nearest(path, project, markers)) {
            Some(root) if row.extra == Extra::CargoWorkspace => Some(cargo_workspace(root, worktree)),
            Some(root) => Some(root),
            None => (!row.is_strict).then(|| project.to_owned()),
        }
    }

    fn initialization(&self, root: &Path, environment: &Environment) -> Value {
        let row = self.row.map_or(Extra::None, |row| row.extra);
        let mut options = match row {
            Extra::None | Extra::CargoWorkspace => Map::new(),
            Extra::NoTelemetry => object("telemetry", json!({ "enabled": false })),
            Extra::Terraform => object(
                "experimentalFeatures",
                json!({ "prefillRequiredFields": true, "validateOnSave": true }),
            ),
            Extra::TypeScriptServer => typescript(root)
                .map_or_else(Map::new, |it| object("tsserver", json!({ "path": it.join("tsserver.js") }))),
            Extra::TypeScriptLibrary => {
                typescript(root).map_or_else(Map::new, |it| object("typescript", json!({ "tsdk": it })))
            }
            Extra::VirtualEnvironment => {
                let active = environment.get("VIRTUAL_ENV").map(PathBuf::from);
                let places = active.into_iter().chain([root.join(".venv"), root.join("venv")]);
                let mut interpreters = places.map(|it| it.join("bin/python"));
                let found = interpreters.find(|it| it.exists());
                found.map_or_else(Map::new, |it| object("pythonPath", json!(it)))
            }
        };
        options.extend(self.initialization.clone());
        Value::Object(options)
    }
}

/// Returns the TypeScript library that a module in the root would load, resolved as by node.
fn typescript(root: &Path) -> Option<PathBuf> {
    let mut libraries = root.ancestors().map(|it| it.join("node_modules/typescript/lib"));
    libraries.find(|it| it.join("tsserver.js").exists())
}

fn object(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// Chooses the servers for a file; its path must have every link followed. Reads directories: call it on a
/// blocking thread.
pub fn choose(lookup: &Lookup, definitions: Vec<Definition>, path: &Path) -> Choice {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let project = real(&lookup.directory);
    // Outside of repositories the worktree is the whole file system.
    let worktree = if lookup.worktree == Path::new("/") { project.clone() } else { real(&lookup.worktree) };
    let mut choice = Choice::default();
    for definition in definitions.into_iter().filter(|it| it.takes(path)) {
        let Some(root) = definition.root(path, &project, &worktree) else { continue };
        let (program, directory) = match definition.usual_row() {
            Some(row) => match on_path(row.command[0], &definition, &lookup.environment)
                .or_else(|| installed(row.command[0], &root, &worktree))
                .or_else(|| fetched(&lookup.paths, row))
            {
                Some(program) => (program, root.clone()),
                None => {
                    choice.missing.push((row.command[0], row.id));
                    continue;
                }
            },
            None => (definition.command.first().map(PathBuf::from).unwrap_or_default(), project.clone()),
        };
        let initialization = definition.initialization(&root, &lookup.environment);
        let is_in_project =
            program.components().count() > 1 && absolute(&project, &program).starts_with(&worktree);
        let in_project = definition.sandbox_in_project.as_ref().filter(|_| is_in_project);
        let sandbox = definition.sandbox.as_ref().or(in_project).cloned();
        choice.specs.push(Spec { definition, program, root, directory, initialization, sandbox });
    }
    choice
}

/// Returns the directory nearest to the file, up to the project's, that contains one of the markers.
fn nearest(path: &Path, project: &Path, markers: &[&str]) -> Option<PathBuf> {
    let within = path.ancestors().skip(1).take_while(|it| it.starts_with(project));
    within.into_iter().find(|directory| holds(directory, markers)).map(Path::to_owned)
}

fn holds(directory: &Path, markers: &[&str]) -> bool {
    markers.iter().any(|marker| match marker.strip_prefix('*') {
        None => directory.join(marker).exists(),
        Some(end) => {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.into_iter().any(|it| it.file_name().to_string_lossy().ends_with(end))
        }
    })
}

/// Returns the workspace of a crate: the nearest directory above it, within the repository, that declares one.
fn cargo_workspace(root: PathBuf, worktree: &Path) -> PathBuf {
    let above = root.ancestors().take_while(|it| *it == root || it.starts_with(worktree));
    let is_workspace =
        |it: &&Path| text_file::read(&it.join("Cargo.toml")).is_ok_and(|text| text.contains("[workspace]"));
    let found = above.into_iter().find(is_workspace).map(Path::to_owned);
    found.unwrap_or(root)
}

/// Finds a program without searching the project: the user may not have meant to run the programs there.
fn on_path(name: &str, definition: &Definition, environment: &Environment) -> Option<PathBuf> {
    let own = definition.environment.get("PATH").map(String::as_str);
    program::find_outside(own.or_else(|| environment.get("PATH")), Path::new(name))
}

/// Finds a program among those that npm has installed for the project, in its root or above within the repository.
fn installed(name: &str, root: &Path, worktree: &Path) -> Option<PathBuf> {
    // Outside of repositories nothing says where a project ends.
    let is_within = |it: &&Path| *it == root || worktree != Path::new("/") && it.starts_with(worktree);
    let own = Path::new("node_modules/.bin").join(name);
    let mut above = root.ancestors().take_while(is_within);
    (!name.contains('/')).then(|| above.find_map(|directory| program::find(None, directory, &own))).flatten()
}

/// Finds the program of a known server that the user has had installed.
fn fetched(paths: &Paths, row: &Row) -> Option<PathBuf> {
    let own = Path::new("node_modules/.bin").join(row.command[0]);
    program::find(None, &paths.language_server(row.id), &own)
}

#[cfg(test)]
mod tests;
