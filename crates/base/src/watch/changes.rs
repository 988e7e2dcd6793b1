//! The changes below a directory that is watched.

use std::{collections::HashSet, path::PathBuf};

/// The paths at which something may have changed, below the root. Each may be gone by now, or another kind of thing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Files and other entries that were made, written, moved or removed, and those with other permissions, directories
    /// among them.
    pub entries: HashSet<PathBuf>,
    /// Directories that were made, moved or removed, with all that is or was in them.
    pub directories: HashSet<PathBuf>,
    /// Those of the entries that were written after they were made, moved or removed. Where nothing is at such a path, the
    /// file has another name by now.
    pub written: HashSet<PathBuf>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.directories.is_empty()
    }
}

/// The reason that changes are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    #[error("more happened than the system keeps")]
    Events,
    #[error("another directory or file system took its place")]
    Root,
}
