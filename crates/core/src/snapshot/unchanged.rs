//! Finds out without git that a worktree is as git last saw it: most commands change nothing, and to start git costs
//! more than to look at the times of a project's files.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File, Metadata},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nix::{
    fcntl::AtFlags,
    sys::stat::{FileStat, fstat, fstatat},
};

use super::{SnapshotError, git::Git, index, listing};

/// Directories of a worktree; with more of them git is as quick.
const MAX_DIRECTORIES: usize = 20_000;
/// Age of a directory's times from which on another change must show in them: clocks of file systems are coarse.
const SETTLED: Duration = Duration::from_millis(100);

/// The directories of a worktree that git would search for new files, as they were at one moment. Files need none of
/// this, because the index has their times.
pub struct Look {
    /// Paths below the worktree.
    stamps: Vec<(PathBuf, Stamp)>,
}

/// A value that changes with the entries of a directory, and with the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub fn of(stat: &FileStat) -> Self {
        Self {
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    pub fn of_metadata(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Look {
    /// Looks at all directories; `None` where a change of one could go unseen.
    pub async fn take(git: &Git, worktree: &Path) -> Result<Option<Self>, SnapshotError> {
        let (ignored, others) = (ignored(git, &[]).await?, others(git, &[]).await?);
        let worktree = worktree.to_owned();
        let walk = tokio::task::spawn_blocking(move || walk(&worktree, &ignored, &others));
        Ok(walk.await.map_err(io::Error::other)??.map(|stamps| Self { stamps }))
    }

    /// Returns true if all files and directories are as they were, and as the index has them.
    pub fn holds(&self, index: &Path, worktree: &Path, hash_size: usize) -> bool {
        let Ok(worktree) = File::open(worktree) else { return false };
        let is_same = |(path, stamp): &(PathBuf, Stamp)| {
            stat(&worktree, path).is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        self.stamps.iter().all(is_same) && has_all_in(index, &worktree, hash_size).unwrap_or_default()
    }
}

/// Returns the directories that are ignored, in some directories or in the whole worktree.
pub async fn ignored(git: &Git, within: &[&Path]) -> Result<HashSet<PathBuf>, SnapshotError> {
    let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"];
    let listed = git.on_paths(&list, within).await?;
    let mut directories = Vec::new();
    for path in listing::split(&listed).filter(|path| path.ends_with(b"/")) {
        directories.extend_from_slice(b"./");
        directories.extend_from_slice(path);
        directories.push(0);
    }
    // A directory that holds nothing but ignored files is listed too; another file in it would not be ignored.
    let ignored = if directories.is_empty() { Vec::new() } else { git.ignored(&directories).await? };
    let ignored = listing::split(&ignored).filter_map(|path| path.strip_prefix(b"./")?.strip_suffix(b"/"));
    Ok(ignored.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Returns the repositories in some directories or in the whole worktree, which their own git alone searches.
pub async fn others(git: &Git, within: &[&Path]) -> Result<HashSet<PathBuf>, SnapshotError> {
    let listed = git.on_paths(&["ls-files", "-z", "--others", "--exclude-standard", "--"], within).await?;
    let directories = listing::split(&listed).filter_map(|path| path.strip_suffix(b"/"));
    Ok(directories.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Path lookups below an open directory cost half of those from the root.
pub fn stat(worktree: &File, path: &Path) -> nix::Result<FileStat> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fstatat(worktree, path, AtFlags::AT_SYMLINK_NOFOLLOW)
}

/// Returns the directories that are not ignored, and the files in them that say which are.
fn walk(
    root: &Path,
    ignored: &HashSet<PathBuf>,
    others: &HashSet<PathBuf>,
) -> io::Result<Option<Vec<(PathBuf, Stamp)>>> {
    let settled = SystemTime::now() - SETTLED;
    let settled = settled.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settled = (settled.as_secs() as i64, i64::from(settled.subsec_nanos()));
    let worktree = File::open(root)?;
    let mut stamps = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(directory) = left.pop() {
        let stamp = Stamp::of(&stat(&worktree, &directory)?);
        let path = root.join(&directory);
        let is_other = others.contains(&directory);
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_name() == ".gitignore" {
                let stamp = Stamp::of(&stat(&worktree, &path)?);
                stamps.push((path, stamp));
            } else if entry.file_type()?.is_dir()
                && entry.file_name() != ".git"
                && !is_other
                && !ignored.contains(&path)
            {
                left.push(path);
            }
        }
        stamps.push((directory, stamp));
        if stamps.len() > MAX_DIRECTORIES {
            return Ok(None);
        }
    }
    let is_settled = |(_, stamp): &(PathBuf, Stamp)| stamp.modified.max(stamp.changed) < settled;
    Ok(stamps.iter().all(is_settled).then_some(stamps))
}

/// Returns true if every file of an index is there with the times and the size that the index has.
pub fn has_all(index: &Path, worktree: &Path, hash_size: usize) -> bool {
    File::open(worktree).is_ok_and(|it| has_all_in(index, &it, hash_size).unwrap_or_default())
}

/// See [`has_all`]; `None` where the index has something that only git understands.
fn has_all_in(index: &Path, worktree: &File, hash_size: usize) -> Option<bool> {
    let written = Stamp::of(&fstat(File::open(index).ok()?).ok()?).modified;
    let bytes = fs::read(index).ok()?;
    for entry in index::entries(&bytes, hash_size)? {
        if entry.name == index::MODES.as_bytes() {
            continue;
        }
        let Ok(now) = stat(worktree, Path::new(OsStr::from_bytes(entry.name))) else { return Some(false) };
        // A file that changed as the index was written may have changed again, with the same times.
        let is_racy = Stamp::of(&now).modified >= written;
        if is_racy || !entry.is_of(&now) {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests;
