//! Searches the content of files with a regular expression.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, sinks::Lossy};
use ignore::overrides::Override;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use windlass_base::{lock::lock, path::real, pinned};
use windlass_core::{
    config::policy::Policy,
    permission::{self, Ask},
};
use windlass_protocol::opencode::permission::{Action, Rule};
use windlass_protocol::opencode::tool_metadata::{AskedPattern, Counts, encode};

use super::{
    ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    path::{self, Roots, Secrets, Target, display, one_line},
    walk::{self, Included, StopOnDrop, Unread, Walk},
};

mod unsaved;

const LIMIT: usize = 100;
const MAX_LINE_CHARS: usize = 2000;
/// Time for a search in path order before several threads take the rest: frequent matches are found by then.
const HEAD_START: Duration = Duration::from_millis(4);
/// Maximum length of a line. Files with longer lines are not text and are skipped.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The search.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The regular expression, in Rust's (ripgrep's) syntax; it is matched line by line.
    pub pattern: String,
    /// The directory or file to search; leave it out for the working directory.
    pub path: Option<String>,
    /// Glob of the files to search, such as `*.js` or `*.{ts,tsx}`.
    pub include: Option<String>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("grep", input)?;
    if args.pattern.is_empty() {
        return Err(ToolError::Model("pattern is required".to_owned()));
    }
    let path = args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    let target = path::resolve_existing(cx, path).await?;
    path::ask_outside(cx, &target).await?;
    cx.host
        .ask(Ask {
            permission: "grep".to_owned(),
            patterns: vec![args.pattern.clone()],
            always: vec!["*".to_owned()],
            metadata: encode(&AskedPattern {
                pattern: &args.pattern,
                path: args.path.as_deref(),
                include: args.include.as_deref(),
            }),
        })
        .await?;
    path::unmoved(cx, &target).await?;
    let title = args.pattern.clone();
    let stop = StopOnDrop::default();
    let stopped = stop.flag();
    let roots = Roots::new(cx.config);
    let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
    let known = unsaved::wanted(cx);
    let (searched, pattern) = (target.clone(), args.pattern.clone());
    let searching = blocking(move || {
        let guard = Guard::new(&target, &roots, policy, answers);
        search(&target, &args, &guard, &known, &stopped)
    });
    let mut found = tokio::select! {
        found = searching => found?,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    unsaved::search(cx, &searched, &pattern, &mut found).await?;
    let (mut output, n_shown) = show(&found, cx.config.tool_output.max_bytes);
    output.push_str(&notes(&found));
    let is_truncated = found.n_matches > n_shown;
    Ok(ToolOutput {
        title,
        output,
        metadata: encode(&Counts {
            matches: Some(n_shown as u64),
            count: None,
            truncated: Some(is_truncated),
        }),
        attachments: Vec::new(),
    })
}

/// Decides which files may be searched without asking: those with lines that `read` would show.
struct Guard {
    policy: Policy,
    answers: Vec<Rule>,
    is_restricted: bool,
    target: Target,
    worktree: PathBuf,
    secrets: Secrets,
}

impl Guard {
    /// Reads the file system: call it on a blocking thread.
    fn new(target: &Target, roots: &Roots, policy: Policy, answers: Vec<Rule>) -> Self {
        let directory = target.directory();
        Self {
            is_restricted: policy.is_restricted("read"),
            policy,
            answers,
            target: target.clone(),
            worktree: real(&roots.worktree),
            secrets: Secrets::within(&[&roots.directory, &roots.worktree, &directory]),
        }
    }

    /// Returns true if the file may be searched. Checked before the file is opened, because even the existence
    /// of a match is secret.
    fn allows(&self, path: &Path) -> bool {
        if !self.is_restricted {
            return true;
        }
        let real = self.target.real_of(path);
        let mut names = path::secret_names(&real, &self.secrets);
        if real != path {
            names.push(path.to_owned());
        }
        names.push(real);
        names.iter().all(|name| {
            let name = display(name.strip_prefix(&self.worktree).unwrap_or(name));
            permission::resolve("read", &name, &self.policy, &self.answers) == Action::Allow
        })
    }
}

