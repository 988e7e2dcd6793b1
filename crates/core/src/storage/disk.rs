//! The store's file as its disk has it: contents that were lost, and the room that is left.

use std::{fs, path::Path};

use nix::sys::statvfs::statvfs;

/// Bytes that a disk has left at most when it counts as full: SQLite makes some files by 32 KiB.
const FULL: u64 = 64 * 1024;

/// The reason for which a store with a file that lost its contents is not opened.
pub const EMPTIED: &str = "it is empty, and was not before";

/// Returns true if the store's file lost its contents, as other files show. SQLite would take it for a new database, and
/// remove the log, which may hold the newest changes.
pub fn is_emptied(path: &Path) -> bool {
    let log = fs::metadata(path.with_extension("db-wal")).map_or(0, |log| log.len());
    // The locks on sessions are made after the first session.
    let had_sessions = path.with_extension("db-sessions").exists();
    fs::metadata(path).is_ok_and(|file| file.len() == 0) && (log > 0 || had_sessions)
}

/// Returns the bytes that are left on the disk of a file for it to take.
pub fn free_space(path: &Path) -> Option<u64> {
    let disk = path.ancestors().find_map(|above| statvfs(above).ok())?;
    if disk.files() > 0 && disk.files_available() == 0 {
        return Some(0);
    }
    Some(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// Returns true if the disk of a file is full: for some of its files SQLite says that the disk failed.
pub fn is_on_full_disk(path: &Path) -> bool {
    free_space(path).is_some_and(|free| free < FULL)
}
