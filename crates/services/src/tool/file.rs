//! Changes whole text files that were read before: one change at a time, shown to the user first, written in
//! one piece.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    fs,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, Weak},
};

use memchr::{memchr_iter, memmem};
use serde_json::{Map, Value};
use tokio::sync::OwnedMutexGuard;
use windlass_base::{
    clock,
    diff::{self, Unified},
    path::real,
    pinned,
};
use windlass_core::{
    config::Config,
    permission::{Ask, protected},
};
use windlass_protocol::opencode::{
    permission::Action,
    tool_metadata::{AskedEdit, FileDiff, encode},
};

use super::{
    FileStamp, ToolCx, ToolError, blocking, editor, format,
    path::{Target, display, unmoved},
    read::is_hidden,
};

mod by_editor;
mod keep;
mod swap;

pub(crate) use super::editor::BOM;
pub(crate) use swap::Swap;

/// Maximum size of a file to change: text that a model edits is far smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum size of whole texts in the metadata.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;
/// Number of bytes that are compared at once.
const COMPARED_BYTES: usize = 128 * 1024;

/// A change that is to be made to a file.
pub(crate) struct Change {
    pub before: Option<Vec<u8>>,
    pub after: String,
    pub shown: ShownChange,
}

/// Refuses names that would not be shown as they are.
pub(crate) fn check_name(text: &str) -> Result<(), ToolError> {
    if text.is_empty() {
        return Err(ToolError::Model("filePath is required".to_owned()));
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err(ToolError::Model(format!(
            "A path must not contain line breaks or NUL characters: {text:?}. Use bash instead."
        )));
    }
    if matches!(text.rsplit('/').next(), Some("" | "." | "..")) {
        return Err(ToolError::Model(format!(
            "{text} names a directory, not a file. End the path with the file's own name."
        )));
    }
    Ok(())
}

/// Makes the calls of one session change a file one after another, each on the result of the one before,
/// including the time of its question. Other sessions do not wait: [`put`] notices their changes.
pub(crate) async fn turn(cx: &ToolCx<'_>, target: &Target) -> OwnedMutexGuard<()> {
    lock_key((Some(cx.session_id.to_string()), target.real.clone())).await
}

/// Keeps all other changes off the file until the guard is dropped. Never kept during a question.
pub(crate) async fn lock(real: &Path) -> OwnedMutexGuard<()> {
    lock_key((None, real.to_owned())).await
}

/// A session, if the lock is only its own, and a file with its links followed.
type LockKey = (Option<String>, PathBuf);

async fn lock_key(key: LockKey) -> OwnedMutexGuard<()> {
    type Locks = HashMap<LockKey, Weak<tokio::sync::Mutex<()>>>;
    static LOCKS: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);
    let lock = {
        let mut locks = windlass_base::lock::lock(&LOCKS);
        locks.retain(|_, lock| lock.strong_count() > 0);
        let known = locks.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::new(tokio::sync::Mutex::new(()));
            locks.insert(key, Arc::downgrade(&lock));
            lock
        })
    };
    lock.lock_owned().await
}

/// Computes a change while no other call writes the file.
pub(crate) async fn plan<T: Send + 'static>(
    target: &Target,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let guard = lock(&target.real).await;
    blocking(move || {
        // Work on a thread goes on after its caller is dropped, and so must the lock.
        let _guard = guard;
        work()
    })
    .await
}

/// Reads the file that was judged; `None` if it does not exist. Blocks.
fn load(path: &Path, real: &Path) -> Result<Option<Vec<u8>>, ToolError> {
    let Some(n_bytes) = size(path)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(usize::try_from(n_bytes).unwrap_or_default());
    let read = pinned::open_file(real).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map(|_| Some(bytes)).map_err(|error| unreadable(path, &error))
}

/// Returns true if the file contains these bytes, or does not exist if there are none. Blocks.
fn holds(path: &Path, real: &Path, expected: Option<&[u8]>) -> Result<bool, ToolError> {
    let (size, expected) = match (size(path)?, expected) {
        (Some(size), Some(expected)) => (size, expected),
        (size, expected) => return Ok(size.is_none() && expected.is_none()),
    };
    if size != expected.len() as u64 {
        return Ok(false);
    }
    same_bytes(real, expected).map_err(|error| unreadable(path, &error))
}

