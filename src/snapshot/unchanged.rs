//! Finds out without git that a worktree is as git last saw it: most commands change nothing, and to start git costs
//! more than to look at the times of a project's files.

use std::{
    collections::HashSet,
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use nix::{
    fcntl::AtFlags,
    sys::stat::{FileStat, fstat, fstatat},
};

use super::{SnapshotError, git::Git, listing};

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
struct Stamp {
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(stat: &FileStat) -> Self {
        Self {
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl Look {
    /// Looks at all directories; `None` where a change of one could go unseen.
    pub async fn take(git: &Git, worktree: &Path) -> Result<Option<Self>, SnapshotError> {
        let ignored = git
            .run(&["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"])
            .await?;
        let mut directories = Vec::new();
        for path in listing::split(&ignored).filter(|path| path.ends_with(b"/")) {
            directories.extend_from_slice(b"./");
            directories.extend_from_slice(path);
            directories.push(0);
        }
        // A directory that holds nothing but ignored files is listed too; another file in it would not be ignored.
        let ignored = if directories.is_empty() { Vec::new() } else { git.ignored(&directories).await? };
        let worktree = worktree.to_owned();
        let walk = tokio::task::spawn_blocking(move || {
            let ignored =
                listing::split(&ignored).filter_map(|path| path.strip_prefix(b"./")?.strip_suffix(b"/"));
            let ignored = ignored.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect();
            walk(&worktree, &ignored)
        });
        Ok(walk.await.map_err(io::Error::other)??.map(|stamps| Self { stamps }))
    }

    /// Returns true if all files and directories are as they were, and as the index has them.
    pub fn holds(&self, index: &Path, worktree: &Path, hash_size: usize) -> bool {
        let Ok(worktree) = File::open(worktree) else { return false };
        let is_same = |(path, stamp): &(PathBuf, Stamp)| {
            stat(&worktree, path).is_ok_and(|now| Stamp::of(&now) == *stamp)
        };
        self.stamps.iter().all(is_same) && has_all(index, &worktree, hash_size).unwrap_or_default()
    }
}

/// Path lookups below an open directory cost half of those from the root.
fn stat(worktree: &File, path: &Path) -> nix::Result<FileStat> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    fstatat(worktree, path, AtFlags::AT_SYMLINK_NOFOLLOW)
}

/// Returns the directories that are not ignored, and the files in them that say what is.
fn walk(root: &Path, ignored: &HashSet<PathBuf>) -> io::Result<Option<Vec<(PathBuf, Stamp)>>> {
    let settled = SystemTime::now() - SETTLED;
    let settled = settled.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let settled = (settled.as_secs() as i64, i64::from(settled.subsec_nanos()));
    let worktree = File::open(root)?;
    let mut stamps = Vec::new();
    let mut left = vec![PathBuf::new()];
    while let Some(directory) = left.pop() {
        let stamp = Stamp::of(&stat(&worktree, &directory)?);
        let path = root.join(&directory);
        // A repository within this one is searched by its own git.
        let is_other = path != root && path.join(".git").exists();
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

/// Returns true if every file of an index is there with the times and the size that the index has (gitformat-index);
/// `None` where it has something that only git understands.
fn has_all(index: &Path, worktree: &File, hash_size: usize) -> Option<bool> {
    let written = Stamp::of(&fstat(File::open(index).ok()?).ok()?).modified;
    let bytes = fs::read(index).ok()?;
    let mut reader = Reader(&bytes);
    if reader.take(4)? != b"DIRC" || reader.number()? != 2 {
        return None;
    }
    for _ in 0..reader.number()? {
        let entry = Entry::read(&mut reader, hash_size)?;
        let Ok(now) = stat(worktree, Path::new(OsStr::from_bytes(entry.name))) else { return Some(false) };
        // A file that changed as the index was written may have changed again, with the same times.
        let is_racy = Stamp::of(&now).modified >= written;
        if is_racy || !entry.is_of(&now) {
            return Some(false);
        }
    }
    Some(true)
}

/// An entry of an index of version 2.
struct Entry<'a> {
    /// Seconds and nanoseconds of the change and of the modification, device, inode, mode, user, group and size.
    numbers: [u32; 10],
    name: &'a [u8],
}

impl<'a> Entry<'a> {
    const FIXED: usize = 40 + 2;
    const REGULAR_OR_LINK: [u32; 2] = [0o10, 0o12];

    fn read(reader: &mut Reader<'a>, hash_size: usize) -> Option<Self> {
        let mut numbers = [0; 10];
        for number in &mut numbers {
            *number = reader.number()?;
        }
        reader.take(hash_size)?;
        let flags = reader.take(2)?;
        // Anything but a length is for git: unmerged, assumed to be unchanged, a name that is too long to be counted.
        let length = usize::from(u16::from_be_bytes([flags[0], flags[1]]));
        let is_plain = length < 0xfff && Self::REGULAR_OR_LINK.contains(&(numbers[6] >> 12));
        let name = is_plain.then(|| reader.take(length)).flatten()?;
        let size = Self::FIXED + hash_size + length;
        reader.take(8 - size % 8)?;
        Some(Self { numbers, name })
    }

    /// The index has the low 32 bits of every number.
    fn is_of(&self, stat: &FileStat) -> bool {
        let [changed, changed_nanos, modified, modified_nanos, _, inode, _, user, group, size] = self.numbers;
        changed == stat.st_ctime as u32
            && changed_nanos == stat.st_ctime_nsec as u32
            && modified == stat.st_mtime as u32
            && modified_nanos == stat.st_mtime_nsec as u32
            && inode == stat.st_ino as u32
            && user == stat.st_uid
            && group == stat.st_gid
            && size == stat.st_size as u32
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests;
