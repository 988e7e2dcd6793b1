//! Reads the configuration sources in order of precedence (facts: OpenCode §2.1).

use std::{
    collections::{HashMap, HashSet},
    fs, io,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{
    Config, Environment, Warning,
    decode::{Place, resolve},
    jsonc::{self, Substitutes},
    paths::Paths,
};

/// A larger configuration or `{file:…}` is a mistake.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// One source of configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// File or variable.
    pub source: String,
    /// Directory that relative paths in it start from.
    pub base: PathBuf,
    pub value: Map<String, Value>,
    /// As written, before substitutions.
    pub text: String,
    offsets: HashMap<String, usize>,
}

impl Layer {
    /// Line and column of a key, 1-based, when this source has it.
    pub fn position(&self, path: &[&str]) -> Option<(usize, usize)> {
        let mut pointer = String::new();
        for key in path {
            jsonc::push_key(&mut pointer, key);
        }
        self.offsets.get(&pointer).map(|&offset| jsonc::position(&self.text, offset))
    }

    /// A warning about the value under `path`.
    pub fn warning(&self, path: &[&str], message: String) -> Warning {
        let position = self.position(path);
        let (line, column) = (position.map(|(line, _)| line), position.map(|(_, column)| column));
        let message = if path.is_empty() { message } else { format!("{}: {message}", path.join(".")) };
        Warning { source: self.source.clone(), line, column, message }
    }
}

/// See [`super::load`].
pub fn load(environment: &Environment, paths: &Paths, directory: &Path) -> Config {
    let worktree = worktree(directory);
    let (layers, warnings) = read(environment, paths, directory, &worktree);
    let place = Place { environment, paths, directory, worktree: &worktree };
    let files = files(environment, paths, directory, &worktree).into_iter().map(|file| file.file);
    let substituted = layers.iter().flat_map(|layer| substituted_files(environment, layer));
    let watched = files.chain(substituted).collect();
    Config { watched, ..resolve(&place, layers, warnings) }
}

/// The repository around `directory`: the nearest ancestor with `.git`, a directory or (in a linked worktree) a
/// file; `/` when there is none.
pub fn worktree(directory: &Path) -> PathBuf {
    let root = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
    root.unwrap_or(Path::new("/")).to_owned()
}

/// Every source that exists, the weakest first.
pub fn read(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    worktree: &Path,
) -> (Vec<Layer>, Vec<Warning>) {
    let mut layers = Vec::new();
    let mut warnings = Vec::new();
    for path in files(environment, paths, directory, worktree) {
        let source = path.file.display().to_string();
        let text = match read_bounded(&path.file) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound && !path.is_required => continue,
            Err(err) => {
                warnings.push(whole(&source, format!("cannot be read: {err}")));
                continue;
            }
        };
        let base = path.file.parent().unwrap_or(Path::new("/")).to_owned();
        layers.push(parse(environment, source, base, text, &mut warnings));
    }
    if let Some(text) = environment.get("OPENCODE_CONFIG_CONTENT") {
        let source = "OPENCODE_CONFIG_CONTENT".to_owned();
        layers.push(parse(environment, source, directory.to_owned(), text.to_owned(), &mut warnings));
    }
    if let Some(text) = environment.get("OPENCODE_PERMISSION") {
        layers.extend(permission_layer(text, directory, &mut warnings));
    }
    (layers, warnings)
}

/// Parses one source; what is wrong with it goes to `warnings`.
pub fn parse(
    environment: &Environment,
    source: String,
    base: PathBuf,
    text: String,
    warnings: &mut Vec<Warning>,
) -> Layer {
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let substitutes = Substitutes {
        variable: &|name| environment.get(name).map(str::to_owned),
        file: &|name| {
            read_bounded(&substituted_file(environment, &base, name))
                .map(|content| content.trim().to_owned())
                .map_err(|err| format!("{{file:{name}}} cannot be read: {err}; it counts as empty"))
        },
    };
    let document = jsonc::parse(&text, &substitutes);
    for (offset, message) in document.problems {
        let (line, column) = jsonc::position(&text, offset);
        warnings.push(Warning { source: source.clone(), line: Some(line), column: Some(column), message });
    }
    Layer { source, base, value: document.value, text, offsets: document.offsets }
}

