//! Reads the configuration sources in order of precedence (facts: OpenCode §2.1).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use windlass_base::home;

use super::{
    Config, Environment, Findings, Warning, cache,
    check::check,
    layer::{self, Kind, Layer},
    markdown::{self, Broken},
    market,
    normalize::normalize,
    paths::Paths,
    project_files::ProjectFiles,
    remote,
    text_file::Unreadable,
    trust::{self, Gate, Held},
    worktree::upwards,
};

/// End of the warning about a broken file that is read for the first time.
const IGNORED: &str = "all of it is ignored";

/// End of the warning when the file was fine before.
pub const STILL_HOLDS: &str = "what it said before still holds";

const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// Everything that was read, checked, the weakest first.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// With the variables that well-known entries set.
    pub environment: Environment,
    pub layers: Vec<Layer>,
    pub findings: Findings,
    /// Directories with subdirectories that hold agents, commands and skills as files, the weakest first.
    pub directories: Vec<PathBuf>,
    /// Every file that was looked for, and every file and directory of definitions that was read.
    pub watched: BTreeSet<PathBuf>,
    /// Value of each file that could be parsed, now or before, by its source.
    pub kept: BTreeMap<String, Layer>,
    /// Files of definitions that cannot be used.
    pub broken: Vec<Broken>,
    /// The part of the project that does not act.
    pub held: Held,
}

/// Reads every source that exists.
pub fn read(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    project_files: &ProjectFiles,
) -> Sources {
    read_again(environment, paths, directory, project_files, None)
}

/// Reads every source that exists; a file that is broken says the same as before.
pub fn read_again(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    project_files: &ProjectFiles,
    before: Option<&Config>,
) -> Sources {
    let mut reader = Reader {
        before,
        sources: Sources { environment: environment.clone(), ..Sources::default() },
        paths,
        directory,
        project_files,
        gate: None,
        seen: HashSet::new(),
    };
    project_files.refused.iter().for_each(|it| reader.sources.findings.refuse(it));
    let entries = remote::entries(environment, paths);
    for entry in &entries {
        reader.sources.environment.variables.insert(entry.variable.clone(), entry.token.clone());
    }
    reader.defaults();
    for entry in &entries {
        reader.remote(entry);
    }
    reader.file(&paths.opencode_config.join("config.json"));
    reader.directory(&paths.opencode_config);
    reader.directory(&environment.home.join(".opencode"));
    if let Some(file) = environment.get("OPENCODE_CONFIG") {
        reader.named_file(&directory.join(file));
    }
    let mut project = None;
    if !environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let from_root = project_directories(directory, &project_files.worktree);
        reader.gate =
            Some(Gate::new(environment, paths, directory, &project_files.worktree, &reader.sources.layers));
        let n_before = reader.sources.layers.len();
        for ancestor in &from_root {
            reader.files(ancestor);
        }
        for ancestor in &from_root {
            reader.directory(&ancestor.join(".opencode"));
        }
        project = reader.gate.take().map(|gate| (gate, n_before, reader.sources.layers.len() - n_before));
    }
    if let Some(named) = environment.get("OPENCODE_CONFIG_DIR") {
        reader.named_directory(named);
    }
    reader.variables();
    for managed in &paths.managed {
        reader.managed(managed);
    }
    if let Some((gate, from, n_projects)) = project {
        reader.settle(gate, from, n_projects);
    }
    reader.market();
    reader.sources
}

/// Ancestors of `directory` from the worktree's root down.
pub fn project_directories(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    let mut directories = upwards(directory, worktree);
    directories.reverse();
    directories
}

struct Reader<'a> {
    before: Option<&'a Config>,
    sources: Sources,
    paths: &'a Paths,
    directory: &'a Path,
    project_files: &'a ProjectFiles,
    /// Set while the project's files are read.
    gate: Option<Gate>,
    /// Paths that were looked for already: the home directory may be the project as well.
    seen: HashSet<PathBuf>,
}

