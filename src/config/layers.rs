//! Reads the configuration sources in order of precedence (facts: OpenCode §2.1).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    Config, Environment, Hook, Warning,
    check::check,
    decode::{Place, resolve},
    layer::{self, Findings, Kind, Layer},
    lower::lower,
    markdown::{self, Broken},
    market,
    paths::Paths,
    remote,
    sources::{Leaf, leaves},
};

/// A larger configuration or `{file:…}` is a mistake.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What the warning about a file that is broken ends with, when it is read for the first time.
const IGNORED: &str = "all of it is ignored";

/// What it ends with when the file was fine before.
const STILL_HOLDS: &str = "what it said before still holds";

const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];

/// Everything that was read, checked, the weakest first.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// With the variables that well-known entries set.
    pub environment: Environment,
    pub layers: Vec<Layer>,
    pub findings: Findings,
    /// Directories whose subdirectories hold agents, commands and skills as files, the weakest first.
    pub directories: Vec<PathBuf>,
    /// Every file that was looked for, and every file and directory of definitions that was read.
    pub watched: BTreeSet<PathBuf>,
    /// What each file says that could be parsed, now or before, by its source.
    pub kept: BTreeMap<String, Layer>,
    /// Files of definitions that cannot be used.
    pub broken: Vec<Broken>,
}

/// Reads every source for `directory` and resolves it; with what it was made of. Never fails: what cannot be used is a
/// warning, and with `before` a file that cannot be used any more says what it said then.
///
/// Does blocking file reads; call it on a blocking thread.
pub fn load(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    hook: Option<Hook<'_>>,
    before: Option<&Config>,
) -> (Config, Vec<Layer>) {
    let worktree = worktree(directory);
    let mut sources = read_again(environment, paths, directory, &worktree, before);
    let broken = std::mem::take(&mut sources.broken);
    let (mut config, layers) = resolve(&Place { paths, directory, worktree: &worktree }, sources, hook);
    if let Some(before) = before {
        broken.iter().for_each(|broken| keep_definition(&mut config, broken, before));
    }
    // Hundreds of prompts, which are in their types already.
    config.raw.shift_remove("agent");
    config.raw.shift_remove("command");
    (config, layers)
}

/// The configuration of a directory, and who set each of its values.
pub fn explain(environment: &Environment, paths: &Paths, directory: &Path) -> (Config, Vec<Leaf>) {
    let worktree = worktree(directory);
    let sources = read(environment, paths, directory, &worktree);
    let (config, layers) = resolve(&Place { paths, directory, worktree: &worktree }, sources, None);
    let leaves = leaves(&config.raw, &layers);
    (config, leaves)
}