/// Compares without a second copy of a large file in memory.
fn same_bytes(real: &Path, mut expected: &[u8]) -> io::Result<bool> {
    let mut file = pinned::open_file(real)?;
    let mut buffer = vec![0; COMPARED_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(expected.is_empty()),
            Ok(n_read) => match expected.split_at_checked(n_read) {
                Some((head, rest)) if head == &buffer[..n_read] => expected = rest,
                Some(_) | None => return Ok(false),
            },
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Formats a file that was written just now with the text `written`; returns its new text, if it is another one.
pub(crate) async fn formatted(cx: &ToolCx<'_>, target: &Target, written: &[u8]) -> Option<String> {
    let formatters = format::found(cx, target).await;
    if formatters.is_empty() {
        return None;
    }
    // Other sessions wait until the file is as it stays.
    let _guard = lock(&target.real).await;
    if content(target).await? != written {
        return None;
    }
    format::run(cx, target, &formatters).await;
    let text = String::from_utf8(content(target).await?).ok()?;
    if text.as_bytes() == written {
        return None;
    }
    if let Ok(metadata) = tokio::fs::metadata(&target.real).await {
        let stamp = FileStamp::of(&metadata).with_content(text.as_bytes());
        cx.host.record_read(&target.real, stamp);
    }
    cx.host.edited(&target.path, &target.real);
    Some(text)
}

/// Returns the bytes that a file has now; `None` if it is gone or cannot be read.
async fn content(target: &Target) -> Option<Vec<u8>> {
    let target = target.clone();
    blocking(move || load(&target.path, &target.real)).await.ok().flatten()
}

fn unreadable(path: &Path, error: &io::Error) -> ToolError {
    ToolError::Model(format!("Cannot read {}: {error}", path.display()))
}

/// Returns the size of a file that may be changed; `None` if it does not exist.
fn size(path: &Path) -> Result<Option<u64>, ToolError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    if metadata.is_dir() {
        return Err(ToolError::Model(format!("Path is a directory, not a file: {}", path.display())));
    }
    if !metadata.is_file() {
        return Err(ToolError::Model(format!("Not a regular file: {}", path.display())));
    }
    if metadata.len() > MAX_BYTES {
        return Err(ToolError::Model(format!(
            "File {} is too large to change with this tool: {} bytes, the limit is {MAX_BYTES}. Use bash instead.",
            path.display(),
            metadata.len(),
        )));
    }
    Ok(Some(metadata.len()))
}

/// The line end of every line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    Lf,
    CrLf,
}

/// Returns the line end of a file if all its lines have the same.
pub(crate) fn line_ends(bytes: &[u8]) -> Option<LineEnds> {
    let n_lines = memchr_iter(b'\n', bytes).count();
    let n_crlf = memmem::find_iter(bytes, b"\r\n").count();
    match (n_lines, n_crlf) {
        (0, _) => None,
        (_, 0) => Some(LineEnds::Lf),
        _ if n_lines == n_crlf => Some(LineEnds::CrLf),
        _mixed => None,
    }
}

impl LineEnds {
    /// Returns the text with these line ends.
    pub(crate) fn of(self, text: String) -> String {
        let text = if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text };
        match self {
            Self::Lf => text,
            Self::CrLf => text.replace('\n', "\r\n"),
        }
    }
}

/// The check that the model has seen the content it is about to overwrite (facts: earlier OpenCode, FileTime).
enum ReadGate {
    /// No check: it is switched off in the configuration.
    Open,
    /// The session's last known state of the file; `None` if it was never read.
    Known(Option<FileStamp>),
}

/// A file before a change: the state that the model knows, and the text that the editor has and that is not saved.
pub(crate) struct Before {
    gate: ReadGate,
    unsaved: Option<String>,
    /// The editor writes changes.
    is_written: bool,
}

impl Before {
    pub(crate) async fn new(cx: &ToolCx<'_>, target: &Target) -> Self {
        Self {
            gate: ReadGate::new(cx, target),
            unsaved: editor::buffer(cx, &target.path, &target.real).await.unsaved(),
            is_written: editor::writer(cx).is_some(),
        }
    }

    /// Returns the bytes of a file that may be changed; `None` if it does not exist. Blocks.
    pub(crate) fn load(&self, target: &Target) -> Result<Option<Vec<u8>>, ToolError> {
        let saved = load(&target.path, &target.real)?;
        let before = match &self.unsaved {
            Some(_) if !self.is_written => return Err(editor::is_unsaved(&target.path)),
            Some(text) => saved.map(|_| text.clone().into_bytes()),
            None => saved,
        };
        if let Some(content) = &before {
            self.gate.check(&target.path, content)?;
        }
        Ok(before)
    }
}

