//! Files as a boundary holds them, to notice that a path leads to another one.

use std::{
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// A file, and the entries of a directory where they count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    /// Given to another file as soon as this one is gone.
    inode: u64,
    /// None where the file system does not tell.
    created: Option<SystemTime>,
    /// Of files, and of directories that are given to the command entry by entry.
    changed: Option<(i64, i64)>,
}

impl Identity {
    pub fn of(path: &Path) -> Option<Self> {
        Self::new(path, false)
    }

    fn new(path: &Path, is_listed: bool) -> Option<Self> {
        let has_changed = |it: &Metadata| is_listed || !it.is_dir();
        let of = |it: Metadata| Self {
            device: it.dev(),
            inode: it.ino(),
            created: it.created().ok(),
            changed: has_changed(&it).then(|| (it.ctime(), it.ctime_nsec())),
        };
        fs::symlink_metadata(path).map(of).ok()
    }
}

/// Returns the identities of paths; none for one that is not there.
pub(super) fn of_paths<'a>(
    paths: impl Iterator<Item = &'a PathBuf>,
) -> impl Iterator<Item = Option<Identity>> {
    paths.map(|path| Identity::of(path))
}

/// Returns the identities of all directories above the paths, with their entries.
pub(super) fn of_ancestors(paths: &[PathBuf]) -> impl Iterator<Item = Option<Identity>> {
    paths.iter().flat_map(|path| path.ancestors().skip(1)).map(|path| Identity::new(path, true))
}
