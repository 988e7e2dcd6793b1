//! The directories that the user's git settings call safe, whoever owns them (git's `safe.directory`).

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Environment, text_file};
use crate::base::home;

/// Files within files.
const MAX_DEPTH: usize = 10;

/// The files of the settings that git obeys here: the machine's and the user's, never a repository's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    files: Vec<PathBuf>,
    /// Values that the environment adds, as `git -c` does.
    added: Vec<String>,
    home: PathBuf,
}

impl GitSettings {
    pub fn new(environment: &Environment) -> Self {
        let home = environment.home.clone();
        let named = |name: &str| environment.variables.get(name).map(PathBuf::from);
        let mut files = Vec::new();
        if !environment.is_on("GIT_CONFIG_NOSYSTEM") {
            files.push(named("GIT_CONFIG_SYSTEM").unwrap_or("/etc/gitconfig".into()));
        }
        match named("GIT_CONFIG_GLOBAL") {
            Some(file) => files.push(file),
            None => {
                let xdg = environment.get("XDG_CONFIG_HOME").map(PathBuf::from);
                files.push(xdg.unwrap_or_else(|| home.join(".config")).join("git/config"));
                files.push(home.join(".gitconfig"));
            }
        }
        let n_added: usize = environment.get("GIT_CONFIG_COUNT").and_then(|it| it.parse().ok()).unwrap_or(0);
        let added = (0..n_added.min(1000)).filter(|idx| {
            let key = environment.get(&format!("GIT_CONFIG_KEY_{idx}"));
            key.is_some_and(|key| key.eq_ignore_ascii_case("safe.directory"))
        });
        let value = |idx: usize| environment.variables.get(&format!("GIT_CONFIG_VALUE_{idx}")).cloned();
        let added = added.map(|idx| value(idx).unwrap_or_default()).collect();
        Self { files, added, home }
    }

    /// Returns true if a directory is called safe. Does blocking reads.
    pub fn is_safe(&self, directory: &Path) -> bool {
        let mut named = Vec::new();
        self.files.iter().for_each(|file| self.read(file, 0, &mut named));
        self.added.iter().for_each(|value| add(value.clone(), &mut named));
        let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let directory = real(directory);
        named.iter().any(|value| {
            let value = home::expand(&self.home, value);
            match value.strip_suffix("/*") {
                Some(above) => {
                    directory != real(Path::new(above)) && directory.starts_with(real(Path::new(above)))
                }
                None => {
                    value == "*" || Path::new(&value).is_absolute() && real(Path::new(&value)) == directory
                }
            }
        })
    }

    fn read(&self, file: &Path, depth: usize, named: &mut Vec<String>) {
        let Ok(text) = text_file::read(file) else { return };
        let mut section = String::new();
        for line in text.lines() {
            let mut line = line.trim();
            if let Some((header, rest)) = line.strip_prefix('[').and_then(|it| it.split_once(']')) {
                section = header.trim().to_lowercase();
                line = rest.trim();
            }
            let Some((key, value)) = line.split_once('=') else { continue };
            match (section.as_str(), key.trim().to_lowercase().as_str()) {
                ("safe", "directory") => add(unquoted(value), named),
                ("include", "path") if depth < MAX_DEPTH => {
                    let base = file.parent().unwrap_or(Path::new("/"));
                    self.read(&home::join(&self.home, base, &unquoted(value)), depth + 1, named);
                }
                _ => {}
            }
        }
    }
}

/// Adds a value; an empty one takes the values before it away.
fn add(value: String, named: &mut Vec<String>) {
    if value.is_empty() { named.clear() } else { named.push(value) }
}

/// Returns a value without its quotes and what is a comment.
fn unquoted(text: &str) -> String {
    let (mut value, mut n_kept, mut is_quoted) = (String::new(), 0, false);
    let mut letters = text.trim().chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '\\' => value.extend(letters.next()),
            '#' | ';' if !is_quoted => break,
            letter => value.push(letter),
        }
        if is_quoted || !letter.is_whitespace() {
            n_kept = value.len();
        }
    }
    value.truncate(n_kept);
    value
}

#[cfg(test)]
mod tests;
