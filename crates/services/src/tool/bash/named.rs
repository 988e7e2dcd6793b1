//! Looks up where the paths lead that a command names, and which paths its globs match elsewhere.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use serde_json::{Map, Value};
use windlass_base::{home, path::absolute};
use windlass_core::{
    config::{Config, rules::wildcard},
    permission::{Ask, protected::is_protected},
};

use super::{
    super::{
        ToolError, blocking,
        path::{self, Roots, Target},
    },
    line::Line,
};

/// Entries that are looked at for the matches of a glob.
const MAX_ENTRIES: usize = 4096;

/// The directory that a command runs in and the paths that it names.
pub struct Named {
    pub targets: Vec<Target>,
    /// Home directories of other users, which are outside wherever they are.
    pub homes: Vec<PathBuf>,
}

/// Looks up where everything leads that a command names.
pub async fn judge(config: &Config, workdir: &Path, line: &Line) -> Result<Named, ToolError> {
    let home = &config.environment.home;
    let mut paths = vec![workdir.to_owned()];
    let mut homes = Vec::new();
    for text in line.paths.iter().filter(|text| !is_pseudo_file(text)) {
        let expanded = home::expand(home, text);
        match expanded.strip_prefix('~') {
            // Another user's home, or another path that the shell makes of `~x`.
            Some(_) => homes.extend(text.split('/').next().map(PathBuf::from)),
            None => paths.extend(readings(workdir, &expanded)),
        }
    }
    let globs = line.globs.iter().map(|glob| workdir.join(home::expand(home, glob)));
    let globs: Vec<PathBuf> = globs.collect();
    let roots = Roots::new(config);
    blocking(move || {
        let mut targets: Vec<Target> = paths.into_iter().map(|path| path::judge(&roots, path)).collect();
        let found = globs.iter().flat_map(|glob| matches(&roots, glob));
        let found = found.map(|path| path::judge(&roots, path)).filter(|target| !target.is_inside);
        targets.extend(found);
        Ok(Named { targets, homes })
    })
    .await
}

/// Returns the question about the files that a line's redirections write, marked if one of them decides something: they
/// are changes of files, behind any command.
pub async fn written(
    config: &Config,
    workdir: &Path,
    line: &Line,
    metadata: Map<String, Value>,
) -> Result<Option<(Ask, bool)>, ToolError> {
    let home = &config.environment.home;
    let texts = line.written.iter().filter(|text| !is_pseudo_file(text));
    let written: Vec<(String, PathBuf)> =
        texts.map(|text| (text.clone(), absolute(workdir, home::expand(home, text)))).collect();
    if written.is_empty() {
        return Ok(None);
    }
    let (roots, sources) = (Roots::new(config), config.protected.clone());
    blocking(move || {
        let mut patterns = Vec::new();
        let mut decides = false;
        for (text, path) in written {
            // Where the shell has to find the name first, a rule for all files is the one that counts.
            if text.contains(['$', '`', '~']) {
                patterns.push(text);
                continue;
            }
            let target = path::judge(&roots, path);
            decides |= [&target.path, &target.real].into_iter().any(|it| is_protected(it, &sources));
            patterns.extend(target.patterns);
        }
        let always = if decides { Vec::new() } else { vec!["*".to_owned()] };
        Ok(Some((Ask { permission: "edit".to_owned(), patterns, always, metadata }, decides)))
    })
    .await
}

/// Returns the paths that a text may mean. The kernel takes `..` behind a link for the parent of the link's target,
/// while the shell's own `cd` takes it for the end of the text.
fn readings(workdir: &Path, text: &str) -> Vec<PathBuf> {
    let as_text = absolute(workdir, text);
    let as_followed = workdir.join(text);
    let has_parent = as_followed.components().any(|it| it == Component::ParentDir);
    std::iter::once(as_text).chain(Some(as_followed).filter(|_| has_parent)).collect()
}

/// Returns the matches of a glob within the project, links among them.
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
        let pattern = simplified(&text);
        let is_match = |entry: &fs::DirEntry| wildcard(&pattern, &entry.file_name().to_string_lossy());
        let mut next = Vec::new();
        for directory in &found {
            let entries = entries(directory, &mut n_left);
            next.extend(entries.iter().filter(|it| is_match(it)).map(fs::DirEntry::path));
        }
        found = next;
    }
    found.retain(|path| fs::symlink_metadata(path).is_ok());
    found
}

fn entries(directory: &Path, n_left: &mut usize) -> Vec<fs::DirEntry> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let found: Vec<fs::DirEntry> = entries.take(*n_left).flatten().collect();
    *n_left -= found.len();
    found
}

/// Replaces a pattern's sets of characters by a star.
fn simplified(text: &str) -> String {
    match (text.find('['), text.rfind(']')) {
        (Some(start), Some(end)) if start < end => format!("{}*{}", &text[..start], &text[end + 1..]),
        _other => text.to_owned(),
    }
}

/// Returns true for devices that hold no data.
fn is_pseudo_file(text: &str) -> bool {
    const NAMES: &[&str] = &["null", "zero", "full", "random", "urandom", "stdin", "stdout", "stderr", "tty"];
    text.strip_prefix("/dev/").is_some_and(|name| NAMES.contains(&name))
}
