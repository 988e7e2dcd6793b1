//! Tells when files change that somebody reads, also files and directories that do not exist yet.

use std::path::PathBuf;

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
pub use stamp::Stamp;

/// What is followed, by absolute path. Neither has to exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    File(PathBuf),
    /// A directory and everything below it.
    Tree(PathBuf),
}

#[cfg(test)]
mod tests;
