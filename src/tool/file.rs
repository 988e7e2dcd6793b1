//! Changes whole text files: read before, one at a time, shown before, written in one piece.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::{self, ErrorKind, Read},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, Weak},
};

use serde_json::{Map, Value, json};
use tokio::sync::OwnedMutexGuard;
use windlass_protocol::opencode::permission::Action;

use super::{
    FileStamp, ToolCx, ToolError, blocking, object,
    path::{Target, display, unmoved},
    read::is_hidden,
};
use crate::{
    base::{
        clock,
        diff::{self, Unified},
        path::real,
        pinned,
    },
    config::Config,
    permission::{Ask, obeyed},
};

mod keep;
mod swap;

pub(crate) use swap::Swap;

/// Larger files are refused: text that a model edits is far smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Whole texts up to this size travel in the metadata.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;
/// How much of a file is compared at once.
const COMPARED_BYTES: usize = 128 * 1024;
pub(crate) const BOM: &str = "\u{feff}";

/// What is about to happen to a file.
pub(crate) struct Change {
    pub before: Option<Vec<u8>>,
    pub after: String,
    pub unified: Unified,
    /// Path, patch and, when small enough, both texts: what clients draw.
    pub filediff: Value,
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

/// Lets the calls of one session change a file one after another, each on what those before it left, also while the user
/// is asked. Other sessions do not wait: what they change meanwhile is noticed by [`put`].
pub(crate) async fn turn(cx: &ToolCx<'_>, target: &Target) -> OwnedMutexGuard<()> {
    lock_key((Some(cx.session_id.to_string()), target.real.clone())).await
}

/// Holds everyone else off the file until the guard is dropped. Never kept while the user is asked.
pub(crate) async fn lock(real: &Path) -> OwnedMutexGuard<()> {
    lock_key((None, real.to_owned())).await
}

/// A session, when the lock is only its own, and a file with its links followed.
type LockKey = (Option<String>, PathBuf);

async fn lock_key(key: LockKey) -> OwnedMutexGuard<()> {
    type Locks = HashMap<LockKey, Weak<tokio::sync::Mutex<()>>>;
    static LOCKS: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);
    let lock = {
        let mut locks = crate::base::lock::lock(&LOCKS);
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

/// Works out a change while nobody writes the file.
pub(crate) async fn plan<T: Send + 'static>(
    target: &Target,
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let guard = lock(&target.real).await;
    blocking(move || {
        // Work on a thread goes on when its caller is dropped, and so must the lock.
        let _guard = guard;
        work()
    })
    .await
}

/// Returns the bytes of the file that was judged; none when it does not exist. Blocks.
fn load(path: &Path, real: &Path) -> Result<Option<Vec<u8>>, ToolError> {
    let Some(n_bytes) = size(path)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(usize::try_from(n_bytes).unwrap_or_default());
    let read = pinned::open_file(real).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map(|_| Some(bytes)).map_err(|error| unreadable(path, &error))
}

/// Whether the file holds these bytes, or is not there when there are none. Blocks.
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

fn unreadable(path: &Path, error: &io::Error) -> ToolError {
    ToolError::Model(format!("Cannot read {}: {error}", path.display()))
}

/// How large a file is that may be changed; none when it does not exist.
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

/// How every line of a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    Lf,
    CrLf,
}

/// How the lines of a file end, when all of them end in the same way.
pub(crate) fn line_ends(bytes: &[u8]) -> Option<LineEnds> {
    let n_lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let n_crlf = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    match (n_lines, n_crlf) {
        (0, _) => None,
        (_, 0) => Some(LineEnds::Lf),
        _ if n_lines == n_crlf => Some(LineEnds::CrLf),
        _mixed => None,
    }
}

impl LineEnds {
    /// The text with these line ends.
    pub(crate) fn of(self, text: String) -> String {
        let text = if text.contains("\r\n") { text.replace("\r\n", "\n") } else { text };
        match self {
            Self::Lf => text,
            Self::CrLf => text.replace('\n', "\r\n"),
        }
    }
}

