//! Searches the files that an entry of `instructions` names.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use globset::{GlobBuilder, GlobMatcher};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::config::{Config, Instruction};

/// Maximum number of directory entries that one pattern may examine.
pub const MAX_ENTRIES: usize = 20_000;

/// The files that one entry of `instructions` names, for entries that are no URLs.
#[derive(Default)]
pub struct Named {
    pub files: Vec<PathBuf>,
    /// True if the search stopped at [`MAX_ENTRIES`].
    pub is_cut: bool,
    /// Directories that could not be searched, with the reasons.
    pub unreadable: Vec<String>,
}

/// Searches the files of an entry. Blocks.
pub fn named(config: &Config, instruction: &Instruction) -> Named {
    let mut named = Named::default();
    let pattern = instruction.pattern.as_str();
    if let Some(rest) = pattern.strip_prefix("~/") {
        named.expand(&config.environment.home, rest);
    } else if let Some(rest) = pattern.strip_prefix('/') {
        named.expand(Path::new("/"), rest);
    } else if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let own_directory = config.named_directory();
        named.expand(own_directory.as_ref().unwrap_or(&config.paths.opencode_config), pattern);
    } else {
        for directory in &config.upwards() {
            named.expand(directory, pattern);
        }
        if named.files.is_empty() {
            named.expand(&instruction.base, pattern);
        }
    }
    named
}

impl Named {
    /// Adds the matching files below `directory`, sorted.
    fn expand(&mut self, directory: &Path, pattern: &str) {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let mut n_left = MAX_ENTRIES;
        let mut places = vec![directory.to_owned()];
        let mut parts: Vec<&str> = pattern.split('/').collect();
        let mut is_searched = false;
        // Matched part by part, so that only directories that match so far are read.
        while let Some((part, rest)) = parts.split_first() {
            if !is_glob(part) {
                places.iter_mut().for_each(|place| place.push(part));
                places.retain(|place| is_there(place));
                parts = rest.to_vec();
                continue;
            }
            is_searched = true;
            let has_whole_braces = part.matches('{').count() == part.matches('}').count();
            let (searched, rest, max_depth) = match (part.contains("**"), has_whole_braces) {
                (true, _) => (parts.join("/"), &[][..], usize::MAX),
                (false, false) => (parts.join("/"), &[][..], parts.len()),
                (false, true) => ((*part).to_owned(), rest, 1),
            };
            let Ok(glob) = GlobBuilder::new(&searched).literal_separator(true).build() else { return };
            let matcher = glob.compile_matcher();
            let mut found = Vec::new();
            for place in &places {
                found.extend(below(place, &matcher, max_depth, &mut n_left, &mut self.unreadable));
            }
            places = found;
            parts = rest.to_vec();
        }
        self.is_cut |= n_left == 0;
        if is_searched {
            // Reading an unreachable file reports the problem later.
            let is_unreachable = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            places.retain(|place| fs::metadata(place).map_or_else(is_unreachable, |it| it.is_file()));
        }
        places.sort();
        self.files.extend(places);
    }
}

/// Returns the matches up to `max_depth` levels below a directory, the nearest first, because the number of
/// examined entries is limited.
fn below(
    directory: &Path,
    matcher: &GlobMatcher,
    max_depth: usize,
    n_left: &mut usize,
    unreadable: &mut Vec<String>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // Only a search at every depth skips ignored directories: a pattern that spells a directory's name means
    // it.
    let is_everything = max_depth == usize::MAX;
    let ignored = if is_everything { Ignored::above(directory) } else { Ignored::default() };
    let mut pending = VecDeque::from([(directory.to_owned(), 1, ignored)]);
    while let Some((place, depth, ignored)) = pending.pop_front() {
        let ignored = if is_everything { ignored.with(&place) } else { ignored };
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    unreadable.push(format!("{} cannot be read: {error}", place.display()));
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            if *n_left == 0 {
                return found;
            }
            *n_left -= 1;
            let path = entry.path();
            if matches!(entry.file_name().to_str(), Some(".git" | "node_modules")) || is_of_kernel(&path) {
                continue;
            }
            if path.strip_prefix(directory).is_ok_and(|relative| matcher.is_match(relative)) {
                found.push(path.clone());
            }
            // Links are not followed, because they may lead back up.
            let is_directory = || entry.file_type().is_ok_and(|kind| kind.is_dir());
            if depth < max_depth && is_directory() && !ignored.has(&path) {
                pending.push_back((path, depth + 1, ignored.clone()));
            }
        }
    }
    found
}

/// The directories that git and search tools skip in the project; the innermost rules last.
#[derive(Clone, Default)]
struct Ignored {
    rules: Vec<Arc<Gitignore>>,
    /// True inside of a repository.
    is_in_git: bool,
}

impl Ignored {
    /// Reads the rules of the directories above, up to the repository's root.
    fn above(directory: &Path) -> Self {
        let Some(root) = directory.ancestors().find(|it| it.join(".git").exists()) else {
            return Self::default();
        };
        let mut ignored = Self { rules: Vec::new(), is_in_git: true };
        ignored.add(root, ".git/info/exclude");
        let mut between: Vec<&Path> =
            directory.ancestors().skip(1).take_while(|it| it.starts_with(root)).collect();
        between.reverse();
        between.into_iter().fold(ignored, |ignored, it| ignored.with(it))
    }

    /// Adds the rules of a directory on top of these.
    fn with(mut self, directory: &Path) -> Self {
        if self.is_in_git {
            self.add(directory, ".gitignore");
        }
        self.add(directory, ".ignore");
        self
    }

    fn add(&mut self, directory: &Path, name: &str) {
        let file = directory.join(name);
        if !file.is_file() {
            return;
        }
        let mut builder = GitignoreBuilder::new(directory);
        // A malformed line ignores nothing.
        let _ = builder.add(file);
        if let Ok(rules) = builder.build() {
            self.rules.push(Arc::new(rules));
        }
    }

    fn has(&self, directory: &Path) -> bool {
        let said = self.rules.iter().rev().map(|rules| rules.matched(directory, true));
        said.into_iter().find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }
}

/// Returns true for the system's virtual file systems, in which files may be endless.
fn is_of_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|directory| path == Path::new(directory))
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

/// Returns true if a pattern matches files of any name.
pub fn names_everything(pattern: &str) -> bool {
    pattern.rsplit('/').next().is_some_and(|last| !last.is_empty() && last.bytes().all(|byte| byte == b'*'))
}

/// Returns true if the name exists, even for an unreachable target, such as that of a broken link.
pub fn is_there(file: &Path) -> bool {
    match fs::metadata(file) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => file.symlink_metadata().is_ok(),
        Ok(_) | Err(_) => true,
    }
}