/// What lies where configuration is looked for and is not read, and what is wrong in it.
pub fn unread(environment: &Environment, paths: &Paths, directory: &Path) -> Findings {
    const SWITCH: &str = "OPENCODE_DISABLE_PROJECT_CONFIG";
    let worktree = worktree(directory);
    let mut findings = Findings::default();
    let mut note = |path: &Path, message: &str| {
        let source = path.display().to_string();
        findings.notes.push(Warning { source, line: None, column: None, message: message.to_owned() });
    };
    let read_now = read(environment, paths, directory, &worktree);
    let mut variables = environment.variables.clone();
    variables.remove(SWITCH);
    let without_switch = Environment { variables, home: environment.home.clone() };
    let all = read(&without_switch, paths, directory, &worktree);
    let is_read = |source: &str| read_now.layers.iter().any(|layer| layer.source == source);
    let unread: Vec<&Layer> = all.layers.iter().filter(|layer| !is_read(&layer.source)).collect();
    for layer in &unread {
        note(Path::new(&layer.source), &format!("is not read, because {SWITCH} is set"));
    }
    let project = project_directories(directory, &worktree);
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

/// The repository around `directory`: the nearest ancestor with `.git`, a directory or (in a linked worktree) a
/// file; `/` when there is none.
pub fn worktree(directory: &Path) -> PathBuf {
    let root = |directory: &Path| {
        let root = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
        root.map(Path::to_owned)
    };
    // A link into a repository stands elsewhere, and what counts is where it leads, as for git.
    let real = || root(&directory.canonicalize().ok()?);
    root(directory).or_else(real).unwrap_or(PathBuf::from("/"))
}

/// The directory, its parent, and so on up to the worktree's root; of what a link leads to where only that is within.
pub fn upwards(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    let real = || directory.canonicalize().unwrap_or(directory.to_owned());
    let start = if directory.starts_with(worktree) { directory.to_owned() } else { real() };
    start.ancestors().take_while(|it| it.starts_with(worktree)).map(Path::to_owned).collect()
}

/// Lets an agent or a command whose file broke be what it was.
fn keep_definition(config: &mut Config, broken: &Broken, before: &Config) {
    let Broken { file, key, name } = broken;
    let is_kept = match *key {
        "agent" => {
            let agent = before.agents.get(name);
            agent.map(|agent| config.agents.insert(name.clone(), agent.clone())).is_some()
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
}

/// Reads every source that exists.
pub fn read(environment: &Environment, paths: &Paths, directory: &Path, worktree: &Path) -> Sources {
    read_again(environment, paths, directory, worktree, None)
}

/// Reads every source that exists; a file that is broken says what it said before.
fn read_again(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    worktree: &Path,
    before: Option<&Config>,
) -> Sources {
    let mut reader = Reader {
        before,
        sources: Sources { environment: environment.clone(), ..Sources::default() },
        paths,
        directory,
        seen: HashSet::new(),
    };
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
    if !environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let from_root = project_directories(directory, worktree);
        for ancestor in &from_root {
            reader.files(ancestor);
        }
        for ancestor in &from_root {
            reader.directory(&ancestor.join(".opencode"));
        }
    }
    if let Some(named) = environment.get("OPENCODE_CONFIG_DIR") {
        reader.named_directory(named);
    }
    reader.variables();
    for managed in &paths.managed {
        reader.managed(managed);
    }
    reader.market();
    reader.sources
}

/// Ancestors of `directory` from the worktree's root down.
fn project_directories(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    let mut directories = upwards(directory, worktree);
    directories.reverse();
    directories
}

struct Reader<'a> {
    before: Option<&'a Config>,
    sources: Sources,
    paths: &'a Paths,
    directory: &'a Path,
    /// What was looked for already: the home directory may be the project as well.
    seen: HashSet<PathBuf>,
}

impl Reader<'_> {
    fn push(&mut self, mut layer: Layer) {
        lower(&mut layer, &mut self.sources.findings);
        check(&mut layer, &mut self.sources.findings);
        self.sources.layers.push(layer);
    }

    fn text(&mut self, kind: Kind, source: String, base: &Path, text: &str) {
        let Sources { environment, findings, watched, .. } = &mut self.sources;
        watched.extend(layer::substituted_files(environment, base, text));
        let layer = layer::parse(environment, kind, source, base.to_owned(), text, findings);
        if layer.is_broken && self.keep(&layer.source) {
            return;
        }
        self.push(layer);
        if matches!(kind, Kind::File | Kind::Managed)
            && let Some(layer) = self.sources.layers.last().filter(|layer| !layer.is_broken)
        {
            // Where its parts stand is of no use once the text is another one.
            let kept = Layer::new(kind, &layer.source, &layer.base, layer.value.clone());
            self.sources.kept.insert(kept.source.clone(), kept);
        }
    }

    /// Lets a file that is broken say what it said before, if it was read before.
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
        match remote::cached(&file, &entry.url) {
            Ok(Some(document)) => {
                for (source, part) in document.configs() {
                    let Sources { environment, findings, .. } = &mut self.sources;
                    let base = self.directory.to_owned();
                    let layer = layer::parse_part(environment, Kind::Remote, source, base, part, findings);
                    self.push(layer);
                }
            }
            Ok(None) => {}
            Err(message) => self.warn(&file.display().to_string(), message),
        }
    }

    /// A file that may be absent.
    fn file(&mut self, file: &Path) {
        self.read_file(file, Kind::File, false);
    }

    /// A file named by the user, so that its absence is worth a word.
    fn named_file(&mut self, file: &Path) {
        self.read_file(file, Kind::File, true);
    }

    fn read_file(&mut self, file: &Path, kind: Kind, is_required: bool) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        self.sources.watched.insert(file.to_owned());
        let source = file.display().to_string();
        match read_bounded(file) {
            Ok(text) => {
                let base = file.parent().unwrap_or(Path::new("/")).to_owned();
                self.text(kind, source, &base, &text);
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound && file.is_symlink() => {
                self.warn(&source, "is a link to something that is not there".to_owned());
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound && !is_required => {}
            Err(err) => {
                let is_missing = err.kind() == io::ErrorKind::NotFound;
                let is_kept = !is_missing && self.keep(&source);
                let rest = if is_kept { format!("; {STILL_HOLDS}") } else { String::new() };
                self.warn(&source, format!("cannot be read: {err}{rest}"));
            }
        }
    }

    fn files(&mut self, directory: &Path) {
        for name in NAMES {
            self.file(&directory.join(name));
        }
    }

    /// A directory of configuration: its files, then its agents and commands.
    fn directory(&mut self, directory: &Path) {
        self.files(directory);
        if self.seen.insert(directory.to_owned()) {
            self.definitions(directory);
        }
    }

    /// The directory that the variable names, as OpenCode takes it: a `~` is a name like any other.
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
        self.sources.directories.push(directory.to_owned());
        let read = markdown::read(directory, &mut self.sources.findings);
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
        let findings = &mut self.sources.findings;
        let layer = layer::parse_value("OPENCODE_PERMISSION", self.directory, "permission", text, findings);
        self.push(layer);
    }

    /// Agents of marketplaces: weaker than everything that a person wrote, so that anybody may change them.
    fn market(&mut self) {
        let mut found = Vec::new();
        for (url, place, _) in market_entries(&self.sources.layers, "urls") {
            self.sources.watched.insert(market::cache_file(self.paths, &url));
            let Some(kept) = market::kept(self.paths, &url) else { continue };
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
            let read = markdown::read_agents(&root, &mut self.sources.findings);
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
        if self.seen.insert(directory.to_owned()) {
            self.definitions(directory);
        }
        for layer in self.sources.layers.iter_mut().skip(first) {
            layer.kind = Kind::Managed;
        }
    }
}

/// The directories that `windlass.agents.paths` names, whether they are there or not.
pub fn market_directories(environment: &Environment, layers: &[Layer]) -> Vec<PathBuf> {
    market_paths(layers, &environment.home).into_iter().map(|(_, _, root)| root).collect()
}

/// An element of `windlass.agents.paths`, where it is said, and the directory that it means.
fn market_paths(layers: &[Layer], home: &Path) -> Vec<(String, Warning, PathBuf)> {
    let entries = market_entries(layers, "paths").into_iter().map(|(path, place, base)| {
        let root = match path.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => base.join(&path),
        };
        (path, place, root)
    });
    entries.collect()
}

/// An element of a list in `windlass.agents`, and where the strongest source that has this list says it.
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

/// The text of a regular file of at most 1 MiB.
pub fn read_bounded(path: &Path) -> io::Result<String> {
    // Opening a pipe would block, reading a device might never end.
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    fs::File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text in UTF-8"))
}

#[cfg(test)]
mod tests;
