//! Plugins and tools that a project brings as files, and the hash of all that they may load.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::{Entry, Gate};
use crate::config::text_file;

/// Directories whose files the host loads, or runs as tools.
const DIRECTORIES: [&str; 4] = ["plugin", "plugins", "tool", "tools"];
/// A directory that the installation of packages fills.
const MODULES: &str = "node_modules";
/// Files and bytes that are looked at; more than that is not what anybody has read.
const MAX_FILES: usize = 2000;
const MAX_BYTES: u64 = 64 << 20;
/// Files that are named.
const MAX_NAMED: usize = 10;

impl Gate {
    /// Holds the plugins and tools of a directory back, unless they are what was trusted. Does blocking reads.
    pub fn scripts(&mut self, directory: &Path) {
        if self.is_open() {
            return;
        }
        let mut loaded = Files::default();
        DIRECTORIES.iter().for_each(|name| loaded.collect(&directory.join(name)));
        if loaded.hashes.is_empty() {
            return;
        }
        // They may import whatever lies beside them.
        let mut files = Files::default();
        files.collect(directory);
        let place = self.place(directory);
        let names: Vec<String> = loaded.hashes.keys().take(MAX_NAMED).map(|file| self.place(file)).collect();
        let n_more = loaded.hashes.len() - names.len();
        let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
        let (what, shown) = (format!("plugins and tools of {place}"), format!("{}{more}", names.join(", ")));
        let is_admitted = if files.is_overfull {
            let shown = format!("{shown}; there is too much beside them to be trusted by itself");
            self.held.entries.push(Entry { what, shown, hash: String::new() });
            false
        } else {
            self.admits(what, shown, &place, &files.content(directory))
        };
        if !is_admitted {
            self.held.directories.insert(directory.to_owned());
        }
    }
}

/// Returns what a plugin is made of that is named by a path; nothing for a package. Does blocking reads.
pub fn of_plugin(base: &Path, name: &str) -> Vec<u8> {
    let path = name.strip_prefix("file://").unwrap_or(name);
    if !path.starts_with(['.', '/']) {
        return Vec::new();
    }
    let path = base.join(path);
    let mut files = Files::default();
    if path.is_dir() {
        files.collect(&path);
    } else {
        files.add(&path);
    }
    files.content(base)
}

/// Returns true for files that only speak, or whose entries are asked about by themselves.
fn is_apart(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(".md") || [".gitignore", "opencode.json", "opencode.jsonc"].contains(&&*name)
}

/// Hashes of files by their paths.
#[derive(Default)]
struct Files {
    hashes: BTreeMap<PathBuf, Vec<u8>>,
    n_bytes: u64,
    /// Directories that were looked through: a link may lead back to one above it.
    visited: HashSet<(u64, u64)>,
    is_overfull: bool,
}

impl Files {
    /// Adds every file below a directory, its links followed, but for those that only speak and for installed packages.
    fn collect(&mut self, directory: &Path) {
        let Ok(metadata) = fs::metadata(directory) else { return };
        if !self.visited.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            if metadata.is_dir() && entry.file_name() != MODULES {
                self.collect(&path);
            } else if metadata.is_file() && !is_apart(&path) {
                self.add(&path);
            }
        }
    }

    fn add(&mut self, file: &Path) {
        let n_bytes = fs::metadata(file).map_or(0, |it| it.len());
        if self.hashes.len() >= MAX_FILES || self.n_bytes + n_bytes > MAX_BYTES {
            self.is_overfull = true;
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
        content
    }
}
