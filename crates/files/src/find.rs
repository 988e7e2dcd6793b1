//! Finds text in files, files by a few letters of their paths, and symbols by their names.

use std::{
    cmp::Reverse,
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use ignore::{WalkBuilder, WalkState};
use windlass_base::{blocking::blocking, ignore_files, lock::lock, text};
use windlass_protocol::opencode::file::{LineMatch, NodeType, Submatch, Symbol, Text};

use super::{fuzzy, roots::FilesError};
use crate::Files;

/// Lines that a search for text returns.
const MAX_LINES: usize = 100;
/// Bytes of a line that are shown.
const MAX_LINE: usize = 2000;
/// Length of a line from which on a file is not text and is skipped.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Paths among which files are looked for.
const MAX_PATHS: usize = 500_000;
const MAX_SYMBOLS: usize = 100;

/// A search for files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileQuery {
    /// Letters of the path in their order; all files match none.
    pub letters: String,
    pub limit: usize,
    /// Only files, or only directories.
    pub only: Option<NodeType>,
}

impl Files<'_> {
    /// Searches the directory's files for a regular expression, as ripgrep does. The first matches by path are
    /// returned.
    pub async fn find_text(self, pattern: &str) -> Result<Vec<LineMatch>, FilesError> {
        let regex =
            RegexMatcherBuilder::new().multi_line(true).line_terminator(Some(b'\n')).build(pattern).map_err(
                |error| FilesError::Invalid(format!("{pattern} is no regular expression: {error}")),
            )?;
        let directory = self.0.directory().to_owned();
        let stop = Stop::default();
        let flag = stop.0.clone();
        Ok(blocking(move || search(&directory, &regex, &flag)).await)
    }

    /// Finds files and directories by letters of their paths, the best fitting first. A directory's path ends with
    /// `/`.
    pub async fn find_files(self, query: FileQuery) -> Vec<String> {
        let directory = self.0.directory().to_owned();
        let stop = Stop::default();
        let flag = stop.0.clone();
        blocking(move || rank(paths(&directory, &flag), &query)).await
    }

    /// Finds symbols by their names; none where no language server runs.
    pub async fn find_symbols(self, name: &str) -> Vec<Symbol> {
        let found = self.0.lsp().symbols(self.0.directory(), name).await;
        found.into_iter().filter_map(|it| serde_json::from_value(it).ok()).take(MAX_SYMBOLS).collect()
    }
}

/// Stops work on another thread when its caller is dropped.
#[derive(Default)]
struct Stop(std::sync::Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn builder(directory: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(directory);
    builder.hidden(false);
    if ignore_files::is_blocked_above(directory) {
        builder.parents(false).ignore(false).git_ignore(false).git_exclude(false);
    } else {
        builder.add_custom_ignore_filename(".rgignore");
    }
    builder.filter_entry(|entry| {
        let is_directory = || entry.file_type().is_some_and(|kind| kind.is_dir());
        let is_blocked = || is_directory() && ignore_files::is_blocked(entry.path());
        entry.depth() == 0 || entry.file_name() != ".git" && !is_blocked()
    });
    builder
}

fn search(directory: &Path, regex: &RegexMatcher, stopped: &AtomicBool) -> Vec<LineMatch> {
    let mut found = Vec::new();
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build();
    for entry in builder(directory).sort_by_file_name(std::ffi::OsStr::cmp).build().flatten() {
        if stopped.load(Ordering::Relaxed) || found.len() >= MAX_LINES {
            break;
        }
        if entry.file_type().is_some_and(|kind| kind.is_file()) {
            let path = entry.path().strip_prefix(directory).unwrap_or(entry.path()).display().to_string();
            let mut lines = Lines { path: &path, regex, found: &mut found };
            // A file that cannot be read has no matches.
            let _ = searcher.search_path(regex, entry.path(), &mut lines);
        }
    }
    found
}

/// Collects the matching lines of one file.
struct Lines<'a> {
    path: &'a str,
    regex: &'a RegexMatcher,
    found: &'a mut Vec<LineMatch>,
}

impl Sink for &mut Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = String::from_utf8_lossy(found.bytes()).into_owned();
        let shown = text::head(&line, MAX_LINE);
        let mut submatches = Vec::new();
        let collected = self.regex.find_iter(shown.as_bytes(), |part| {
            let text = shown.get(part.start()..part.end()).unwrap_or_default().to_owned();
            submatches.push(Submatch {
                r#match: Text { text },
                start: part.start() as u64,
                end: part.end() as u64,
            });
            submatches.len() < MAX_LINES
        });
        collected.map_err(io::Error::other)?;
        self.found.push(LineMatch {
            path: Text { text: self.path.to_owned() },
            lines: Text { text: shown.to_owned() },
            line_number: found.line_number().unwrap_or_default(),
            absolute_offset: found.absolute_byte_offset(),
            submatches,
        });
        Ok(self.found.len() < MAX_LINES)
    }
}

/// Returns the paths below a directory that no ignore file names, on several threads.
fn paths(directory: &Path, stopped: &AtomicBool) -> Vec<(PathBuf, NodeType)> {
    let found = Mutex::new(Vec::new());
    let n_found = AtomicUsize::new(0);
    builder(directory).build_parallel().run(|| {
        Box::new(|entry| {
            let is_full = || n_found.fetch_add(1, Ordering::Relaxed) >= MAX_PATHS;
            if stopped.load(Ordering::Relaxed) || is_full() {
                return WalkState::Quit;
            }
            let Ok(entry) = entry else { return WalkState::Continue };
            let kind = match entry.file_type() {
                Some(kind) if kind.is_dir() => NodeType::Directory,
                Some(_) | None => NodeType::File,
            };
            if let Ok(path) = entry.path().strip_prefix(directory)
                && entry.depth() > 0
            {
                lock(&found).push((path.to_owned(), kind));
            }
            WalkState::Continue
        })
    });
    std::mem::take(&mut *lock(&found))
}

fn rank(paths: Vec<(PathBuf, NodeType)>, query: &FileQuery) -> Vec<String> {
    let paths = paths.into_iter().filter(|(_, kind)| query.only.is_none_or(|only| only == *kind));
    let mut scored: Vec<(Reverse<i32>, usize, String)> = paths
        .filter_map(|(path, kind)| {
            let slash = if kind == NodeType::Directory { "/" } else { "" };
            let depth = path.components().count();
            let shown = format!("{}{slash}", path.display());
            Some((Reverse(fuzzy::score(&shown, &query.letters)?), depth, shown))
        })
        .collect();
    scored.sort_unstable();
    scored.truncate(query.limit);
    scored.into_iter().map(|(_, _, path)| path).collect()
}

#[cfg(test)]
mod tests;