impl Reader<'_> {
    fn push(&mut self, mut layer: Layer) {
        let findings = &mut self.sources.findings;
        let mut silent = Findings::default();
        let written = layer.written.take().map(|value| {
            // The same keys under the same names, to be compared. Faults are told of these alone: a warning about a
            // variable's value would say the value.
            let twin = Layer::new(layer.kind, &layer.source, &layer.base, Map::new());
            let mut twin = Layer { value, places: layer.places.clone(), ..twin };
            normalize(&mut twin, findings);
            check(&mut twin, findings);
            twin.value
        });
        let of_values = if written.is_some() { &mut silent } else { findings };
        normalize(&mut layer, of_values);
        check(&mut layer, of_values);
        layer.is_projects = self.gate.is_some() && self.directory != self.sources.environment.home;
        if let Some(gate) = &mut self.gate {
            gate.hold_back(&mut layer, written, &self.sources.layers);
        }
        self.sources.layers.push(layer);
    }

    /// Parses a text with its variables and files filled in. Values that an untrusted project takes from outside of
    /// itself are held back by [`Gate::hold_back`].
    fn parse(&mut self, kind: Kind, source: String, base: &Path, text: &str) -> Layer {
        let is_projects = kind == Kind::File && self.project_files.has(Path::new(&source));
        let project_files = Some(self.project_files).filter(|_| is_projects);
        let Sources { environment, findings, .. } = &mut self.sources;
        let context =
            layer::SourceContext { environment, kind, source, base: base.to_owned(), project_files };
        let gate = self.gate.as_ref().filter(|gate| !gate.is_open());
        let written = gate.and_then(|gate| layer::written(&context, text, gate.root()));
        Layer { written, ..layer::parse(context, text, findings) }
    }

    /// Keeps the parts of the project that were held back, and says so. `from` is the place of its layers, and
    /// `n_projects` their number.
    fn settle(&mut self, mut gate: Gate, from: usize, n_projects: usize) {
        if !gate.is_open() {
            self.sources.watched.insert(self.paths.trust());
            let (before, rest) = self.sources.layers.split_at(from);
            let after = rest.get(n_projects..).unwrap_or_default();
            gate.own_programs(before.iter().chain(after));
        }
        self.sources.held = gate.into_held();
        if let Some(sentence) = self.sources.held.sentence() {
            let root = self.sources.held.root.display().to_string();
            self.warn(&root, sentence);
            if let Some(problem) = trust::problem(self.paths) {
                self.warn(&root, problem);
            }
        }
    }

    fn text(&mut self, kind: Kind, source: String, base: &Path, text: &str) {
        let Sources { environment, watched, .. } = &mut self.sources;
        watched.extend(layer::substituted_files(environment, base, text));
        let layer = self.parse(kind, source, base, text);
        if layer.is_broken && self.keep(&layer.source) {
            return;
        }
        if layer.is_broken && kind == Kind::Managed {
            self.unreadable_rules(&layer.source, None);
            return;
        }
        self.push(layer);
        if matches!(kind, Kind::File | Kind::Managed)
            && let Some(layer) = self.sources.layers.last().filter(|layer| !layer.is_broken)
        {
            // The positions of its parts are of no use once the text is another one.
            let mut kept = Layer::new(kind, &layer.source, &layer.base, layer.value.clone());
            kept.limits.clone_from(&layer.limits);
            kept.is_projects = layer.is_projects;
            kept.substituted.clone_from(&layer.substituted);
            self.sources.kept.insert(kept.source.clone(), kept);
        }
    }

    /// Gives a broken file its earlier content, if it was read before.
    fn keep(&mut self, source: &str) -> bool {
        let Some(layer) = self.before.and_then(|before| before.kept.get(source)) else { return false };
        self.sources.layers.push(layer.clone());
        self.sources.kept.insert(source.to_owned(), layer.clone());
        let warnings = &mut self.sources.findings.warnings;
        if let Some(warning) = warnings.iter_mut().rfind(|warning| warning.source == source) {
            warning.message = warning.message.replace(IGNORED, STILL_HOLDS);
        }
        true
    }

    fn warn(&mut self, source: &str, message: String) {
        let warning = Warning { source: source.to_owned(), line: None, column: None, message };
        self.sources.findings.warnings.push(warning);
    }

    fn defaults(&mut self) {
        let user = ["USER", "LOGNAME"].into_iter().find_map(|name| self.sources.environment.get(name));
        if let Some(user) = user {
            let value = object(json!({ "username": user }));
            self.push(Layer::new(Kind::Default, "the system's user name", self.directory, value));
        }
    }

    fn remote(&mut self, entry: &remote::Entry) {
        let file = remote::cache_file(self.paths, &entry.url);
        self.sources.watched.insert(file.clone());
        match cache::read::<remote::Document>(&file, &entry.url) {
            Ok(Some(document)) => {
                for (source, part) in document.configs() {
                    let Sources { environment, findings, .. } = &mut self.sources;
                    let base = self.directory.to_owned();
                    let context = layer::SourceContext {
                        environment,
                        kind: Kind::Remote,
                        source,
                        base,
                        project_files: None,
                    };
                    let layer = layer::parse_part(context, part, findings);
                    self.push(layer);
                }
            }
            Ok(None) => {}
            Err(error) => self.warn(&file.display().to_string(), error.to_string()),
        }
    }

    /// Reads a file that may be absent.
    fn file(&mut self, file: &Path) {
        self.read_file(file, Kind::File, false);
    }

    /// Reads a file named by the user, so that its absence is worth a warning.
    fn named_file(&mut self, file: &Path) {
        self.read_file(file, Kind::File, true);
    }

    fn read_file(&mut self, file: &Path, kind: Kind, is_required: bool) {
        // The administrator's rules hold also where somebody names his file as one of his own.
        if !self.seen.insert(file.to_owned()) && kind != Kind::Managed {
            return;
        }
        self.sources.watched.insert(file.to_owned());
        let source = file.display().to_string();
        match self.project_files.read_settings(file) {
            Ok(text) => {
                let base = file.parent().unwrap_or(Path::new("/")).to_owned();
                self.text(kind, source, &base, &text);
            }
            Err(err) if err.is_missing() && file.is_symlink() => {
                self.warn(&source, "is a link to something that is not there".to_owned());
                if kind == Kind::Managed && !self.keep(&source) {
                    self.unreadable_rules(&source, None);
                } else if kind != Kind::Managed {
                    self.unreadable(kind, &source);
                }
            }
            Err(err) if err.is_missing() && !is_required => {}
            // Nothing of it holds, its restrictions neither.
            Err(Unreadable::Refused(refusal)) => self.sources.findings.refuse(&refusal),
            Err(err) => {
                let is_kept = !err.is_missing() && self.keep(&source);
                let rest = if is_kept { format!("; {STILL_HOLDS}") } else { String::new() };
                let (line, column) = err.position().unzip();
                let message = format!("cannot be read: {err}{rest}");
                let warning = Warning { source: source.clone(), line, column, message };
                self.sources.findings.warnings.push(warning);
                if kind == Kind::Managed && !is_kept {
                    self.unreadable_rules(&source, None);
                } else if !is_kept {
                    self.unreadable(kind, &source);
                }
            }
        }
    }

    /// Records a source that exists and cannot be read.
    fn unreadable(&mut self, kind: Kind, source: &str) {
        let layer = Layer::new(kind, source, self.directory, Map::new());
        self.sources.layers.push(Layer { is_broken: true, ..layer });
    }

    fn files(&mut self, directory: &Path) {
        for name in NAMES {
            self.file(&directory.join(name));
        }
    }

    /// Reads a directory of configuration: its files, then its agents and commands.
    fn directory(&mut self, directory: &Path) {
        self.files(directory);
        if self.seen.insert(directory.to_owned()) {
            self.definitions(directory);
        }
    }

    /// Reads the directory that the variable names, as OpenCode takes it: a `~` is a name like any other.
    fn named_directory(&mut self, named: &str) {
        let path = self.directory.join(named);
        if !path.is_dir() {
            let hint = if named.starts_with("~/") { "; write out what `~` stands for" } else { "" };
            let message = format!("{} is not a directory{hint}", path.display());
            self.warn("OPENCODE_CONFIG_DIR", message);
        }
        self.directory(&path);
    }

    fn definitions(&mut self, directory: &Path) {
        if let Some(refusal) = self.project_files.refusal(directory) {
            self.sources.findings.refuse(&refusal);
            // It may be mended.
            self.sources.watched.insert(directory.to_owned());
            return;
        }
        self.sources.directories.push(directory.to_owned());
        if let Some(gate) = &mut self.gate {
            gate.scripts(directory);
        }
        let read = markdown::read(self.project_files, directory, &mut self.sources.findings);
        self.sources.watched.extend(read.watched);
        self.sources.broken.extend(read.broken);
        for layer in read.layers {
            self.push(layer);
        }
    }

    fn variables(&mut self) {
        let directory = self.directory.to_owned();
        let environment = self.sources.environment.clone();
        if let Some(text) = environment.get("OPENCODE_CONFIG_CONTENT") {
            self.text(Kind::Variable, "OPENCODE_CONFIG_CONTENT".to_owned(), &directory, text);
        }
        for (name, value) in [
            ("OPENCODE_DISABLE_AUTOCOMPACT", json!({"compaction": {"auto": false}})),
            ("OPENCODE_DISABLE_PRUNE", json!({"compaction": {"prune": false}})),
            ("OPENCODE_AUTO_SHARE", json!({"share": "auto"})),
            ("OPENCODE_DISABLE_SHARE", json!({"share": "disabled"})),
        ] {
            if environment.is_on(name) {
                self.push(Layer::new(Kind::Variable, name, &directory, object(value)));
            }
        }
        if let Some(text) = environment.get("OPENCODE_PERMISSION") {
            self.permission(text);
        }
    }

    fn permission(&mut self, text: &str) {
        const NAME: &str = "OPENCODE_PERMISSION";
        let findings = &mut self.sources.findings;
        let layer = layer::parse_value(NAME, self.directory, "permission", text, findings);
        if !layer.is_broken {
            self.push(layer);
            return;
        }
        self.unreadable_rules(NAME, layer.only_key);
    }

    /// Records an administrator's rules that cannot be read (see `Managed::let_ask`).
    fn unreadable_rules(&mut self, source: &str, only_key: Option<String>) {
        const CONSEQUENCE: &str = "everything that is allowed asks until it is mended";
        let warnings = &mut self.sources.findings.warnings;
        if let Some(warning) = warnings.iter_mut().rfind(|warning| warning.source == source) {
            let message = warning.message.trim_end_matches(IGNORED).trim_end_matches("; ");
            warning.message = format!("{message}; {CONSEQUENCE}");
        }
        let value = object(json!({ "permission": "ask" }));
        let layer = Layer::new(Kind::Managed, source, self.directory, value);
        self.push(Layer { is_broken: true, only_key, ..layer });
    }

    /// Agents of marketplaces: weaker than everything that a person wrote, so that anybody may change them.
    fn market(&mut self) {
        let mut found = Vec::new();
        for (url, place, _) in market_entries(&self.sources.layers, "urls") {
            let file = market::cache_file(self.paths, &url);
            let kept = cache::read_or_log::<cache::Listing<market::KeptAgent>>(&file, &url);
            self.sources.watched.insert(file);
            let Some(kept) = kept else { continue };
            for problem in &kept.problems {
                let message = format!("{}{url}: {problem}", place.message);
                self.sources.findings.warnings.push(Warning { message, ..place.clone() });
            }
            found.extend(market::layers(kept, self.directory));
        }
        for (path, place, root) in market_paths(&self.sources.layers, &self.sources.environment.home) {
            if !root.is_dir() {
                let message = format!("{}{path} is not a directory", place.message);
                self.sources.findings.warnings.push(Warning { message, ..place });
                continue;
            }
            let read = markdown::read_agents(self.project_files, &root, &mut self.sources.findings);
            self.sources.watched.extend(read.watched);
            found.extend(read.layers);
        }
        let is_above = |layer: &Layer| !matches!(layer.kind, Kind::Default | Kind::Remote);
        let at = self.sources.layers.iter().position(is_above).unwrap_or(self.sources.layers.len());
        let above = self.sources.layers.split_off(at);
        for layer in found {
            self.push(layer);
        }
        self.sources.layers.extend(above);
    }

    fn managed(&mut self, directory: &Path) {
        for name in NAMES {
            self.read_file(&directory.join(name), Kind::Managed, false);
        }
        let first = self.sources.layers.len();
        self.definitions(directory);
        for layer in self.sources.layers.iter_mut().skip(first) {
            layer.kind = Kind::Managed;
        }
    }
}

