//! Finds the files that a snapshot has to save, and those that differ between two.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{MAX_FILE, MAX_FILES, SnapshotError, StepChanges, git::Git, index};

/// Bytes of all diffs between two trees; larger ones are left out.
const MAX_PATCHES: u64 = 1 << 20;

/// A file that differs between two trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path below the worktree.
    pub path: PathBuf,
    pub status: FileStatus,
    /// The number of added lines; 0 for a binary file, and without patches.
    pub additions: u64,
    /// The number of removed lines.
    pub deletions: u64,
    /// The diff; empty where it is too large or not wanted.
    pub patch: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    Added,
    Deleted,
    Modified,
}

impl FileStatus {
    /// Returns OpenCode's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Deleted => "deleted",
            Self::Modified => "modified",
        }
    }
}

/// Returns the paths with another state in the index than in the worktree.
pub async fn unsaved(git: &Git) -> Result<Vec<PathBuf>, SnapshotError> {
    let printed =
        git.run(&["ls-files", "-z", "--others", "--modified", "--deleted", "--exclude-standard"]).await?;
    let mut paths: Vec<PathBuf> = split(&printed)
        // A repository within this one is shown as a directory.
        .filter(|path| !path.ends_with(b"/") && *path != index::MODES.as_bytes())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect();
    // A deleted file is listed as changed too.
    paths.dedup();
    if paths.len() > MAX_FILES { Err(SnapshotError::TooMany) } else { Ok(paths) }
}