impl ReadGate {
    fn new(cx: &ToolCx<'_>, target: &Target) -> Self {
        if cx.config.file_time { Self::Known(cx.host.known_stamp(&target.real)) } else { Self::Open }
    }

    /// Checks a file that exists and has this content. Blocks.
    fn check(&self, path: &Path, content: &[u8]) -> Result<(), ToolError> {
        let known = match self {
            Self::Open => return Ok(()),
            Self::Known(known) => known,
        };
        let now = fs::metadata(path).map(|metadata| FileStamp::of(&metadata).with_content(content));
        let is_hidden = is_hidden(path, content);
        let path = path.display();
        let Some(known) = known else {
            let message = if is_hidden {
                format!(
                    "{path} is a binary file, which the Read tool does not show, so it is not overwritten or \
                     deleted unseen. If it has to go, remove it with the bash tool."
                )
            } else {
                format!("You must read the file {path} before overwriting it. Use the Read tool first")
            };
            return Err(ToolError::Model(message));
        };
        let now = now.map_err(|error| ToolError::Model(format!("Cannot read {path}: {error}")))?;
        if now.is_same(known) {
            return Ok(());
        }
        Err(ToolError::Model(format!(
            "File {path} has been modified since it was last read.\nLast modification: {}\nLast read: {}\n\nPlease read the file again before modifying it.",
            clock::iso(i64::try_from(now.modified_ns / 1_000_000).unwrap_or_default()),
            clock::iso(known.seen_ms),
        )))
    }
}

/// Returns the file's text, or an error if it is not text.
pub(crate) fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, ToolError> {
    str::from_utf8(bytes).map_err(|_| {
        ToolError::Model(format!(
            "Cannot edit {}: it is not valid UTF-8 text. Use bash instead.",
            path.display()
        ))
    })
}

/// Writes the changes that the user was shown, provided that every file is unchanged since then: all of them or
/// none.
pub(crate) async fn put(cx: &ToolCx<'_>, swaps: Vec<Swap>) -> Result<(), ToolError> {
    // Locked in one order everywhere, so that two patches cannot wait for each other.
    let in_order: BTreeSet<&PathBuf> = swaps.iter().map(|swap| &swap.real).collect();
    let mut guards = Vec::new();
    for real in in_order {
        guards.push(lock(real).await);
    }
    let written = match editor::writer(cx) {
        Some(editor) => by_editor::put(cx, editor, swaps, guards).await?,
        None => {
            let write = move || {
                let _guards = guards;
                check_unchanged(&swaps)?;
                swap_on_disk(swaps)
            };
            blocking(write).await?
        }
    };
    for (swap, stamp) in written {
        if let Some(stamp) = stamp {
            cx.host.record_read(&swap.real, stamp);
        }
        cx.host.edited(&swap.path, &swap.real);
    }
    Ok(())
}

/// Files that were changed, each with its new state.
type Written = Vec<(Swap, Option<FileStamp>)>;

/// Refuses a change of a file if its content on the disk is no longer the one that the user was shown. Blocks.
fn check_unchanged(swaps: &[Swap]) -> Result<(), ToolError> {
    for swap in swaps {
        // The path to delete may be a link.
        if !holds(&swap.path, &real(&swap.real), swap.before.as_deref())? {
            return Err(modified(&swap.path));
        }
    }
    Ok(())
}

fn modified(path: &Path) -> ToolError {
    ToolError::Model(format!(
        "File {} was modified while permission was being asked. Read it again and retry.",
        path.display()
    ))
}

/// Blocks.
fn swap_on_disk(swaps: Vec<Swap>) -> Result<Written, ToolError> {
    let stamps = swap::swap_all(&swaps).map_err(|failure| {
        ToolError::Model(format!("Cannot write {}: {}", failure.path.display(), failure.error))
    })?;
    Ok(swaps.into_iter().zip(stamps).collect())
}

/// Both texts of a changed file for a client to draw, if they are small enough to send.
pub(crate) struct Texts(Option<[Option<String>; 2]>);