/// Whether a file may be changed: the model must have seen what it is about to overwrite (facts: seed 002, FileTime).
pub(crate) enum ReadGate {
    /// Switched off by the configuration.
    Open,
    /// As the session last knew the file; none when it was never read.
    Noted(Option<FileStamp>),
}

impl ReadGate {
    pub(crate) fn new(cx: &ToolCx<'_>, target: &Target) -> Self {
        if cx.config.file_time { Self::Noted(cx.host.noted(&target.real)) } else { Self::Open }
    }

    /// Checks a file that exists and holds this. Blocks.
    fn check(&self, path: &Path, content: &[u8]) -> Result<(), ToolError> {
        let noted = match self {
            Self::Open => return Ok(()),
            Self::Noted(noted) => noted,
        };
        let now = fs::metadata(path).map(|metadata| FileStamp::of(&metadata).with_content(content));
        let is_hidden = is_hidden(path, content);
        let path = path.display();
        let Some(noted) = noted else {
            return Err(ToolError::Model(match is_hidden {
                false => {
                    format!("You must read the file {path} before overwriting it. Use the Read tool first")
                }
                true => format!(
                    "{path} is a binary file, which the Read tool does not show, so it is not overwritten or \
                     deleted unseen. If it has to go, remove it with the bash tool."
                ),
            }));
        };
        let now = now.map_err(|error| ToolError::Model(format!("Cannot read {path}: {error}")))?;
        if now.is_same(noted) {
            return Ok(());
        }
        Err(ToolError::Model(format!(
            "File {path} has been modified since it was last read.\nLast modification: {}\nLast read: {}\n\nPlease read the file again before modifying it.",
            clock::iso(i64::try_from(now.modified_ns / 1_000_000).unwrap_or_default()),
            clock::iso(noted.noted_ms),
        )))
    }

    /// The bytes of a file that may be changed; none when it does not exist. Blocks.
    pub(crate) fn load(&self, target: &Target) -> Result<Option<Vec<u8>>, ToolError> {
        let before = load(&target.path, &target.real)?;
        if let Some(content) = &before {
            self.check(&target.path, content)?;
        }
        Ok(before)
    }
}

/// The file's text, when it is text.
pub(crate) fn text<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, ToolError> {
    str::from_utf8(bytes).map_err(|_| {
        ToolError::Model(format!(
            "Cannot edit {}: it is not valid UTF-8 text. Use bash instead.",
            path.display()
        ))
    })
}

/// Writes what the user was shown, provided that every file still is what it was then: all of them or none.
pub(crate) async fn put(cx: &ToolCx<'_>, swaps: Vec<Swap>) -> Result<(), ToolError> {
    // In one order everywhere, so that two patches cannot wait for each other.
    let in_order: BTreeSet<&PathBuf> = swaps.iter().map(|swap| &swap.real).collect();
    let mut guards = Vec::new();
    for real in in_order {
        guards.push(lock(real).await);
    }
    let (swaps, stamps) = blocking(move || {
        let _guards = guards;
        for swap in &swaps {
            // What is to be deleted may be a link.
            if !holds(&swap.path, &real(&swap.real), swap.before.as_deref())? {
                return Err(ToolError::Model(format!(
                    "File {} was modified while permission was being asked. Read it again and retry.",
                    swap.path.display()
                )));
            }
        }
        let stamps = swap::swap_all(&swaps).map_err(|failure| {
            ToolError::Model(format!("Cannot write {}: {}", failure.path.display(), failure.error))
        })?;
        Ok((swaps, stamps))
    })
    .await?;
    for (swap, stamp) in swaps.iter().zip(stamps) {
        if let Some(stamp) = stamp {
            cx.host.note(&swap.real, stamp);
        }
        cx.host.edited(&swap.path, &swap.real);
    }
    Ok(())
}

