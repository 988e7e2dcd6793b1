//! Walks a directory as ripgrep does: obeys ignore rules, skips `.git`, and uses several threads.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ignore::{
    DirEntry, WalkBuilder, WalkState,
    overrides::{Override, OverrideBuilder},
};
use windlass_base::{ignore_files, lock::lock, text};

use super::{ToolError, path::one_line};

/// Maximum number of skipped paths that are named.
const MAX_NAMED: usize = 10;
/// Maximum bytes of a glob that an error shows.
const MAX_SHOWN: usize = 200;
/// Maximum number of paths that are counted.
const MAX_UNREAD: usize = 1000;

/// Paths that could not be searched, so that the model does not take them for empty (facts: OpenCode §5.6).
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<BTreeSet<PathBuf>>>);

impl Unread {
    pub(crate) fn insert(&self, path: &Path) {
        let mut paths = lock(&self.0);
        if paths.len() < MAX_UNREAD {
            paths.insert(path.to_owned());
        }
    }

    /// Records a path that a walk could not enter, unless it was removed meanwhile.
    fn record_error(&self, root: &Path, error: &ignore::Error) {
        if error.io_error().is_some_and(|error| error.kind() != ErrorKind::NotFound) {
            self.insert(path_of(error).unwrap_or(root));
        }
    }

    /// Adds the paths of another walk.
    pub(crate) fn append(&self, other: &Self) {
        lock(&other.0).iter().for_each(|path| self.insert(path));
    }

    /// Forgets the paths behind `last`, which the threads have covered only in part.
    pub(crate) fn forget_behind(&self, last: &Path) {
        lock(&self.0).retain(|path| path.as_path() < last);
    }

    /// Formats a note for the model; empty if everything was searched.
    pub(crate) fn note(&self) -> String {
        let paths = lock(&self.0);
        if paths.is_empty() {
            String::new()
        } else {
            format!("\n\n(Some paths were inaccessible and not searched: {})", names(&paths))
        }
    }
}

/// Lists the first of the paths, and the number of the others.
pub(crate) fn names(paths: &BTreeSet<PathBuf>) -> String {
    let names: Vec<String> = paths.iter().take(MAX_NAMED).map(|path| one_line(path)).collect();
    let n_more = paths.len().saturating_sub(names.len());
    let more = if n_more > 0 { format!(" and {n_more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        _other => None,
    }
}

/// The files to visit.
#[derive(Clone)]
pub(crate) struct Included {
    /// The glob; empty for all files.
    matcher: Override,
    /// A suffix of all matching paths, which is checked much sooner than the rest.
    end: String,
}

impl Included {
    pub(crate) fn all() -> Self {
        Self { matcher: Override::empty(), end: String::new() }
    }

    /// Selects files below `root` that match a glob in gitignore's syntax.
    pub(crate) fn by(root: &Path, glob: &str) -> Result<Self, ToolError> {
        Ok(Self { matcher: matcher(root, &[glob])?, end: literal_end(glob).to_owned() })
    }

    fn has(&self, path: &Path) -> bool {
        let may_match = path.as_os_str().as_encoded_bytes().ends_with(self.end.as_bytes());
        may_match && (self.matcher.is_empty() || self.matcher.matched(path, false).is_whitelist())
    }
}

/// Returns the suffix of every path that a glob matches; empty if it is not obvious.
fn literal_end(glob: &str) -> &str {
    // Trailing blanks are no part of a glob unless a backslash is in front of them.
    if glob.contains('\\') || glob.starts_with(['!', '#']) || glob.ends_with(char::is_whitespace) {
        return "";
    }
    let end = glob.rsplit(['*', '?', '[', ']', '{', '}', '/']).next();
    end.unwrap_or_default()
}

/// The parameters of a walk.
pub(crate) struct Walk<'a> {
    pub root: &'a Path,
    pub unread: &'a Unread,
    /// True to visit files and directories with names that begin with a dot.
    pub is_hidden_included: bool,
    pub included: &'a Included,
    /// Globs of paths to leave out, in addition to ignore files.
    pub excluded: &'a Override,
}