/// Has the index take over the times of files with the same contents.
pub async fn refresh(git: &Git) -> Result<(), SnapshotError> {
    match git.run(&["update-index", "-q", "--refresh"]).await {
        // It ends with 1 where a file has changed.
        Ok(_) | Err(SnapshotError::Git(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Brings the index in step with the worktree, and returns the files that are left out: large and unreadable ones. Those
/// that became so are taken out of the index, as are the files of a directory that became a link.
pub async fn save(
    git: &Git,
    worktree: &Path,
    paths: Vec<PathBuf>,
) -> Result<HashSet<PathBuf>, SnapshotError> {
    if paths.is_empty() {
        return Ok(HashSet::new());
    }
    let worktree = worktree.to_owned();
    let sorted = tokio::task::spawn_blocking(move || {
        let mut saved = Vec::new();
        let mut removed = Vec::new();
        let mut left_out = HashSet::new();
        for path in paths {
            let is_behind_link = path.ancestors().skip(1).any(|above| worktree.join(above).is_symlink());
            let is_saved = !is_behind_link && is_savable(&worktree.join(&path));
            let kind = if is_saved { &mut saved } else { &mut removed };
            kind.extend_from_slice(path.as_os_str().as_bytes());
            kind.push(0);
            if !is_saved && !is_behind_link {
                left_out.insert(path);
            }
        }
        (saved, removed, left_out)
    });
    let (saved, removed, left_out) = sorted.await.map_err(std::io::Error::other)?;
    if !removed.is_empty() {
        git.with_input(&["update-index", "-z", "--force-remove", "--stdin"], &removed).await?;
    }
    if !saved.is_empty() {
        git.with_input(&["update-index", "-z", "--add", "--remove", "--replace", "--stdin"], &saved).await?;
    }
    Ok(left_out)
}

/// Returns those of the paths at which there is a file that the index has under another path: it was moved or linked.
pub fn moved(index: &Path, worktree: &Path, paths: &[PathBuf], hash_size: usize) -> HashSet<PathBuf> {
    let mut by_identity: HashMap<(u32, u32), Vec<&PathBuf>> = HashMap::new();
    for path in paths {
        if let Ok(found) = fs::symlink_metadata(worktree.join(path)) {
            // The index has the low 32 bits of every number.
            by_identity.entry((found.dev() as u32, found.ino() as u32)).or_default().push(path);
        }
    }
    let bytes = if by_identity.is_empty() { Vec::new() } else { fs::read(index).unwrap_or_default() };
    let mut moved = HashSet::new();
    for entry in index::entries(&bytes, hash_size).into_iter().flatten() {
        let found = by_identity.get(&entry.identity()).into_iter().flatten();
        moved.extend(found.filter(|path| path.as_os_str().as_bytes() != entry.name).map(|it| (*it).clone()));
    }
    moved
}

/// Returns true if the newest tree holds none of the paths, and a new one would not either.
pub fn are_left_out(paths: &[PathBuf], left_out: Option<&HashSet<PathBuf>>, worktree: &Path) -> bool {
    paths.iter().all(|path| {
        left_out.is_some_and(|left_out| left_out.contains(path)) && !is_savable(&worktree.join(path))
    })
}

/// Returns true for a file that can be saved, and for one that is not there, which is saved by being taken out.
fn is_savable(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => true,
        Ok(metadata) => metadata.is_file() && metadata.len() <= MAX_FILE && fs::File::open(path).is_ok(),
        Err(_) => true,
    }
}

/// See [`super::Snapshots::changes`].
pub async fn changes(
    git: &Git,
    before: &str,
    after: &str,
    with_patches: bool,
) -> Result<Vec<Change>, SnapshotError> {
    let diff = ["diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"];
    // Lines are counted by comparing contents.
    let counted = with_patches.then_some("--numstat");
    let args = diff.iter().copied().chain(["-z", "--raw"]).chain(counted).chain([before, after]);
    let args: Vec<&str> = args.collect();
    let printed = match git.run(&args).await {
        Ok(printed) => printed,
        Err(error) => return Err(git.reason(error, &[before, after]).await),
    };
    let mut changes = parse(&printed);
    if with_patches && !changes.is_empty() {
        let args = diff.iter().copied().chain(["-p", "--no-color", before, after]).map(Into::into);
        let printed = git.bounded(args, &[], MAX_PATCHES).await?;
        if (printed.len() as u64) < MAX_PATCHES {
            let text = String::from_utf8_lossy(&printed);
            for (change, patch) in changes.iter_mut().zip(patches(&text)) {
                patch.clone_into(&mut change.patch);
            }
        }
    }
    Ok(changes)
}

/// Clocks of file systems are behind.
const COARSE: Duration = Duration::from_millis(20);

/// Returns the added files that were made before `began`, as far as the file system tells: git ignored them, somebody
/// else made them before the work that these changes are of, or they were moved here.
pub fn added_before(changes: &[Change], worktree: &Path, began: SystemTime) -> HashSet<PathBuf> {
    let is_old = |path: &Path| {
        let made = fs::symlink_metadata(worktree.join(path)).and_then(|metadata| metadata.created());
        made.map_or(true, |made| made + COARSE < began)
    };
    let added = changes.iter().filter(|change| change.status == FileStatus::Added);
    added.filter(|change| is_old(&change.path)).map(|change| change.path.clone()).collect()
}

/// Returns those of the files that were written, moved or given other permissions since `began`.
pub fn changed_since(files: HashSet<PathBuf>, worktree: &Path, began: SystemTime) -> HashSet<PathBuf> {
    let is_new = |path: &PathBuf| {
        let Ok(metadata) = fs::symlink_metadata(worktree.join(path)) else { return false };
        // A move leaves the time of the last writing as it is.
        let changed = UNIX_EPOCH.checked_add(Duration::new(
            u64::try_from(metadata.ctime()).unwrap_or_default(),
            u32::try_from(metadata.ctime_nsec()).unwrap_or_default(),
        ));
        metadata.modified().ok().into_iter().chain(changed).any(|time| time + COARSE >= began)
    };
    files.into_iter().filter(is_new).collect()
}

/// Divides the changes of a step: `not_before` was in no snapshot before it, `not_after` is in none behind it.
pub fn divide(
    changes: Vec<Change>,
    not_before: &HashSet<PathBuf>,
    not_after: HashSet<PathBuf>,
) -> StepChanges {
    let (left_out, held) =
        changes.into_iter().partition::<Vec<_>, _>(|change| not_before.contains(&change.path));
    let mut left_out: Vec<PathBuf> = left_out.into_iter().map(|change| change.path).collect();
    // A file that became too large is gone from the tree behind the step, and comes back by an undo.
    left_out.extend(not_after.into_iter().filter(|path| held.iter().all(|change| change.path != *path)));
    left_out.sort();
    left_out.dedup();
    StepChanges { held, left_out }
}

/// Reads the records of `--raw`, then those of `--numstat`.
fn parse(printed: &[u8]) -> Vec<Change> {
    let mut fields = split(printed).peekable();
    let mut changes = Vec::new();
    while let Some(raw) = fields.next_if(|field| field.starts_with(b":")) {
        let Some(path) = fields.next() else { break };
        let status = match raw.last() {
            Some(b'A') => FileStatus::Added,
            Some(b'D') => FileStatus::Deleted,
            _ => FileStatus::Modified,
        };
        let path = PathBuf::from(OsStr::from_bytes(path));
        changes.push(Change { path, status, additions: 0, deletions: 0, patch: String::new() });
    }
    for (change, counts) in changes.iter_mut().zip(fields) {
        let mut counts = counts.splitn(3, |byte| *byte == b'\t').map(|count| {
            // A binary file has dashes.
            std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or_default()
        });
        change.additions = counts.next().unwrap_or_default();
        change.deletions = counts.next().unwrap_or_default();
    }
    changes
}

/// Divides a diff into those of its files.
fn patches(text: &str) -> impl Iterator<Item = &str> {
    const BEGIN: &str = "diff --git ";
    let mut starts: Vec<usize> = text.match_indices("\ndiff --git ").map(|(at, _)| at + 1).collect();
    if text.starts_with(BEGIN) {
        starts.insert(0, 0);
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).filter_map(|(start, end)| text.get(start..end))
}

/// Returns the fields that zeros end.
pub fn split(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed.split(|byte| *byte == 0).filter(|field| !field.is_empty())
}
