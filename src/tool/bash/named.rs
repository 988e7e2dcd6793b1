//! Where the paths lead that a command names, and what its globs match that leads elsewhere.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use super::super::{
    ToolError, blocking,
    path::{self, Roots, Target},
};
use crate::{
    base::{
        home,
        path::{absolute, real},
    },
    config::{Config, rules::wildcard},
    permission::{
        bash::{Analysis, Destination},
        obeyed::{self, Act, Reach},
    },
};

/// Entries that are looked at for what a glob matches.
const MAX_ENTRIES: usize = 4096;

/// Where a command runs and what it names.
pub struct Named {
    pub targets: Vec<Target>,
    /// Of other users: not ours, wherever they are.
    pub homes: Vec<PathBuf>,
    /// Something is written that rules or commands are taken from.
    pub is_obeyed: bool,
}

/// Looks up where everything leads that a command names.
pub async fn judge(config: &Config, workdir: &Path, analysis: &Analysis) -> Result<Named, ToolError> {
    let home = &config.environment.home;
    let mut paths = vec![workdir.to_owned()];
    let mut homes = Vec::new();
    for text in analysis.paths.iter().map(|path| path.text.as_str()).filter(|text| !is_pseudo_file(text)) {
        let expanded = home::expand(home, text);
        match expanded.strip_prefix('~') {
            // Another user's home, or what else the shell makes of `~x`.
            Some(_) => homes.extend(text.split('/').next().map(PathBuf::from)),
            None => paths.extend(readings(workdir, &expanded)),
        }
    }
    let expanded = |text: &String| home::expand(home, text);
    let globs: Vec<PathBuf> = analysis.globs.iter().map(|glob| workdir.join(expanded(glob))).collect();
    let writes = analysis.writes.iter();
    let writes: Vec<(PathBuf, Destination)> =
        writes.map(|it| (workdir.join(expanded(&it.text)), it.clone())).collect();
    let (roots, deciding) = (Roots::new(config), config.deciding.clone());
    blocking(move || {
        let directory = real(&roots.directory);
        let mut targets: Vec<Target> = paths.into_iter().map(|path| path::judge(&roots, path)).collect();
        let found = globs.iter().flat_map(|glob| matches(&roots, glob));
        let found = found.map(|path| path::judge(&roots, path)).filter(|target| !target.is_inside);
        targets.extend(found);
        let is_obeyed = writes.iter().any(|(path, destination)| {
            let real = real(path);
            let Destination { is_tree, is_open, is_removed, is_link, .. } = *destination;
            // What an archive or a patch holds may be `.git/hooks/pre-commit` or the project's `opencode.json`.
            let is_unpacked = is_open && (real.join(".git").exists() || directory.starts_with(&real));
            // What takes the place of a directory brings what is below it; in a directory it has a name of its own.
            let reach = match is_tree {
                true if is_open || is_removed || !real.is_dir() => Reach::Everything,
                true => Reach::Named,
                false => Reach::Itself,
            };
            let act = if is_removed && !is_link { Act::Remove } else { Act::Write };
            let decides = |path: &Path| obeyed::may_change(path, act, reach, &deciding);
            let is_other = !(is_removed && is_tree) && obeyed::is_linked(&real, &deciding);
            is_unpacked || is_other || decides(&real) || decides(&absolute(Path::new("/"), path))
        });
        Ok(Named { targets, homes, is_obeyed })
    })
    .await
}

/// What a text may mean. The kernel takes `..` behind a link for the parent of what it leads to, while the shell's own
/// `cd` takes it for the end of the text.
fn readings(workdir: &Path, text: &str) -> Vec<PathBuf> {
    let as_text = absolute(workdir, text);
    let as_followed = workdir.join(text);
    let has_parent = as_followed.components().any(|it| it == Component::ParentDir);
    std::iter::once(as_text).chain(Some(as_followed).filter(|_| has_parent)).collect()
}

/// What a glob within the project matches, links among it.
fn matches(roots: &Roots, glob: &Path) -> Vec<PathBuf> {
    let mut n_left = MAX_ENTRIES;
    let mut found = vec![PathBuf::new()];
    let mut is_literal = true;
    for part in glob.components() {
        let text = part.as_os_str().to_string_lossy();
        if !text.contains(['*', '?', '[']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        // Elsewhere all of it is asked for anyway.
        if std::mem::take(&mut is_literal) && found.iter().any(|it| !path::judge(roots, it.clone()).is_inside)
        {
            return Vec::new();
        }
        found = match text.as_ref() {
            "**" => found.iter().flat_map(|directory| links_below(directory, &mut n_left)).collect(),
            text => {
                let pattern = simplified(text);
                let is_match =
                    |entry: &fs::DirEntry| wildcard(&pattern, &entry.file_name().to_string_lossy());
                let mut next = Vec::new();
                for directory in &found {
                    let entries = entries(directory, &mut n_left);
                    next.extend(entries.iter().filter(|it| is_match(it)).map(fs::DirEntry::path));
                }
                next
            }
        };
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    found
}

/// A directory's links and those of the directories in it, near ones first.
fn links_below(directory: &Path, n_left: &mut usize) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    let mut ahead = std::collections::VecDeque::from([directory.to_owned()]);
    while let Some(directory) = ahead.pop_front() {
        for entry in entries(&directory, n_left) {
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => found.push(entry.path()),
                Ok(kind) if kind.is_dir() => ahead.push_back(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

fn entries(directory: &Path, n_left: &mut usize) -> Vec<fs::DirEntry> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let found: Vec<fs::DirEntry> = entries.take(*n_left).flatten().collect();
    *n_left -= found.len();
    found
}

/// The pattern with a star for its sets of characters.
fn simplified(text: &str) -> String {
    match (text.find('['), text.rfind(']')) {
        (Some(start), Some(end)) if start < end => format!("{}*{}", &text[..start], &text[end + 1..]),
        _other => text.to_owned(),
    }
}

/// Files that hold nothing of anyone.
fn is_pseudo_file(text: &str) -> bool {
    const NAMES: &[&str] = &["null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty"];
    text.strip_prefix("/dev/").is_some_and(|name| NAMES.contains(&name))
}

#[cfg(test)]
mod tests;
