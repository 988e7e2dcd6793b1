//! Opens the store's file, for writing, or for reading one that cannot be written.

use std::{
    ffi::OsString,
    fs,
    io::{self, ErrorKind},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, config::DbConfig};
use windlass_base::cause;

use super::{StorageError, disk, health, migrations};

/// Remedies.
const MOVE: &str = "move that file, or run `windlass db repair`";
const UNLOCK: &str = "make it and its directory writable";
const FREE: &str = "free some space and repeat";

/// Age from which on an empty file is not one that another process is just making.
const SETTLED: Duration = Duration::from_secs(60);

/// Time that another process's lock is waited for.
pub const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// Time between two looks at a new store that another process is making.
const PAUSE: Duration = Duration::from_millis(5);
/// Bytes of the log's file that stay once its changes are in the store.
const MAX_LOG: i64 = 4 * 1024 * 1024;

/// Opens the store, and makes it if it does not exist.
pub fn to_write(path: &Path) -> Result<Connection, StorageError> {
    if disk::is_emptied(path) {
        return Err(not_opened(path, disk::EMPTIED, MOVE));
    }
    if is_empty(path) {
        tracing::warn!("the store {} was empty, and begins anew", path.display());
    }
    if let Some(parent) = path.parent() {
        make_private(parent, path).map_err(|error| failed(path, &error))?;
    }
    let mut connection = Connection::open(path).map_err(|error| refused(path, error))?;
    let began = Instant::now();
    let made = loop {
        match set_up(&mut connection) {
            // SQLite does not wait for the lock under which another process makes the log of a new store, as it could
            // wait for ever.
            Err(StorageError::Locked(_)) if began.elapsed() < BUSY_LIMIT => thread::sleep(PAUSE),
            made => break made,
        }
    };
    match made {
        Ok(()) => Ok(connection),
        Err(
            StorageError::Sqlite(error) | StorageError::Damaged(error) | StorageError::NotWritable(error),
        ) => Err(refused(path, error)),
        Err(other) => Err(other),
    }
}

/// Returns true if the store's file has been empty for some time.
fn is_empty(path: &Path) -> bool {
    let age = |file: &fs::Metadata| file.modified().ok().and_then(|time| time.elapsed().ok());
    fs::metadata(path).is_ok_and(|file| file.len() == 0 && age(&file).is_some_and(|age| age > SETTLED))
}

/// Opens the store for reading, even if it must not be written.
pub fn to_read(path: &Path) -> Result<Connection, StorageError> {
    match to_write(path) {
        Err(StorageError::Open { .. }) if path.is_file() && !health::is_writable(path) => read_only(path),
        opened => opened,
    }
}

fn read_only(path: &Path) -> Result<Connection, StorageError> {
    let (connection, version) = examined(path).map_err(|error| refused(path, error))?;
    if version < migrations::NEWEST {
        let reason = "an older windlass wrote it, and it has to be written to bring it up to date";
        return Err(not_opened(path, reason, UNLOCK));
    }
    Ok(connection)
}

/// Opens a store of any version to look at it. Returns its version too; a damaged one is [`StorageError::Damaged`].
pub fn to_examine(path: &Path) -> Result<(Connection, usize), StorageError> {
    let (connection, version) = examined(path).map_err(|error| match StorageError::from(error) {
        StorageError::Damaged(error) => StorageError::Damaged(error),
        StorageError::NotWritable(error) | StorageError::Sqlite(error) => refused(path, error),
        other => other,
    })?;
    connection.busy_timeout(BUSY_LIMIT)?;
    Ok((connection, version))
}

fn examined(path: &Path) -> rusqlite::Result<(Connection, usize)> {
    let open = |parameter: &str| {
        let mut uri = b"file:".to_vec();
        for byte in path.as_os_str().as_bytes() {
            match byte {
                b'?' | b'#' | b'%' => uri.extend(format!("%{byte:02x}").bytes()),
                byte => uri.push(*byte),
            }
        }
        uri.extend(parameter.bytes());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(OsString::from_vec(uri), flags)?;
        cache_statements(&connection)?;
        migrations::version(&connection).map(|version| (connection, version))
    };
    let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    match open("?mode=ro") {
        // The log's index would have to be written; without a log, the file is complete.
        Err(_) if log == 0 => open("?immutable=1"),
        opened => opened,
    }
}

/// Restricts the directory and the file to their owner: conversations and file contents are private.
fn make_private(directory: &Path, file: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    fs::OpenOptions::new().create(true).append(true).mode(0o600).open(file)?;
    Ok(())
}

fn set_up(connection: &mut Connection) -> Result<(), StorageError> {
    connection.busy_timeout(BUSY_LIMIT)?;
    cache_statements(connection)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", "ON")?;
    connection.pragma_update(None, "cache_size", -2000)?;
    connection.pragma_update(None, "journal_size_limit", MAX_LOG)?;
    migrations::run(connection)
}

/// Lets a statement be prepared once and run with any values: SQLite would prepare it anew for every other value, in
/// case a better plan could be found for that.
fn cache_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(32);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Makes the error for a file that SQLite could not open.
fn refused(path: &Path, error: rusqlite::Error) -> StorageError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => not_opened(path, "it is damaged", MOVE),
        Some(ErrorCode::NotADatabase) => not_opened(path, "it is not a database", MOVE),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            not_opened(path, "it or its directory cannot be written", UNLOCK)
        }
        Some(ErrorCode::DiskFull) => not_opened(path, "its disk is full", FREE),
        Some(ErrorCode::SystemIoFailure) if disk::is_on_full_disk(path) => {
            not_opened(path, "its disk is full", FREE)
        }
        Some(_) | None => not_opened(path, &cause::innermost(&error), MOVE),
    }
}

/// Makes the error for a file that the system could not open.
pub fn failed(path: &Path, error: &io::Error) -> StorageError {
    let remedy = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => UNLOCK,
        ErrorKind::StorageFull => FREE,
        _other => MOVE,
    };
    not_opened(path, &cause::innermost(error), remedy)
}

fn not_opened(path: &Path, reason: &str, remedy: &'static str) -> StorageError {
    StorageError::Open { path: path.display().to_string(), reason: reason.to_owned(), remedy }
}

#[cfg(test)]
mod tests;