/// Where `{file:name}` leads in a source of the directory `base`.
fn substituted_file(environment: &Environment, base: &Path, name: &str) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(rest) => environment.home.join(rest),
        None => base.join(name),
    }
}

/// The files that a source's `{file:…}` name.
fn substituted_files(environment: &Environment, layer: &Layer) -> Vec<PathBuf> {
    let names = layer.text.split("{file:").skip(1).filter_map(|rest| rest.split_once('}'));
    names.map(|(name, _)| substituted_file(environment, &layer.base, name)).collect()
}

struct ConfigFile {
    file: PathBuf,
    /// Named by the user, so that its absence is worth a word.
    is_required: bool,
}

/// Files to look for, the weakest first, each once.
fn files(environment: &Environment, paths: &Paths, directory: &Path, worktree: &Path) -> Vec<ConfigFile> {
    const NAMES: [&str; 2] = ["opencode.json", "opencode.jsonc"];
    let both = |directory: PathBuf| NAMES.map(|name| directory.join(name));
    let mut files = vec![paths.opencode_config.join("config.json")];
    files.extend(both(paths.opencode_config.clone()));
    files.extend(both(environment.home.join(".opencode")));
    let required = environment.get("OPENCODE_CONFIG").map(|file| directory.join(file));
    files.extend(required.clone());
    if !environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let from_root = project_directories(directory, worktree);
        files.extend(from_root.iter().flat_map(|ancestor| both(ancestor.to_path_buf())));
        // OpenCode lets the outermost `.opencode` win here, against the order of the files above.
        files.extend(from_root.iter().flat_map(|ancestor| both(ancestor.join(".opencode"))));
    }
    files.extend(environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from).into_iter().flat_map(both));
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(file.clone()));
    let config_file = |file: PathBuf| ConfigFile { is_required: required.as_ref() == Some(&file), file };
    files.into_iter().map(config_file).collect()
}

/// Directories that hold agents, commands and skills as files beside the configuration, the weakest first.
pub fn directories(
    environment: &Environment,
    paths: &Paths,
    directory: &Path,
    worktree: &Path,
) -> Vec<PathBuf> {
    let mut directories = vec![paths.opencode_config.clone(), environment.home.join(".opencode")];
    if !environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let from_root = project_directories(directory, worktree);
        directories.extend(from_root.iter().map(|ancestor| ancestor.join(".opencode")));
    }
    directories.extend(environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from));
    let mut seen = HashSet::new();
    directories.retain(|directory| seen.insert(directory.clone()));
    directories
}

/// Ancestors of `directory` from the worktree's root down.
fn project_directories<'a>(directory: &'a Path, worktree: &Path) -> Vec<&'a Path> {
    let mut directories: Vec<&Path> =
        directory.ancestors().take_while(|ancestor| ancestor.starts_with(worktree)).collect();
    directories.reverse();
    directories
}

fn permission_layer(text: &str, directory: &Path, warnings: &mut Vec<Warning>) -> Option<Layer> {
    let source = "OPENCODE_PERMISSION";
    match serde_json::from_str::<Value>(text) {
        Ok(permission) => Some(Layer {
            source: source.to_owned(),
            base: directory.to_owned(),
            value: Map::from_iter([("permission".to_owned(), permission)]),
            text: text.to_owned(),
            offsets: HashMap::new(),
        }),
        Err(err) => {
            let (line, column) = (Some(err.line()), Some(err.column()));
            let message = format!("is not valid JSON: {err}");
            warnings.push(Warning { source: source.to_owned(), line, column, message });
            None
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    // Opening a pipe would block, reading a device might never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    let file = fs::File::open(path)?;
    let n_bytes = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if n_bytes as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

fn whole(source: &str, message: String) -> Warning {
    Warning { source: source.to_owned(), line: None, column: None, message }
}

#[cfg(test)]
mod tests;
