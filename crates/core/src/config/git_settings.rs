//! The user's own git settings: which directories they call safe for any owner (git's `safe.directory`), and where
//! hooks are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use windlass_base::{
    git::settings::{Setting, settings},
    home,
};

use super::{Environment, text_file};

/// Files within files.
const MAX_DEPTH: usize = 10;

/// The files of the settings that git obeys here: the machine's and the user's, never a repository's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    files: Vec<PathBuf>,
    /// Values that the environment adds, as `git -c` does.
    added: Vec<Setting>,
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
        let added = (0..n_added.min(1000)).filter_map(|idx| {
            let of = |kind: &str| environment.get(&format!("GIT_CONFIG_{kind}_{idx}")).unwrap_or_default();
            let (section, name) = of("KEY").rsplit_once('.')?;
            let (section, name) = (section.to_lowercase(), name.to_lowercase());
            Some(Setting { section, name, value: Some(of("VALUE").to_owned()) })
        });
        Self { files, added: added.collect(), home }
    }

    /// Returns true if a directory is called safe. Does blocking reads.
    pub fn is_safe(&self, directory: &Path) -> bool {
        let mut named = Vec::new();
        for value in self.values("safe", "directory") {
            // An empty one takes the values before it away.
            if value.is_empty() { named.clear() } else { named.push(value) }
        }
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

    /// Returns the directory with git's hooks that is named for all repositories, from that of a worktree. Does blocking
    /// reads.
    pub fn hooks_directory(&self, worktree: &Path) -> Option<PathBuf> {
        let named = self.values("core", "hookspath").pop().filter(|it| !it.is_empty())?;
        Some(home::join(&self.home, worktree, &named))
    }

    fn values(&self, section: &str, name: &str) -> Vec<String> {
        let mut found = Vec::new();
        self.files.iter().for_each(|file| self.read(file, 0, &mut found));
        let found = found.into_iter().chain(self.added.iter().cloned());
        found.filter(|it| it.is(section, name)).map(|it| it.value.unwrap_or_default()).collect()
    }

    /// Reads a file, and those that it includes where it names them.
    fn read(&self, file: &Path, depth: usize, found: &mut Vec<Setting>) {
        let Ok(text) = text_file::read(file) else { return };
        for setting in settings(&text) {
            if setting.is("include", "path") && depth < MAX_DEPTH {
                let base = file.parent().unwrap_or(Path::new("/"));
                let named = setting.value.unwrap_or_default();
                self.read(&home::join(&self.home, base, &named), depth + 1, found);
            } else {
                found.push(setting);
            }
        }
    }
}

#[cfg(test)]
mod tests;
