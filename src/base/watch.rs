//! Tells when files change that somebody reads, also files and directories that do not exist yet.

use std::{ffi::OsStr, path::PathBuf};

#[cfg(target_os = "linux")]
mod inotify;
#[cfg(not(target_os = "linux"))]
mod none;
mod plan;
mod stamp;

#[cfg(target_os = "linux")]
pub use inotify::Watcher;
#[cfg(not(target_os = "linux"))]
pub use none::Watcher;
pub use plan::MAX_DIRECTORIES;
pub use stamp::{Stamp, Survey};

/// What is followed, by absolute path. Neither has to exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    File(PathBuf),
    /// A directory and what is below it, so many levels deep, except for what [`is_passed_over`].
    Tree {
        root: PathBuf,
        depth: usize,
    },
}

/// What following targets has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// Something that was not watched until now may have changed.
    pub has_changed: bool,
    /// Every change from here on is noticed.
    pub is_whole: bool,
}

/// Whether a directory of this name holds packages or a history, in which nobody keeps files of his own.
pub fn is_passed_over(name: &OsStr) -> bool {
    matches!(name.to_str(), Some(".git" | "node_modules" | ".venv" | "__pycache__"))
}

#[cfg(test)]
mod tests;
