//! A lock file beside the store: shared by every process that has the store open, exclusive for its repair.
//!
//! The system releases it with the end of the process, however that comes.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use windlass_base::lock::lock;

use super::StorageError;

/// Time that a repair is waited for.
const LIMIT: Duration = Duration::from_secs(2);
/// Time between two looks at a lock that is held.
const PAUSE: Duration = Duration::from_millis(20);

/// The presence of one [`super::Storage`] at its store, from its first use to its end.
pub struct Presence {
    path: PathBuf,
    held: Mutex<Option<File>>,
}

impl Presence {
    pub fn new(path: PathBuf) -> Self {
        Self { path, held: Mutex::new(None) }
    }

    /// Takes the lock together with all other users of the store; waits shortly for a repair.
    ///
    /// A directory in which no file can be made holds nobody up: no repair can put a file there either.
    pub fn begin(&self) -> Result<(), StorageError> {
        let mut held = lock(&self.held);
        if held.is_some() {
            return Ok(());
        }
        let Ok(file) = open(&self.path) else { return Ok(()) };
        let start = Instant::now();
        loop {
            match file.try_lock_shared() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if start.elapsed() < LIMIT => thread::sleep(PAUSE),
                Err(TryLockError::WouldBlock) => {
                    return Err(StorageError::InRepair { path: self.path.display().to_string() });
                }
                // A file system without locks.
                Err(TryLockError::Error(_)) => return Ok(()),
            }
        }
        *held = Some(file);
        Ok(())
    }

    /// Returns true if no other process has the store open.
    pub fn is_alone(&self) -> bool {
        let held = lock(&self.held);
        let Some(file) = held.as_ref() else { return true };
        let is_alone = !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        // A lock that could not be made exclusive is lost; it is taken again, behind a repair that came first.
        let _ = file.lock_shared();
        is_alone
    }
}

/// Takes the lock alone; `None` if another process has the store open.
pub fn alone(store: &Path) -> io::Result<Option<File>> {
    let file = open(store)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open(store: &Path) -> io::Result<File> {
    if let Some(directory) = store.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let path = store.with_extension("db-lock");
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;