impl Texts {
    pub(crate) fn of(before: Option<&[u8]>, after: Option<&[u8]>) -> Self {
        let is_small = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| bytes.len() <= MAX_SHOWN_BYTES);
        let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Self((is_small(before) && is_small(after)).then(|| [text(before), text(after)]))
    }

    pub(crate) fn before(&self) -> Option<Option<&str>> {
        self.0.as_ref().map(|[before, _]| before.as_deref())
    }

    pub(crate) fn after(&self) -> Option<Option<&str>> {
        self.0.as_ref().map(|[_, after]| after.as_deref())
    }
}

/// A change of one file as clients draw it.
pub(crate) struct ShownChange {
    file: String,
    unified: Unified,
    texts: Texts,
}

impl ShownChange {
    pub(crate) fn patch(&self) -> &str {
        &self.unified.patch
    }

    pub(crate) fn filediff(&self) -> FileDiff<'_> {
        FileDiff {
            file: &self.file,
            patch: &self.unified.patch,
            additions: self.unified.additions as u64,
            deletions: self.unified.deletions as u64,
            before: self.texts.before(),
            after: self.texts.after(),
        }
    }
}

impl Change {
    /// Compares the texts. Blocks for as long as the comparison takes.
    pub(crate) fn new(path: &Path, before: Option<Vec<u8>>, after: String) -> Self {
        // Nearly every file is text; looking for other bytes takes several times as long.
        let old_text = before.as_deref().map(|bytes| {
            str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
        });
        let file = display(path);
        let unified = diff::unified(&file, old_text.as_deref().unwrap_or_default(), &after);
        let texts = Texts::of(before.as_deref(), Some(after.as_bytes()));
        Self { before, after, shown: ShownChange { file, unified, texts } }
    }

    /// Asks for `edit`, then writes, provided that the file is still the one the user was shown, and formats it.
    pub(crate) async fn apply(self, cx: &ToolCx<'_>, target: &Target) -> Result<Applied, ToolError> {
        let Self { before, after, mut shown } = self;
        let metadata = encode(&AskedEdit {
            filepath: &display(&target.path),
            diff: shown.patch(),
            filediff: shown.filediff(),
        });
        ask_edit(cx, &[target], target.patterns.clone(), target.described(metadata)).await?;
        unmoved(cx, target).await?;
        let existed = before.is_some();
        let (path, real) = (target.path.clone(), target.real.clone());
        let is_formatted = !format::matching(cx.config, &path).is_empty();
        let texts = is_formatted.then(|| (before.clone(), after.clone()));
        put(cx, vec![Swap { path, real, before, after: Some(after.into_bytes()), like: None }]).await?;
        if let Some((before, written)) = texts
            && let Some(formatted) = formatted(cx, target, written.as_bytes()).await
        {
            let path = target.path.clone();
            shown = blocking(move || Ok(Self::new(&path, before, formatted).shown)).await?;
        }
        Ok(Applied { existed, shown })
    }
}

/// Asks for `edit`. Files that rules are read from or that git executes are asked for as opaque, unless a rule
/// names them.
pub(crate) async fn ask_edit(
    cx: &ToolCx<'_>,
    targets: &[&Target],
    patterns: Vec<String>,
    metadata: Map<String, Value>,
) -> Result<(), ToolError> {
    let policy = cx.host.policy();
    let is_named = |pattern: &String| {
        let Config { worktree, protected: sources, .. } = cx.config;
        policy.last_match("edit", pattern).is_some_and(|rule| {
            rule.action == Action::Allow && protected::is_named(&rule.pattern, worktree, sources)
        })
    };
    let unnamed = targets.iter().filter(|target| !target.patterns.iter().all(is_named));
    let targets: Vec<(PathBuf, PathBuf)> = unnamed.map(|it| (it.path.clone(), it.real.clone())).collect();
    let protected = cx.config.protected.clone();
    let is_opaque = blocking(move || {
        let decides = |path: &Path| protected::is_protected(path, &protected);
        let is_opaque = |(path, real): &(PathBuf, PathBuf)| {
            decides(path) || decides(real) || protected::is_linked(real, &protected)
        };
        Ok(targets.iter().any(is_opaque))
    })
    .await?;
    let always = if is_opaque { Vec::new() } else { vec!["*".to_owned()] };
    let ask = Ask { permission: "edit".to_owned(), patterns, always, metadata };
    if is_opaque { cx.host.ask_opaque(ask).await.map(drop) } else { cx.host.ask(ask).await }
}

/// A change that was made.
pub(crate) struct Applied {
    pub existed: bool,
    pub shown: ShownChange,
}

#[cfg(test)]
mod tests;
