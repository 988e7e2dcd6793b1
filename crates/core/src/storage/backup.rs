//! Copies of the store that are made before it is changed as a whole: the newest few are kept.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use windlass_base::{cause, clock};

use super::StorageError;

/// Copies that are kept.
const MAX_COPIES: usize = 3;
/// The end of the name of a copy that is being made.
const UNFINISHED: &str = "part";

/// Copies a store that can be read before its schema is brought up to date. Returns the copy.
pub fn before_migration(connection: &Connection, version: usize) -> Result<Option<PathBuf>, StorageError> {
    // A store in memory has no path.
    let Some(store) = connection.path().filter(|path| !path.is_empty()).map(PathBuf::from) else {
        return Ok(None);
    };
    let name = format!("windlass-v{version}");
    let copied = make(&store, &name, |target| {
        let mut statement = connection.prepare("VACUUM INTO ?1").map_err(io::Error::other)?;
        statement.execute([target.to_string_lossy()]).map_err(io::Error::other)?;
        Ok(())
    });
    copied.map(Some).map_err(|error| failed(&store, &error))
}

/// Copies the files of a damaged store as they are. Returns the copy of the store.
pub fn of_damaged(store: &Path) -> Result<PathBuf, StorageError> {
    let copied = make(store, "windlass-damaged", |target| {
        fs::copy(store, target)?;
        // Under the name that the copy gets in the end, where SQLite looks for it.
        let (log, copy) = (store.with_extension("db-wal"), target.with_extension("db-wal"));
        if log.exists() { fs::copy(log, copy).map(drop) } else { Ok(()) }
    });
    copied.map_err(|error| failed(store, &error))
}

/// Returns the directory of a store's copies.
pub fn directory(store: &Path) -> PathBuf {
    store.parent().unwrap_or(Path::new("/")).join("backup")
}

/// Makes a copy with a name that begins with `name`, and removes the oldest ones.
fn make(store: &Path, name: &str, copy: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let directory = directory(store);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let name = format!("{name}-{}", clock::now_ms());
    let unfinished = directory.join(format!("{name}.{UNFINISHED}"));
    let path = directory.join(format!("{name}.db"));
    copy(&unfinished).and_then(|()| fs::rename(&unfinished, &path)).inspect_err(|_| {
        let _ = fs::remove_file(&unfinished);
    })?;
    remove_old(&directory);
    Ok(path)
}

/// Removes all copies but the newest, and the rest of one that a killed process has left.
fn remove_old(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut copies: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let is_copy = |path: &PathBuf| path.extension().is_some_and(|end| end == "db" || end == UNFINISHED);
    copies.retain(is_copy);
    // Their names end with the time.
    copies.sort_by_key(|path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        stem.rsplit('-').next().and_then(|time| time.parse::<i64>().ok()).unwrap_or_default()
    });
    for path in copies.iter().rev().skip(MAX_COPIES) {
        for end in [None, Some("db-wal"), Some("db-shm")] {
            let path = end.map_or_else(|| path.clone(), |end| path.with_extension(end));
            let _ = fs::remove_file(path);
        }
    }
}

fn failed(store: &Path, error: &io::Error) -> StorageError {
    StorageError::Backup {
        directory: directory(store).display().to_string(),
        reason: cause::innermost(error),
    }
}
