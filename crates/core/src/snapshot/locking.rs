//! The lock by which one process at a time works with the snapshots of a worktree.

use std::{
    fs::{self, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
    time::Duration,
};

use tokio::time::{sleep, timeout};

use super::{SnapshotError, git};

const NAME: &str = "windlass.lock";
/// Time limit for the wait until another process has taken its snapshot.
const LIMIT: Duration = Duration::from_secs(30);
/// A lock of files cannot be waited for without a thread, so it is asked for again and again.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until no other process works with these snapshots. The lock is released when the file is closed, also by a
/// sudden death; a lock of git's that is still there then is a dead process's.
pub async fn lock(directory: &Path) -> Result<fs::File, SnapshotError> {
    let locked = async {
        loop {
            let directory = directory.to_owned();
            let attempt = tokio::task::spawn_blocking(move || {
                git::make_private(&directory)?;
                let Some(file) = try_lock(&directory)? else { return Ok(None) };
                file.set_modified(std::time::SystemTime::now())?;
                match fs::remove_file(directory.join("index.lock")) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(Some(file)),
                }
            });
            if let Some(file) = attempt.await.map_err(io::Error::other)?? {
                return Ok(file);
            }
            sleep(PAUSE).await;
        }
    };
    timeout(LIMIT, locked).await.unwrap_or(Err(SnapshotError::Busy))
}

/// Takes the lock of a directory; `None` if another process has it, or has just removed the directory.
pub fn try_lock(directory: &Path) -> io::Result<Option<fs::File>> {
    let path = directory.join(NAME);
    let file = fs::OpenOptions::new().create(true).append(true).open(&path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let own = file.metadata()?;
    let is_there = fs::metadata(&path).is_ok_and(|it| (it.dev(), it.ino()) == (own.dev(), own.ino()));
    Ok(is_there.then_some(file))
}

/// Returns the time at which the lock was last taken.
pub fn used(directory: &Path) -> io::Result<std::time::SystemTime> {
    fs::metadata(directory.join(NAME))?.modified()
}
