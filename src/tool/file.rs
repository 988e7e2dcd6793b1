//! Changes whole text files for `edit` and `write`: one at a time, shown before, written in one piece.

use std::{
    collections::HashMap,
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use serde_json::{Map, Value, json};
use tokio::sync::OwnedMutexGuard;

use super::{
    ToolCx, ToolError, blocking, object,
    path::{Target, display},
};
use crate::{
    base::{
        diff::{self, Unified},
        ids,
    },
    permission::Ask,
};

/// Larger files are refused: text that a model edits is far smaller.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Whole texts up to this size travel in the metadata.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;
pub(crate) const BOM: &str = "\u{feff}";

/// What is about to happen to a file.
pub(crate) struct Change {
    pub before: Option<Vec<u8>>,
    pub after: String,
    pub unified: Unified,
    /// Path, patch and, when small enough, both texts: what clients draw.
    pub filediff: Value,
}

/// Holds everyone else off the file until the guard is dropped.
pub(crate) async fn lock(target: &Target) -> OwnedMutexGuard<()> {
    type Locks = HashMap<PathBuf, Weak<tokio::sync::Mutex<()>>>;
    static LOCKS: LazyLock<Mutex<Locks>> = LazyLock::new(Mutex::default);
    let lock = {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| lock.strong_count() > 0);
        let known = locks.get(&target.real).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::new(tokio::sync::Mutex::new(()));
            locks.insert(target.real.clone(), Arc::downgrade(&lock));
            lock
        })
    };
    lock.lock_owned().await
}

/// The file's bytes; none when it does not exist. Blocks.
pub(crate) fn load(path: &Path) -> Result<Option<Vec<u8>>, ToolError> {
    let failed = |error: io::Error| ToolError::Model(format!("Cannot read {}: {error}", path.display()));
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
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
    fs::read(path).map(Some).map_err(failed)
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
        let is_small = |length: usize| length <= MAX_SHOWN_BYTES;
        if is_small(after.len()) && is_small(before.as_ref().map_or(0, Vec::len)) {
            filediff["before"] = old_text.map_or(Value::Null, |text| Value::String(text.into_owned()));
            filediff["after"] = Value::String(after.clone());
        }
        Self { before, after, unified, filediff }
    }

    /// Asks for `edit`, then writes, provided that the file is still the one the user was shown.
    pub(crate) async fn apply(self, cx: &ToolCx<'_>, target: &Target) -> Result<Applied, ToolError> {
        let Self { before, after, unified, filediff } = self;
        let file = display(&target.path);
        let metadata = json!({ "filepath": file, "diff": unified.patch, "filediff": filediff });
        cx.host
            .ask(Ask {
                permission: "edit".to_owned(),
                patterns: target.patterns.clone(),
                always: vec!["*".to_owned()],
                metadata: object(metadata),
            })
            .await?;
        let existed = before.is_some();
        let (path, real) = (target.path.clone(), target.real.clone());
        blocking(move || {
            if load(&path)? != before {
                return Err(ToolError::Model(format!(
                    "File {} was modified while permission was being asked. Read it again and retry.",
                    path.display()
                )));
            }
            replace(&real, after.as_bytes())
                .map_err(|error| ToolError::Model(format!("Cannot write {}: {error}", path.display())))
        })
        .await?;
        cx.host.edited(&target.path);
        Ok(Applied { existed, patch: unified.patch, filediff })
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

/// Puts new content in a file's place at once: a reader sees the old or the new text, never a part.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    let old = match fs::metadata(path) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(parent)?;
            None
        }
        Err(error) => return Err(error),
    };
    if let Some(old) = &old {
        // Renaming over these would take a link apart or get past the file's own protection.
        let is_protected = old.permissions().readonly();
        if old.nlink() > 1 || is_protected {
            return fs::write(path, content);
        }
    }
    let temporary = Temporary(parent.join(format!(".windlass-{}.tmp", ids::random(12))));
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    if old.is_some() {
        // Nobody else may read it before it has the file's own mode.
        options.mode(0o600);
    }
    let opened = options.open(&temporary.0);
    let mut file = match (opened, &old) {
        (Ok(file), _) => file,
        // The directory may be closed while the file is not.
        (Err(_), Some(_)) => return fs::write(path, content),
        (Err(error), None) => return Err(error),
    };
    file.write_all(content)?;
    if let Some(old) = &old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid())
            && std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid())).is_err()
        {
            return fs::write(path, content);
        }
        file.set_permissions(old.permissions())?;
    }
    drop(file);
    fs::rename(&temporary.0, path)
}

/// A file that is removed unless it was renamed away.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests;
