//! Plugins and tools that lie in a project's directory of configuration, as one entry of what it brings.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use super::Gate;
use crate::config::protected_paths::PACKAGE_FILES;

/// Directories whose files the host loads, or runs as tools.
const DIRECTORIES: [&str; 4] = ["plugin", "plugins", "tool", "tools"];
/// Files that are looked at; a directory with more is not what anybody has read.
const MAX_FILES: usize = 2000;

impl Gate {
    /// Holds the plugins and tools of a directory back, unless they are what was trusted. Does blocking reads.
    pub fn scripts(&mut self, directory: &Path) {
        if self.is_open() {
            return;
        }
        let mut files = BTreeMap::new();
        for name in DIRECTORIES {
            collect(&directory.join(name), &mut files);
        }
        if files.is_empty() {
            return;
        }
        for name in PACKAGE_FILES {
            let file = directory.join(name);
            files.extend(fs::read(&file).ok().map(|content| (file, Sha256::digest(content).to_vec())));
        }
        let place = self.place(directory);
        let names: Vec<String> = files.keys().take(10).map(|file| self.place(file)).collect();
        let more = if files.len() > names.len() { ", …" } else { "" };
        let mut content = Vec::new();
        for (file, hash) in &files {
            content.extend_from_slice(self.place(file).as_bytes());
            content.push(0);
            content.extend_from_slice(hash);
        }
        let shown = format!("{}{more}", names.join(", "));
        if !self.admits(format!("plugins and tools of {place}"), shown, &place, &content) {
            self.held.directories.insert(directory.to_owned());
        }
    }
}

/// Adds the hash of every file below a directory.
fn collect(directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if files.len() >= MAX_FILES {
            return;
        }
        // A link leads where its files are read.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() && !path.is_symlink() {
            collect(&path, files);
        } else if metadata.is_file() {
            let hash = fs::read(&path).map(|content| Sha256::digest(content).to_vec()).unwrap_or_default();
            files.insert(path, hash);
        }
    }
}