/// The first matches in path order; may be more than the limit, by whole files.
#[derive(Default)]
struct Found {
    files: BTreeMap<PathBuf, Vec<Match>>,
    n_matches: usize,
    /// Files that were searched and that the session knows.
    known: BTreeSet<PathBuf>,
    /// Files that were skipped because reading them needs a question.
    withheld: BTreeSet<PathBuf>,
    /// Files with lines longer than [`MAX_LINE_BYTES`], which were not searched completely.
    too_wide: BTreeSet<PathBuf>,
    unread: Unread,
}

struct Match {
    line: u64,
    text: String,
}

impl Found {
    /// Returns true if a match in this file could still be among the first.
    fn is_wanted(&self, path: &Path) -> bool {
        !self.is_full() || self.files.last_key_value().is_none_or(|(last, _)| path < last.as_path())
    }

    /// Returns true if there are more matches than are shown.
    fn is_full(&self) -> bool {
        self.n_matches > LIMIT
    }

    /// Forgets files behind the last shown match, which the threads have covered only in part.
    fn forget_late(&mut self) {
        if let Some((last, _)) = self.files.last_key_value().filter(|_| self.is_full()) {
            self.withheld.retain(|path| path < last);
            self.too_wide.retain(|path| path < last);
            self.unread.forget_behind(last);
        }
    }

    /// Adds the result of one file.
    fn add(&mut self, path: &Path, searched: Searched) {
        match searched.failure {
            Some(Failure::TooWide) => _ = self.too_wide.insert(path.to_owned()),
            Some(Failure::Unread(error)) if error.kind() != io::ErrorKind::NotFound => {
                self.unread.insert(path)
            }
            Some(Failure::Unread(_)) | None => {}
        }
        if !searched.matches.is_empty() {
            self.insert(path, searched.matches);
        }
    }

    /// Puts other matches in the place of a file's.
    fn replace(&mut self, path: &Path, matches: Vec<Match>) {
        self.n_matches -= self.files.remove(path).map_or(0, |before| before.len());
        if !matches.is_empty() {
            self.insert(path, matches);
        }
    }

    fn insert(&mut self, path: &Path, matches: Vec<Match>) {
        self.n_matches += matches.len();
        self.files.insert(path.to_owned(), matches);
        while let Some(last) = self.files.last_entry() {
            let n_left = self.n_matches - last.get().len();
            if n_left <= LIMIT {
                break;
            }
            last.remove();
            self.n_matches = n_left;
        }
    }
}

fn matcher(pattern: &str) -> Result<RegexMatcher, ToolError> {
    let regex = RegexMatcherBuilder::new().multi_line(true).line_terminator(Some(b'\n')).build(pattern);
    regex.map_err(|error| ToolError::Model(format!("Invalid regular expression \"{pattern}\": {error}")))
}

