//! Walks a directory the way ripgrep does: ignore rules honoured, `.git` left out, on several threads.

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

use super::{ToolError, path::one_line};
use crate::base::{lock::lock, text};

/// Paths that are named where some are left out.
const MAX_NAMED: usize = 10;
/// Bytes of a glob that an error shows.
const MAX_SHOWN: usize = 200;
/// Paths that are counted.
const MAX_UNREAD: usize = 1000;

/// What could not be looked at, so that nobody takes it for empty (facts: OpenCode §5.6).
#[derive(Default)]
pub(crate) struct Unread(Mutex<BTreeSet<PathBuf>>);

impl Unread {
    pub(crate) fn insert(&self, path: &Path) {
        let mut paths = lock(&self.0);
        if paths.len() < MAX_UNREAD {
            paths.insert(path.to_owned());
        }
    }

    /// Notes what a walk could not enter. What has gone meanwhile is not missed.
    fn complain(&self, root: &Path, error: &ignore::Error) {
        if error.io_error().is_some_and(|error| error.kind() != ErrorKind::NotFound) {
            self.insert(path_of(error).unwrap_or(root));
        }
    }

    /// Takes what another one noted.
    pub(crate) fn append(&self, other: &Self) {
        lock(&other.0).iter().for_each(|path| self.insert(path));
    }

    /// Threads have come to some of what lies behind this, and not to the rest.
    pub(crate) fn forget_behind(&self, last: &Path) {
        lock(&self.0).retain(|path| path.as_path() < last);
    }

    /// For the model; empty when everything was looked at.
    pub(crate) fn note(&self) -> String {
        let paths = lock(&self.0);
        match paths.is_empty() {
            true => String::new(),
            false => format!("\n\n(Some paths were inaccessible and not searched: {})", names(&paths)),
        }
    }
}

/// The first of the paths, and how many more there are.
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

/// Which files are visited.
#[derive(Clone)]
pub(crate) struct Included {
    /// Empty for all of them.
    matcher: Override,
    /// All that match end in this, which is seen much sooner than the rest.
    end: String,
}

impl Included {
    pub(crate) fn all() -> Self {
        Self { matcher: Override::empty(), end: String::new() }
    }

    /// Files below `root` that match a glob in gitignore's syntax.
    pub(crate) fn by(root: &Path, glob: &str) -> Result<Self, ToolError> {
        Ok(Self { matcher: matcher(root, &[glob])?, end: literal_end(glob).to_owned() })
    }

    fn has(&self, path: &Path) -> bool {
        let may_match = path.as_os_str().as_encoded_bytes().ends_with(self.end.as_bytes());
        may_match && (self.matcher.is_empty() || self.matcher.matched(path, false).is_whitelist())
    }
}

/// What every path that a glob matches ends in; empty where that is not plain to see.
fn literal_end(glob: &str) -> &str {
    // Blanks at the end are no part of a glob, and a backslash may make one.
    if glob.contains('\\') || glob.starts_with(['!', '#']) || glob.ends_with(char::is_whitespace) {
        return "";
    }
    let end = glob.rsplit(['*', '?', '[', ']', '{', '}', '/']).next();
    end.unwrap_or_default()
}

/// Where to walk.
pub(crate) struct Walk<'a> {
    pub root: &'a Path,
    pub unread: &'a Unread,
    /// Whether files and directories whose name begins with a dot are seen.
    pub is_hidden_included: bool,
    pub included: &'a Included,
    /// Globs of what to leave out, besides what ignore files say.
    pub excluded: &'a Override,
}

impl Walk<'_> {
    fn builder(&self) -> WalkBuilder {
        let (included, excluded) = (self.included.clone(), self.excluded.clone());
        let mut builder = WalkBuilder::new(self.root);
        builder.hidden(!self.is_hidden_included).add_custom_ignore_filename(".rgignore");
        builder.filter_entry(move |entry| {
            // Here rather than in the visitor: what is left out is not handed from thread to thread.
            let is_file = entry.file_type().is_some_and(|kind| kind.is_file());
            if is_file && !included.has(entry.path()) {
                return false;
            }
            let is_directory = || entry.file_type().is_some_and(|kind| kind.is_dir());
            let is_excluded = || excluded.matched(entry.path(), is_directory()).is_ignore();
            entry.depth() == 0 || (entry.file_name() != ".git" && (excluded.is_empty() || !is_excluded()))
        });
        builder
    }
}

/// Where a walk in path order ended before its time.
pub(crate) struct Frontier(PathBuf);

impl Frontier {
    /// Whether this file, or all below this directory, was visited.
    pub(crate) fn is_behind(&self, path: &Path) -> bool {
        path < self.0.as_path() && !self.0.starts_with(path)
    }
}

/// Calls `visit` for the files in path order, on this thread: what is wanted is often found in the first of them.
///
/// After `limit` it gives up and answers where it came to; none when it saw all files or the visitor had enough.
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
                walk.unread.complain(walk.root, &error);
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
/// A new visitor is made for each thread by `make_visitor`. A directory that `is_wanted` does not want is not entered.
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
                    walk.unread.complain(walk.root, &error);
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

/// A matcher that says of paths below `root` whether they match a glob, in gitignore's syntax.
pub(crate) fn matcher(root: &Path, globs: &[&str]) -> Result<Override, ToolError> {
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        let bad =
            |error: ignore::Error| ToolError::Model(format!("Invalid glob pattern \"{glob}\": {error}"));
        builder.add(glob).map_err(bad)?;
    }
    // What the error names is a number of ours.
    builder.build().map_err(|_| {
        let globs = globs.join("\", \"");
        let shown = text::head(&globs, MAX_SHOWN);
        let more = if shown.len() < globs.len() { "…" } else { "" };
        ToolError::Model(format!(
            "Invalid glob pattern \"{shown}{more}\": it is too large or nested too deeply"
        ))
    })
}

/// Tells work on another thread to stop once nobody waits for it any more.
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
