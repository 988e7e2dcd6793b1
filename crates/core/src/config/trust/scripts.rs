//! Plugins and tools that a project brings as files, and the hash of all that they may load.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Entry, Gate, quoted};
use crate::config::{merge::plugin_path, text_file};

/// Directories of files that the host loads, or runs as tools.
const DIRECTORIES: [&str; 4] = ["plugin", "plugins", "tool", "tools"];
/// Names directly below a project's directory that are no part of its plugins.
const APART: [&str; 3] = [".gitignore", "opencode.json", "opencode.jsonc"];
/// A directory that the installation of packages fills.
const MODULES: &str = "node_modules";
/// Directories of texts that only speak.
const SPEAKING: [&str; 8] = ["agent", "agents", "command", "commands", "mode", "modes", "skill", "skills"];
/// Files and bytes that are looked at; a person has not read more than that.
const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 64 << 20;
/// Files that are named.
const MAX_NAMED: usize = 10;

impl Gate {
    /// Holds something back of which there is too much for a word on it.
    pub(super) fn holds_all(&mut self, what: String, shown: &str) -> bool {
        let shown = format!("{shown}; there is too much of it, or beside it, to be trusted by itself");
        self.held.entries.push(Entry { what, shown, hash: String::new() });
        false
    }

    /// Holds the plugins and tools of a directory back, unless they are the trusted ones. Does blocking reads.
    pub fn scripts(&mut self, directory: &Path) {
        if self.is_open() {
            return;
        }
        let mut loaded = Files::below(directory);
        DIRECTORIES.iter().for_each(|name| loaded.collect(&directory.join(name)));
        if loaded.hashes.is_empty() {
            return;
        }
        // They may import any file that lies beside them.
        let mut files = Files::below(directory);
        files.collect(directory);
        // A tool's program may lie elsewhere in the project.
        let programs = loaded.hashes.keys().filter_map(|file| program(file)).filter(|it| self.is_within(it));
        programs.for_each(|program| files.add(&program));
        let place = self.place(directory);
        let described = |file: &PathBuf| {
            let command = command(file).map(|words| format!(" (runs {words})")).unwrap_or_default();
            format!("{}{command}", self.place(file))
        };
        let names: Vec<String> = loaded.hashes.keys().take(MAX_NAMED).map(described).collect();
        let n_more = loaded.hashes.len() - names.len();
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let (what, shown) = (format!("plugins and tools of {place}"), format!("{}{more}", names.join(", ")));
        let is_admitted = if files.is_overfull {
            self.holds_all(what, &shown)
        } else {
            self.admits(what, shown, &place, &files.content(directory))
        };
        if !is_admitted {
            self.held.directories.insert(directory.to_owned());
        }
    }
}

/// Returns the words of the command in a tool's description; none for a file that is none.
fn words(file: &Path) -> Option<Vec<String>> {
    let is_json = file.extension().is_some_and(|it| it == "json");
    let text = text_file::read(file).ok().filter(|_| is_json)?;
    match serde_json::from_str::<Value>(&text).ok()?.get_mut("command")?.take() {
        Value::String(program) => Some(vec![program]),
        words => serde_json::from_value(words).ok(),
    }
}

/// Returns the command in a tool's description for people.
fn command(file: &Path) -> Option<String> {
    Some(words(file)?.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(" "))
}

/// Returns the program in a tool's description, where it is a file that the description names by its place.
fn program(file: &Path) -> Option<PathBuf> {
    let program = words(file)?.into_iter().next()?;
    let path = program.contains('/').then(|| file.parent().unwrap_or(Path::new("/")).join(program))?;
    path.is_file().then_some(path)
}

/// Returns the contents of a plugin that is named by a path, nothing for a package; none if they are too many. Does
/// blocking reads.
pub fn of_plugin(home: &Path, base: &Path, spec: &str) -> Option<Vec<u8>> {
    let Some(path) = plugin_path(home, base, spec) else { return Some(Vec::new()) };
    let mut files = Files::default();
    if path.is_dir() {
        files.collect(&path);
    } else {
        files.add(&path);
    }
    (!files.is_overfull).then(|| files.content(base))
}

/// Hashes of files by their paths.
#[derive(Default)]
struct Files {
    hashes: BTreeMap<PathBuf, Vec<u8>>,
    n_bytes: u64,
    /// The targets of links by their paths: a directory behind two of them is read once.
    links: BTreeMap<PathBuf, PathBuf>,
    /// Directories that were looked through: a link may lead back to one above it.
    visited: HashSet<(u64, u64)>,
    /// A directory of a project's things, some of which are no part of its plugins.
    root: Option<PathBuf>,
    is_overfull: bool,
}

impl Files {
    fn below(root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..Self::default() }
    }

    /// Returns true for files that only speak, for those with entries that are asked about singly, and for installed
    /// packages: in their places alone, as elsewhere a plugin may load them, and a tool may be described by them.
    fn is_apart(&self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(inner) = self.root.as_ref().and_then(|root| path.strip_prefix(root).ok()) else {
            return name == MODULES;
        };
        let parts: Vec<_> = inner.components().map(|it| it.as_os_str().to_string_lossy()).collect();
        let (is_directly_below, is_text) = (parts.len() == 1, name.ends_with(".md"));
        let is_in = |names: &[&str]| parts.first().is_some_and(|first| names.contains(&&**first));
        // Directly in a directory of tools it would be one of them.
        let are_modules = name == MODULES && !(parts.len() == 2 && is_in(&DIRECTORIES));
        are_modules
            || is_text && (is_directly_below || is_in(&SPEAKING))
            || is_directly_below && APART.contains(&&*name)
    }

    /// Adds every file below a directory, its links followed, but for those that are apart.
    fn collect(&mut self, directory: &Path) {
        let Ok(metadata) = fs::metadata(directory) else { return };
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if self.is_apart(&path) {
                continue;
            }
            if let Ok(target) = fs::read_link(&path) {
                self.links.insert(path.clone(), target);
            }
            if metadata.is_dir() {
                self.collect(&path);
            } else if metadata.is_file() {
                self.add(&path);
            }
        }
    }

    fn add(&mut self, file: &Path) {
        let n_bytes = fs::metadata(file).map_or(0, |it| it.len());
        if self.hashes.len() >= MAX_FILES || self.n_bytes + n_bytes > MAX_BYTES {
            self.is_overfull = true;
            // There, and not looked at.
            if self.hashes.len() < MAX_FILES {
                self.hashes.insert(file.to_owned(), Vec::new());
            }
            return;
        }
        self.n_bytes += n_bytes;
        let mut content = Vec::new();
        let read = text_file::open(file).ok().map(|opened| opened.take(MAX_BYTES).read_to_end(&mut content));
        let is_read = matches!(read, Some(Ok(_)));
        let hash = if is_read { Sha256::digest(&content).to_vec() } else { Vec::new() };
        self.hashes.insert(file.to_owned(), hash);
    }

    /// Returns all of it, with paths from a directory.
    fn content(&self, from: &Path) -> Vec<u8> {
        let mut content = Vec::new();
        for (file, hash) in &self.hashes {
            content.extend_from_slice(file.strip_prefix(from).unwrap_or(file).as_os_str().as_encoded_bytes());
            content.push(0);
            content.extend_from_slice(hash);
        }
        for (link, target) in &self.links {
            for path in [link.strip_prefix(from).unwrap_or(link), target] {
                content.push(0);
                content.extend_from_slice(path.as_os_str().as_encoded_bytes());
            }
        }
        content
    }
}