impl Walk<'_> {
    fn builder(&self) -> WalkBuilder {
        let (included, excluded, unread) =
            (self.included.clone(), self.excluded.clone(), self.unread.clone());
        let mut builder = WalkBuilder::new(self.root);
        builder.hidden(!self.is_hidden_included);
        if ignore_files::is_blocked_above(self.root) {
            builder.parents(false).ignore(false).git_ignore(false).git_exclude(false);
        } else {
            builder.add_custom_ignore_filename(".rgignore");
        }
        builder.filter_entry(move |entry| {
            // Filtered here rather than in the visitor, so that skipped files are not handed from thread to
            // thread.
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && !included.has(entry.path()) {
                return false;
            }
            let is_directory = || entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_excluded = || excluded.matched(entry.path(), is_directory()).is_ignore();
            if entry.depth() > 0 && (entry.file_name() == ".git" || !excluded.is_empty() && is_excluded()) {
                return false;
            }
            let is_blocked = entry.depth() > 0 && is_directory() && ignore_files::is_blocked(entry.path());
            if is_blocked {
                unread.insert(entry.path());
            }
            !is_blocked
        });
        builder
    }
}

/// The path at which a walk in path order was stopped.
pub(crate) struct Frontier(PathBuf);

impl Frontier {
    /// Returns true if this file, or everything below this directory, was visited.
    pub(crate) fn is_behind(&self, path: &Path) -> bool {
        path < self.0.as_path() && !self.0.starts_with(path)
    }
}

/// Calls `visit` for the files in path order, on this thread: the wanted files are often among the first.
///
/// After `limit` it gives up and returns its position; `None` if it saw all files or the visitor stopped it.
pub(crate) fn first_files(
    walk: &Walk<'_>,
    stopped: &AtomicBool,
    limit: Duration,
    mut visit: impl FnMut(&DirEntry) -> ControlFlow<()>,
) -> Option<Frontier> {
    let start = Instant::now();
    let mut builder = walk.builder();
    for entry in builder.sort_by_file_name(std::ffi::OsStr::cmp).build() {
        if stopped.load(Ordering::Relaxed) {
            return None;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                walk.unread.record_error(walk.root, &error);
                continue;
            }
        };
        if start.elapsed() > limit {
            return Some(Frontier(entry.into_path()));
        }
        if entry.file_type().is_some_and(|kind| kind.is_file()) && visit(&entry).is_break() {
            return None;
        }
    }
    None
}

/// Calls `visit` for every file, on several threads at once and in no order.
///
/// `make_visitor` makes a new visitor for each thread. Directories for which `is_wanted` returns false are not
/// entered.
pub(crate) fn files<V>(
    walk: &Walk<'_>,
    stopped: &AtomicBool,
    is_wanted: impl Fn(&Path) -> bool + Sync,
    make_visitor: impl Fn() -> V + Sync,
) where
    V: FnMut(&DirEntry) -> ControlFlow<()> + Send,
{
    walk.builder().build_parallel().run(|| {
        let (mut visit, is_wanted) = (make_visitor(), &is_wanted);
        Box::new(move |entry| {
            if stopped.load(Ordering::Relaxed) {
                return WalkState::Quit;
            }
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    walk.unread.record_error(walk.root, &error);
                    return WalkState::Continue;
                }
            };
            match entry.file_type() {
                Some(kind) if kind.is_file() => {}
                Some(kind) if kind.is_dir() && !is_wanted(entry.path()) => return WalkState::Skip,
                Some(_) | None => return WalkState::Continue,
            }
            match visit(&entry) {
                ControlFlow::Continue(()) => WalkState::Continue,
                ControlFlow::Break(()) => WalkState::Quit,
            }
        })
    });
}

/// Makes a matcher of a glob in gitignore's syntax for paths below `root`.
pub(crate) fn matcher(root: &Path, globs: &[&str]) -> Result<Override, ToolError> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        let bad =
            |error: ignore::Error| ToolError::Model(format!("Invalid glob pattern \"{glob}\": {error}"));
        builder.add(glob).map_err(bad)?;
    }
    // The error names a number of ours rather than the glob.
    builder.build().map_err(|_| {
        let globs = globs.join("\", \"");
        let shown = text::head(&globs, MAX_SHOWN);
        let more = if shown.len() < globs.len() { "…" } else { "" };
        ToolError::Model(format!(
            "Invalid glob pattern \"{shown}{more}\": it is too large or nested too deeply"
        ))
    })
}

/// Stops work on another thread when its caller is dropped.
#[derive(Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