fn search(
    target: &Target,
    args: &Args,
    guard: &Guard,
    known: &BTreeSet<PathBuf>,
    stopped: &AtomicBool,
) -> Result<Found, ToolError> {
    let root = target.path.as_path();
    if !root.exists() {
        return Err(ToolError::Model(format!("grep path does not exist: {}", root.display())));
    }
    let regex = matcher(&args.pattern)?;
    let found = Mutex::new(Found::default());
    let lock = || lock(&found);
    if !target.is_directory {
        if !root.is_file() {
            return Err(ToolError::Model(format!(
                "Cannot search {}: it is not a regular file.",
                root.display()
            )));
        }
        if !guard.allows(root) {
            lock().withheld.insert(root.to_owned());
            return Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        let mut searcher = searcher(BinaryDetection::convert(0));
        let searched = search_file(&mut searcher, &regex, &target.real, stopped);
        if let Some(Failure::Unread(error)) = &searched.failure {
            return Err(ToolError::Model(format!("Cannot read {}: {error}", root.display())));
        }
        lock().add(root, searched);
        lock().known.insert(root.to_owned());
    } else {
        let included = match args.include.as_deref().filter(|it| !it.is_empty()) {
            Some(glob) => Included::by(root, glob)?,
            None => Included::all(),
        };
        let unread = Unread::default();
        let walk = Walk {
            root,
            unread: &unread,
            is_hidden_included: true,
            included: &included,
            excluded: &Override::empty(),
        };
        let make_visitor = || {
            let mut searcher = searcher(BinaryDetection::quit(0));
            let regex = &regex;
            move |path: &Path| {
                if !guard.allows(path) {
                    lock().withheld.insert(path.to_owned());
                    return;
                }
                let real = target.real_of(path);
                let searched = search_file(&mut searcher, regex, &real, stopped);
                let mut found = lock();
                found.add(path, searched);
                if known.contains(&real) {
                    found.known.insert(path.to_owned());
                }
            }
        };
        let mut visit = make_visitor();
        let frontier = walk::first_files(&walk, stopped, HEAD_START, |entry| {
            visit(entry.path());
            if lock().is_full() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(frontier) = frontier {
            let is_wanted = |path: &Path| !frontier.is_behind(path) && lock().is_wanted(path);
            walk::files(&walk, stopped, is_wanted, || {
                let mut visit = make_visitor();
                move |entry: &ignore::DirEntry| {
                    if is_wanted(entry.path()) {
                        visit(entry.path());
                    }
                    ControlFlow::Continue(())
                }
            });
        }
        lock().unread.append(&unread);
    }
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.forget_late();
    Ok(found)
}

fn searcher(binary_detection: BinaryDetection) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .binary_detection(binary_detection)
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

/// The result of one file.
struct Searched {
    matches: Vec<Match>,
    failure: Option<Failure>,
}

/// The reason for a file that was not searched completely.
enum Failure {
    /// A line exceeds the memory that is reserved for it.
    TooWide,
    Unread(io::Error),
}

/// Returns the first matches of one file, unless a link was put into its path since it was judged.
fn search_file(searcher: &mut Searcher, regex: &RegexMatcher, real: &Path, stopped: &AtomicBool) -> Searched {
    let mut matches = Vec::new();
    let sink = collect(&mut matches, || !stopped.load(Ordering::Relaxed));
    let searched = pinned::open_file(real).and_then(|file| searcher.search_file(regex, &file, sink));
    let failure = searched.err().map(|error| match (error.raw_os_error(), error.kind()) {
        // The searcher's own limit is no error of the system, and has no kind of its own.
        (None, io::ErrorKind::Other) => Failure::TooWide,
        (Some(_) | None, _) => Failure::Unread(error),
    });
    Searched { matches, failure }
}

/// Returns a sink that takes the first matches, as long as the search goes on.
fn collect(matches: &mut Vec<Match>, goes_on: impl Fn() -> bool) -> impl Sink<Error = io::Error> {
    Lossy(move |line, text: &str| {
        matches.push(Match { line, text: shorten(text) });
        Ok(matches.len() <= LIMIT && goes_on())
    })
}

fn shorten(line: &str) -> String {
    let line = line.trim_end_matches(['\n', '\r']);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}...", &line[..end]),
    }
}

/// Formats the notes about files that were not searched.
fn notes(found: &Found) -> String {
    let mut notes = String::new();
    if !found.withheld.is_empty() {
        notes.push_str(&format!(
            "\n\n(Not searched, because reading needs permission: {}. Use the read tool to ask for it.)",
            walk::names(&found.withheld)
        ));
    }
    if !found.too_wide.is_empty() {
        notes.push_str(&format!(
            "\n\n(Not searched to the end, because a line is longer than {} MB: {}. Use bash to search there.)",
            MAX_LINE_BYTES >> 20,
            walk::names(&found.too_wide)
        ));
    }
    notes + &found.unread.note()
}

/// Formats the matches for the model and counts them.
fn show(found: &Found, max_bytes: usize) -> (String, usize) {
    if found.n_matches == 0 {
        return ("No files found".to_owned(), 0);
    }
    let mut n_shown = 0;
    let mut body = String::new();
    'files: for (path, matches) in &found.files {
        let gap = if body.is_empty() { "" } else { "\n" };
        let mut head = format!("{gap}\n{}:", one_line(path));
        for found in matches {
            let line = format!("\n  Line {}: {}", found.line, found.text);
            let is_full = n_shown == LIMIT || body.len() + head.len() + line.len() > max_bytes;
            if is_full && n_shown > 0 {
                break 'files;
            }
            body.push_str(&std::mem::take(&mut head));
            body.push_str(&line);
            n_shown += 1;
        }
    }
    if n_shown == found.n_matches {
        return (format!("Found {n_shown} matches{body}"), n_shown);
    }
    let note = "(Results truncated. Consider using a more specific path or pattern.)";
    (format!("Found {n_shown} matches (more matches available){body}\n\n{note}"), n_shown)
}

#[cfg(test)]
mod tests;
