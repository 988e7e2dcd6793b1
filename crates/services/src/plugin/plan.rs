//! Plugins and tool files of a directory in the order in which they are loaded.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use windlass_core::config::{
    Config,
    layer::{Kind, Layer},
    merge::{plugin_name, plugin_path},
};

use super::manifest::{self, Manifest};

/// The file that describes a package.
pub(super) const MANIFEST: &str = "package.json";

const PLUGINS: [&str; 2] = ["plugin", "plugins"];
const TOOLS: [&str; 2] = ["tool", "tools"];
/// Packages of logins that come with us, as with OpenCode, which ignores every name that contains one of these.
const SUPERSEDED: [&str; 2] = ["opencode-openai-codex-auth", "opencode-copilot-auth"];

/// Characters that a path's URL says by their numbers.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Everything that the host of a directory loads. Two plans are the same while no file of them has changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// In the order of their functions' calls.
    pub plugins: Vec<Planned>,
    pub tools: Vec<PathBuf>,
    /// Tools that are programs; they need no host.
    pub manifests: Vec<Arc<Manifest>>,
    /// Entries of packages that are left out, because we do the same ourselves.
    pub superseded: Vec<String>,
    /// Files that describe no tool, with the reasons.
    pub problems: Vec<(PathBuf, String)>,
    /// Files that name dependencies of directories of plugins and tools, there or not.
    package_files: Vec<PathBuf>,
    stamps: Vec<Option<(u64, i64, i64)>>,
}

/// A plugin to be loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The entry as it is written, or the file's path.
    pub spec: String,
    pub source: Source,
    pub options: Option<Value>,
    /// The file, directory or variable that names it.
    pub origin: String,
    /// It is the project's and not the user's own: by the file that names it, or because it lies there.
    pub is_projects: bool,
}

/// Place of a plugin's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file or a directory.
    Path(PathBuf),
    /// A package of the registry, by its name.
    Package(String),
}

impl Planned {
    /// Returns the name of the plugin for people.
    pub fn name(&self) -> &str {
        match &self.source {
            Source::Path(_) => &self.spec,
            Source::Package(name) => name,
        }
    }

    /// Returns its entry as it is listed once its path is known.
    pub fn entry(&self) -> Value {
        let spec = match &self.source {
            Source::Path(path) => {
                format!("file://{}", utf8_percent_encode(&path.to_string_lossy(), PATH))
            }
            Source::Package(_) => self.spec.clone(),
        };
        match &self.options {
            Some(options) => json!([spec, options]),
            None => spec.into(),
        }
    }
}

impl Plan {
    /// Reads the directories of plugins and tools, and the lists of plugins in the order of their sources. Does
    /// blocking reads.
    pub fn read(config: &Config, layers: &[Layer]) -> Self {
        let mut plugins = Vec::new();
        if !config.environment.is_on("OPENCODE_PURE") {
            plugins = listed(config, layers);
        }
        let (superseded, plugins): (Vec<_>, Vec<_>) =
            plugins.into_iter().partition(|it| is_superseded(&it.spec));
        let superseded = superseded.into_iter().map(|it| it.spec).collect();
        let tools = config.script_directories().flat_map(|it| scripts(it, &TOOLS)).collect();
        let mut plan = Self { plugins, tools, superseded, ..Self::default() };
        plan.leave_out_refused(config);
        for directory in config.script_directories().flat_map(|it| TOOLS.map(|name| it.join(name))) {
            let (manifests, problems) = manifest::read(&config.project_files, &directory);
            plan.manifests.extend(manifests);
            plan.problems.extend(problems);
        }
        plan.problems.dedup();
        plan.package_files = package_files(config, &plan);
        plan.stamps = plan.files().map(|file| stamp(&file)).collect();
        plan
    }

    /// Leaves out the project's files that others can write, or that are behind a link that leaves the project.
    fn leave_out_refused(&mut self, config: &Config) {
        let problems = &mut self.problems;
        let mut is_taken = |path: &PathBuf| {
            let Some(refusal) = config.project_files.refusal(path) else { return true };
            let problem = (refusal.path.clone(), refusal.to_string());
            if !problems.contains(&problem) {
                problems.push(problem);
            }
            false
        };
        self.plugins.retain(|it| match &it.source {
            Source::Path(path) => is_taken(path),
            Source::Package(_) => true,
        });
        self.tools.retain(is_taken);
    }

    /// Returns true if there is nothing for a host.
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.tools.is_empty()
    }

    /// Returns the files that make another plan when they change.
    pub fn files(&self) -> impl Iterator<Item = PathBuf> {
        let plugins = self.plugins.iter().filter_map(|it| match &it.source {
            Source::Path(path) => Some(path.clone()),
            Source::Package(_) => None,
        });
        let programs = self.manifests.iter().flat_map(|it| it.files());
        let packages = self.package_files.iter().cloned();
        plugins
            .chain(self.tools.iter().cloned())
            .chain(programs)
            .chain(packages)
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Returns a file that has changed since the plan was read. Does blocking reads.
    pub fn changed(&self) -> Option<PathBuf> {
        self.files().zip(&self.stamps).find(|(file, known)| stamp(file) != **known).map(|(file, _)| file)
    }

    /// Returns the files that name the dependencies of the directories of plugins and tools, there or not.
    pub fn package_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.package_files.iter()
    }

    /// Returns the code that each entry runs, and its present state.
    pub fn programs(&self) -> Vec<(String, String, String)> {
        let states = self.files().zip(&self.stamps).map(|(file, stamp)| {
            let file = file.display().to_string();
            (format!("code of {file}"), file, format!("{stamp:?}"))
        });
        states.collect()
    }
}

