//! Examines the store's file: its size and its integrity.

use std::{
    fs, io,
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::unistd::{AccessFlags, access};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use windlass_base::cause;

use super::disk;

/// The state of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreHealth {
    /// The size of the file and of its log.
    pub bytes: u64,
    pub integrity: Integrity,
}

/// The integrity of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Integrity {
    Whole,
    /// The check took too long.
    Unknown,
    NotWritable,
    /// Its disk is full, so that SQLite cannot make the files beside it that it needs to read it.
    NoRoom,
    /// Damaged, with the reason.
    Damaged(String),
}

/// Checks the whole store for at most `limit`; `None` if there is no store yet. Changes nothing, and blocks.
pub fn check(path: &Path, limit: Duration) -> io::Result<Option<StoreHealth>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let reason = format!("{} cannot be read: {}", path.display(), cause::innermost(&error));
            return Err(io::Error::new(error.kind(), reason));
        }
    };
    let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    let bytes = metadata.len() + log;
    let integrity = if metadata.permissions().readonly() || !is_writable(path) {
        Integrity::NotWritable
    } else if disk::is_emptied(path) {
        Integrity::Damaged(disk::EMPTIED.to_owned())
    } else {
        integrity(path, limit)
    };
    Ok(Some(StoreHealth { bytes, integrity }))
}

/// Returns true if a store can be written, which needs a writable directory too.
pub fn is_writable(path: &Path) -> bool {
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::OpenOptions::new().append(true).open(path).is_ok() && access(directory, AccessFlags::W_OK).is_ok()
}

fn integrity(path: &Path, limit: Duration) -> Integrity {
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = match opened {
        Ok(connection) => connection,
        Err(error) => return Integrity::Damaged(damage(&error)),
    };
    let interrupt = connection.get_interrupt_handle();
    let (done, is_done) = mpsc::channel::<()>();
    let checked = thread::scope(|scope| {
        scope.spawn(move || {
            if is_done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                interrupt.interrupt();
            }
        });
        let checked: rusqlite::Result<String> =
            connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0));
        drop(done);
        checked
    });
    match checked {
        Ok(word) if word == "ok" => Integrity::Whole,
        Ok(problem) => Integrity::Damaged(problem),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Integrity::Unknown
            }
            Some(ErrorCode::SystemIoFailure | ErrorCode::DiskFull) if disk::is_on_full_disk(path) => {
                Integrity::NoRoom
            }
            Some(_) | None => Integrity::Damaged(damage(&error)),
        },
    }
}

fn damage(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is not a database".to_owned(),
        Some(ErrorCode::DatabaseCorrupt) => "its pages do not fit together".to_owned(),
        Some(_) | None => cause::innermost(error),
    }
}

#[cfg(test)]
mod tests;
