//! Finds the directories to watch, and which of their entries matter, to see every change of the targets.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    ffi::{OsStr, OsString},
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::target::{Target, is_passed_over};

/// Maximum number of directories in one tree; more are a mistake, such as a link to a whole disk.
pub const MAX_DIRECTORIES: usize = 4000;

/// Maximum number of links on the way to one file, as in the system.
const MAX_LINKS: usize = 40;

/// Maximum lag of a file's time behind the clock: file systems count in steps.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Returns the time of the last change to a file's contents, name or mode, since 1970.
pub(super) fn changed_at(metadata: &Metadata) -> Duration {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    Duration::new(seconds, u32::try_from(metadata.ctime_nsec()).unwrap_or_default())
}

/// The entries of a watched directory that matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Everything,
    Names(HashSet<OsString>),
}

impl Wanted {
    fn name(name: &OsStr) -> Self {
        Wanted::Names(HashSet::from([name.to_owned()]))
    }

    fn itself() -> Self {
        Wanted::Names(HashSet::new())
    }

    /// Returns true if no entry matters, only that the directory stays in place.
    pub(super) fn is_itself(&self) -> bool {
        matches!(self, Wanted::Names(names) if names.is_empty())
    }

    /// Returns true if a watch for these entries also sees the changes that matter to `other`.
    pub(super) fn covers(&self, other: &Wanted) -> bool {
        match (self, other) {
            (Wanted::Everything, _) => true,
            (Wanted::Names(_), Wanted::Everything) => false,
            (Wanted::Names(names), Wanted::Names(more)) => names.is_superset(more),
        }
    }

    pub(super) fn contains(&self, name: &OsString) -> bool {
        match self {
            Wanted::Everything => true,
            Wanted::Names(names) => names.contains(name),
        }
    }

    /// Returns true if an entry of `directory` that matters may have changed since `since`, by its times.
    pub(super) fn may_have_changed(&self, directory: &Path, since: SystemTime) -> bool {
        let is_newer = |metadata: Metadata| UNIX_EPOCH + changed_at(&metadata) + CLOCK_STEP >= since;
        let is_new = |path: PathBuf| fs::symlink_metadata(path).is_ok_and(is_newer);
        if self.is_itself() {
            return false;
        }
        // Removing or renaming an entry changes the time of the directory.
        if fs::metadata(directory).is_ok_and(is_newer) {
            return true;
        }
        match self {
            Wanted::Names(names) => names.iter().any(|name| is_new(directory.join(name))),
            Wanted::Everything => {
                fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| is_new(entry.path()))
            }
        }
    }

    pub(super) fn extend(&mut self, other: Wanted) {
        match (&mut *self, other) {
            (Wanted::Everything, _) => {}
            (_, Wanted::Everything) => *self = Wanted::Everything,
            (Wanted::Names(names), Wanted::Names(more)) => names.extend(more),
        }
    }
}

/// Existing directories by path, without links in it. Only existing directories can be watched. A path that
/// does not exist yet is awaited where it, or its first missing ancestor, will appear.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) directories: BTreeMap<PathBuf, Wanted>,
    /// Trees with more directories than can be watched.
    pub(super) overfull: Vec<PathBuf>,
    /// Results of resolving directories.
    resolved: HashMap<PathBuf, Option<PathBuf>>,
}

impl Plan {
    pub(super) fn new(targets: &[Target]) -> Self {
        let mut plan = Self::default();
        for target in targets {
            match target {
                Target::File(file) => _ = plan.entry(file),
                Target::Tree { root, depth } => plan.tree(root, *depth),
            }
        }
        plan
    }

    fn want(&mut self, directory: &Path, wanted: Wanted) {
        match self.directories.get_mut(directory) {
            Some(known) => known.extend(wanted),
            None => _ = self.directories.insert(directory.to_owned(), wanted),
        }
    }

    /// Watches one entry of a directory: its creation, its removal and its replacement. Returns the path it
    /// leads to, if any.
    fn entry(&mut self, path: &Path) -> Option<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Some(path.to_owned());
        };
        let parent = match self.resolved.get(parent) {
            Some(known) => known.clone(),
            None => {
                let mut left = parts(parent);
                // More parts follow, so only a directory will do.
                left.insert(0, OsString::from("."));
                let target = self.follow(PathBuf::from("/"), parent, left);
                self.resolved.insert(parent.to_owned(), target.clone());
                target
            }
        };
        self.follow(parent?, path, vec![name.to_owned()])
    }

    /// Follows a path from a directory part by part, the last part of `left` first, as the system does. Every
    /// link on the way, every directory and the final target are watched. Returns `None` if a part does not
    /// exist yet: that part is awaited.
    fn follow(&mut self, mut at: PathBuf, path: &Path, mut left: Vec<OsString>) -> Option<PathBuf> {
        let mut n_links = 0;
        self.want(&at, Wanted::itself());
        while let Some(part) = left.pop() {
            match part.to_str() {
                Some(".") => continue,
                Some("..") => {
                    at.pop();
                    continue;
                }
                Some(_) | None => {}
            }
            let entry = at.join(&part);
            let metadata = match fs::symlink_metadata(&entry) {
                Ok(metadata) => metadata,
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied
                        && let (Some(above), Some(name)) = (at.parent(), at.file_name())
                    {
                        // A change of its search permission is an event of the directory above it.
                        self.want(above, Wanted::name(name));
                    }
                    self.want(&at, Wanted::name(&part));
                    return None;
                }
            };
            if metadata.is_symlink() {
                self.want(&at, Wanted::name(&part));
                n_links += 1;
                let target = fs::read_link(&entry).ok()?;
                if n_links > MAX_LINKS {
                    tracing::debug!("{} is a circle of links, or too many", path.display());
                    return None;
                }
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                left.extend(parts(&target));
            } else if left.is_empty() {
                self.want(&at, Wanted::name(&part));
                at = entry;
            } else if metadata.is_dir() {
                at = entry;
                self.want(&at, Wanted::itself());
            } else {
                // A file exists where a directory is awaited.
                self.want(&at, Wanted::name(&part));
                return None;
            }
        }
        Some(at)
    }

    /// Watches a tree level by level, so that only deep directories are lost when there are too many.
    fn tree(&mut self, root: &Path, max_depth: usize) {
        let Some(real) = self.entry(root) else { return };
        // A link may lead back up, so directories are identified by inode rather than by name.
        let mut seen = HashSet::new();
        let mut pending = VecDeque::from([(real, 0)]);
        while let Some((directory, depth)) = pending.pop_front() {
            let Ok(metadata) = fs::metadata(&directory) else { continue };
            if !metadata.is_dir() || !seen.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            if seen.len() > MAX_DIRECTORIES {
                if !self.overfull.iter().any(|it| it == root) {
                    self.overfull.push(root.to_owned());
                }
                return;
            }
            self.want(&directory, Wanted::Everything);
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if is_passed_over(&entry.file_name()) {
                    continue;
                }
                let leads_to = if kind.is_symlink() {
                    self.entry(&entry.path())
                } else {
                    kind.is_dir().then(|| entry.path())
                };
                pending.extend(leads_to.filter(|_| depth < max_depth).map(|it| (it, depth + 1)));
            }
        }
    }
}

/// Splits a path into its parts, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().filter(|part| !matches!(part, Component::RootDir | Component::Prefix(_)));
    parts.map(|part| part.as_os_str().to_owned()).rev().collect()
}
