//! The files and directories to watch, and the result of starting to.

use std::{ffi::OsStr, path::PathBuf};

/// A file or directory to watch, by absolute path. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    File(PathBuf),
    /// A directory and its contents to a maximum depth, except for entries that [`is_passed_over`].
    Tree {
        root: PathBuf,
        depth: usize,
    },
}

/// The result of starting to watch targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// True if something may have changed that was not watched until now.
    pub has_changed: bool,
    /// True if every change from now on is noticed.
    pub is_whole: bool,
}

/// Returns true if a directory of this name holds packages or a version history rather than the user's own
/// files.
pub fn is_passed_over(name: &OsStr) -> bool {
    matches!(name.to_str(), Some(".git" | "node_modules" | ".venv" | "__pycache__"))
}