/// Both texts as a client draws them, when they are small enough to travel.
pub(crate) fn shown_texts(before: Option<&[u8]>, after: Option<&[u8]>) -> Option<(Value, Value)> {
    let is_small = |bytes: Option<&[u8]>| bytes.is_none_or(|bytes| bytes.len() <= MAX_SHOWN_BYTES);
    let text = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => Value::String(String::from_utf8_lossy(bytes).into_owned()),
        None => Value::Null,
    };
    (is_small(before) && is_small(after)).then(|| (text(before), text(after)))
}

impl Change {
    /// Compares the texts. Blocks for as long as the comparison takes.
    pub(crate) fn new(path: &Path, before: Option<Vec<u8>>, after: String) -> Self {
        let old_text = before.as_deref().map(String::from_utf8_lossy);
        let file = display(path);
        let unified = diff::unified(&file, old_text.as_deref().unwrap_or_default(), &after);
        let mut filediff = json!({
            "file": file,
            "patch": unified.patch,
            "additions": unified.additions,
            "deletions": unified.deletions,
        });
        if let Some((before, after)) = shown_texts(before.as_deref(), Some(after.as_bytes())) {
            filediff["before"] = before;
            filediff["after"] = after;
        }
        Self { before, after, unified, filediff }
    }

    /// Asks for `edit`, then writes, provided that the file is still the one the user was shown.
    pub(crate) async fn apply(self, cx: &ToolCx<'_>, target: &Target) -> Result<Applied, ToolError> {
        let Self { before, after, unified, filediff } = self;
        let file = display(&target.path);
        let metadata = json!({ "filepath": file, "diff": unified.patch, "filediff": filediff });
        ask_edit(cx, &[target], target.patterns.clone(), target.described(object(metadata))).await?;
        unmoved(cx, target).await?;
        let existed = before.is_some();
        let (path, real) = (target.path.clone(), target.real.clone());
        put(cx, vec![Swap { path, real, before, after: Some(after.into_bytes()), like: None }]).await?;
        Ok(Applied { existed, patch: unified.patch, filediff })
    }
}

/// Asks for `edit`. What rules are read from, or git obeys, counts as any command unless a rule names such files.
pub(crate) async fn ask_edit(
    cx: &ToolCx<'_>,
    targets: &[&Target],
    patterns: Vec<String>,
    metadata: Map<String, Value>,
) -> Result<(), ToolError> {
    let policy = cx.host.policy();
    let is_named = |pattern: &String| {
        let Config { worktree, deciding: sources, .. } = cx.config;
        policy.deciding("edit", pattern).is_some_and(|rule| {
            rule.action == Action::Allow && obeyed::is_named(&rule.pattern, worktree, sources)
        })
    };
    let unnamed = targets.iter().filter(|target| !target.patterns.iter().all(is_named));
    let targets: Vec<(PathBuf, PathBuf)> = unnamed.map(|it| (it.path.clone(), it.real.clone())).collect();
    let deciding = cx.config.deciding.clone();
    let is_any = blocking(move || {
        let decides = |path: &Path| obeyed::is_obeyed(path, &deciding);
        let is_any = |(path, real): &(PathBuf, PathBuf)| {
            decides(path) || decides(real) || obeyed::is_linked(real, &deciding)
        };
        Ok(targets.iter().any(is_any))
    })
    .await?;
    let always = if is_any { Vec::new() } else { vec!["*".to_owned()] };
    let ask = Ask { permission: "edit".to_owned(), patterns, always, metadata };
    match is_any {
        true => cx.host.ask_any(ask).await,
        false => cx.host.ask(ask).await,
    }
}

/// What was done.
pub(crate) struct Applied {
    pub existed: bool,
    pub patch: String,
    pub filediff: Value,
}

impl Applied {
    /// The metadata that `edit` and `write` share.
    pub(crate) fn metadata(self, mut own: Map<String, Value>) -> Map<String, Value> {
        let mut metadata = object(json!({ "diagnostics": {} }));
        metadata.append(&mut own);
        metadata.insert("filediff".to_owned(), self.filediff);
        metadata
    }
}

#[cfg(test)]
mod tests;
