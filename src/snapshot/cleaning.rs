//! Keeps the snapshots small: by age, by size, and without those of worktrees that nobody works in.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{SnapshotError, git::Git};

/// Days for which a snapshot can be restored.
pub const KEPT_DAYS: u64 = 7;
/// Days after the last snapshot of a worktree at which all of them are removed.
const UNUSED_DAYS: u64 = 30;
/// Kibibytes of one worktree's snapshots, beyond which those of the last day are the only ones that stay, and then
/// the newest alone.
const QUOTA: u64 = 512 << 10;

/// Removes what no snapshot of the last days needs.
pub async fn clean(git: &Git) -> Result<(), SnapshotError> {
    let mut expiries =
        [format!("{KEPT_DAYS}.days.ago"), "1.day.ago".to_owned(), "now".to_owned()].into_iter();
    if let Some(expiry) = expiries.next() {
        prune(git, &expiry).await?;
    }
    for expiry in expiries {
        if size(git).await? <= QUOTA {
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

/// Removes the snapshots of worktrees that nobody has worked in for long.
pub fn remove_unused(root: &Path, own: &Path) {
    let old = Duration::from_secs(UNUSED_DAYS * 24 * 60 * 60);
    let Ok(entries) = fs::read_dir(root) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let used = fs::metadata(path.join("windlass.lock")).and_then(|lock| lock.modified());
        let is_old = used.is_ok_and(|used| SystemTime::now().duration_since(used).is_ok_and(|age| age > old));
        if is_old && path != own {
            let _ = fs::remove_dir_all(path);
        }
    }
}
