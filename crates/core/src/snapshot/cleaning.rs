//! Removes snapshots that are old, that take too much room, or that are of worktrees no longer used.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{SnapshotError, git::Git, locking, temporary};

/// Days for which a snapshot can be restored.
pub const KEPT_DAYS: u64 = 7;
/// Days after the last snapshot of a worktree at which all of them are removed.
const UNUSED_DAYS: u64 = 30;
/// Kibibytes of one worktree's snapshots, beyond which those of the last day are the only ones that stay, and then
/// the newest alone.
pub const QUOTA: u64 = 512 << 10;

/// Removes objects that no snapshot of the last days needs, and more where the rest takes more than `quota` kibibytes.
pub async fn clean(git: &Git, quota: u64) -> Result<(), SnapshotError> {
    let mut expiries =
        [format!("{KEPT_DAYS}.days.ago"), "1.day.ago".to_owned(), "now".to_owned()].into_iter();
    if let Some(expiry) = expiries.next() {
        prune(git, &expiry).await?;
    }
    for expiry in expiries {
        if size(git).await? <= quota {
            break;
        }
        tracing::warn!(expiry, "the snapshots of a worktree are too large; older ones are removed");
        prune(git, &expiry).await?;
    }
    Ok(())
}

/// The newest tree is in the index and stays.
pub(super) async fn prune(git: &Git, expiry: &str) -> Result<(), SnapshotError> {
    git.run(&["prune", &format!("--expire={expiry}")]).await.map(drop)
}

/// Returns the kibibytes of all objects.
async fn size(git: &Git) -> Result<u64, SnapshotError> {
    let counts = git.line(&["count-objects", "-v"]).await?;
    let count = |name: &str| {
        let line = counts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    Ok(count("size") + count("size-pack") + count("size-garbage"))
}

/// Removes the snapshots of worktrees in which none was taken for long.
pub fn remove_unused(root: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(root) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path == own || !is_unused(&path) {
            continue;
        }
        let Ok(Some(_lock)) = locking::try_lock(&path) else { continue };
        // Another process may have taken a snapshot before the lock was there. A process that waits for the lock
        // finds the directory gone at once, and makes a new one.
        let removed = root.join(temporary());
        if is_unused(&path) && fs::rename(&path, &removed).is_ok() {
            let _ = fs::remove_dir_all(removed);
        }
    }
}

fn is_unused(directory: &Path) -> bool {
    let limit = Duration::from_secs(UNUSED_DAYS * 24 * 60 * 60);
    let age = locking::used(directory).ok().and_then(|used| SystemTime::now().duration_since(used).ok());
    age.is_some_and(|age| age > limit)
}