/// Returns the files that name dependencies, of the directories that hold a plan's plugins or tools.
fn package_files(config: &Config, plan: &Plan) -> Vec<PathBuf> {
    let holds = |directory: &PathBuf| {
        let is_in = |path: &Path| path.starts_with(directory);
        let is_local = |it: &Planned| matches!(&it.source, Source::Path(path) if is_in(path));
        plan.plugins.iter().any(is_local) || plan.tools.iter().any(|it| is_in(it))
    };
    let files = config.directories.iter().filter(|it| holds(it)).map(|it| it.join(MANIFEST));
    files.filter(|file| config.project_files.refusal(file).is_none()).collect()
}

/// Returns true for a package with logins that come with us.
pub fn is_superseded(spec: &str) -> bool {
    SUPERSEDED.iter().any(|it| spec.contains(it))
}

/// Returns the directories that are looked through for plugins and tools.
pub fn directories(config: &Config) -> impl Iterator<Item = PathBuf> {
    let names = PLUGINS.iter().chain(&TOOLS);
    config.directories.iter().flat_map(move |directory| names.clone().map(|name| directory.join(name)))
}

/// Returns the plugins of all sources; the last mention of one stands.
fn listed(config: &Config, layers: &[Layer]) -> Vec<Planned> {
    let global = &config.paths.opencode_config;
    let is_of = |layer: &&Layer, directory: &Path| layer.kind == Kind::File && layer.base == *directory;
    let in_directory = |layer: &&Layer| {
        config.directories.iter().any(|directory| directory != global && is_of(layer, directory))
    };
    let is_late = |layer: &&Layer| matches!(layer.kind, Kind::Variable | Kind::Managed);
    let mut found = Vec::new();
    for layer in layers.iter().filter(|it| !in_directory(it) && !is_late(it) && it.kind != Kind::Plugin) {
        found.extend(entries(config, layer));
    }
    for directory in &config.directories {
        for layer in layers.iter().filter(|it| directory != global && is_of(it, directory)) {
            found.extend(entries(config, layer));
        }
        let is_loaded = config.script_directories().any(|it| it == directory);
        let files = if is_loaded { scripts(directory, &PLUGINS) } else { Vec::new() };
        found.extend(files.into_iter().map(|file| Planned {
            spec: file.display().to_string(),
            is_projects: config.is_projects(&file),
            source: Source::Path(file),
            options: None,
            origin: directory.display().to_string(),
        }));
    }
    for layer in layers.iter().filter(is_late) {
        found.extend(entries(config, layer));
    }
    // One that the user lists too is theirs, wherever the last mention stands.
    let own: Vec<_> =
        found.iter().filter(|it| !it.is_projects).map(|it| (it.source.clone(), it.options.clone())).collect();
    for planned in &mut found {
        planned.is_projects &= !own.contains(&(planned.source.clone(), planned.options.clone()));
    }
    let mut seen = Vec::new();
    found.reverse();
    found.retain(|planned: &Planned| {
        let is_new = !seen.contains(&planned.source);
        seen.push(planned.source.clone());
        is_new
    });
    found.reverse();
    found
}

fn entries(config: &Config, layer: &Layer) -> Vec<Planned> {
    let list = layer.value.get("plugin").and_then(Value::as_array).into_iter().flatten();
    let entry = |entry: &Value| {
        let spec = entry.as_str().or_else(|| entry.get(0)?.as_str())?;
        let source = match plugin_path(&config.environment.home, &layer.base, spec) {
            Some(path) => Source::Path(path),
            None => Source::Package(plugin_name(entry).to_owned()),
        };
        let (spec, options, origin) = (spec.to_owned(), entry.get(1).cloned(), layer.source.clone());
        let lies_there = matches!(&source, Source::Path(path) if config.is_projects(path));
        let is_listed = layer.is_projects && !config.is_of_home();
        Some(Planned { spec, source, options, origin, is_projects: is_listed || lies_there })
    };
    list.filter_map(entry).collect()
}

/// Returns the scripts that lie in subdirectories of a directory, by name.
fn scripts(directory: &Path, names: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in names {
        let entries = fs::read_dir(directory.join(name)).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let is_script =
            |file: &PathBuf| file.extension().is_some_and(|it| it == "ts" || it == "js") && file.is_file();
        let files: BTreeSet<PathBuf> = files.filter(is_script).collect();
        found.extend(files);
    }
    found
}

fn stamp(file: &Path) -> Option<(u64, i64, i64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}