/// Returns the directories that `windlass.agents.paths` names, whether they are there or not.
pub fn market_directories(environment: &Environment, layers: &[Layer]) -> Vec<PathBuf> {
    market_paths(layers, &environment.home).into_iter().map(|(_, _, root)| root).collect()
}

/// Returns an element of `windlass.agents.paths`, where it is said, and the directory that it means.
fn market_paths(layers: &[Layer], home: &Path) -> Vec<(String, Warning, PathBuf)> {
    let entries = market_entries(layers, "paths").into_iter().map(|(path, place, base)| {
        let root = home::join(home, &base, &path);
        (path, place, root)
    });
    entries.collect()
}

/// Returns an element of a list in `windlass.agents`, and where the strongest source that has this list says
/// it.
fn market_entries(layers: &[Layer], list: &str) -> Vec<(String, Warning, PathBuf)> {
    let list_of = |layer: &Layer| {
        let list = layer.value.get("windlass")?.get("agents")?.get(list)?;
        Some(list.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
    };
    let Some((layer, entries)) = layers.iter().rev().find_map(|layer| Some((layer, list_of(layer)?))) else {
        return Vec::new();
    };
    let warning = |idx: usize| layer.warning(&["windlass", "agents", list, &idx.to_string()], String::new());
    let entry = |(idx, entry)| (entry, warning(idx), layer.base.clone());
    entries.into_iter().enumerate().map(entry).collect()
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}
