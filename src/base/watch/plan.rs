//! Which directories have to be watched, and for which of their entries, to see everything that is followed.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::Target;

/// Directories of one tree; more are a mistake, such as a link to a whole disk.
pub(super) const MAX_DIRECTORIES: usize = 1000;

/// How far a file's time may lie behind the clock: file systems count in steps.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// When a file's contents, name or mode last changed, since 1970.
pub(super) fn changed_at(metadata: &Metadata) -> Duration {
    let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
    Duration::new(seconds, u32::try_from(metadata.ctime_nsec()).unwrap_or_default())
}

/// Which entries of a watched directory matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    Everything,
    Names(HashSet<OsString>),
}

impl Wanted {
    pub(super) fn contains(&self, name: &OsString) -> bool {
        match self {
            Wanted::Everything => true,
            Wanted::Names(names) => names.contains(name),
        }
    }

    /// Whether something that matters in `directory` may have changed since a moment, as far as its times tell.
    pub(super) fn may_have_changed(&self, directory: &Path, since: SystemTime) -> bool {
        let is_newer = |metadata: Metadata| UNIX_EPOCH + changed_at(&metadata) + CLOCK_STEP >= since;
        let is_new = |path: PathBuf| fs::symlink_metadata(path).is_ok_and(is_newer);
        // What was removed or renamed left its mark on the directory.
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

/// Existing directories by path. Only they can be watched, so what does not exist yet is awaited where it, or the
/// first directory above it that is missing too, will appear.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) directories: BTreeMap<PathBuf, Wanted>,
    /// Trees with more directories than are watched.
    pub(super) overfull: Vec<PathBuf>,
}

impl Plan {
    pub(super) fn new(targets: &[Target]) -> Self {
        let mut plan = Self::default();
        for target in targets {
            match target {
                Target::File(file) => plan.entry(file),
                Target::Tree(directory) => plan.tree(directory),
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

    /// One entry of a directory: that it comes, goes, or is another one.
    fn entry(&mut self, path: &Path) {
        self.name(path);
        if path.is_symlink() {
            // What is written through a link is an event where the link leads.
            if let Ok(real) = path.canonicalize() {
                self.name(&real);
            }
        }
    }

    fn name(&mut self, path: &Path) {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
        if parent.is_dir() {
            self.want(parent, Wanted::Names(HashSet::from([name.to_owned()])));
            if parent.is_symlink() {
                self.name(parent);
            }
        } else {
            self.name(parent);
        }
    }

    fn tree(&mut self, root: &Path) {
        self.entry(root);
        // A link may lead back up, so directories are known by what they are rather than by name.
        let mut seen = HashSet::new();
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            let Ok(metadata) = fs::metadata(&directory) else { continue };
            if !metadata.is_dir() || !seen.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            if seen.len() > MAX_DIRECTORIES {
                self.overfull.push(root.to_owned());
                return;
            }
            self.want(&directory, Wanted::Everything);
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                let is_skipped = matches!(entry.file_name().to_str(), Some(".git" | "node_modules"));
                if (kind.is_dir() || kind.is_symlink()) && !is_skipped {
                    pending.push(entry.path());
                }
                if kind.is_symlink() {
                    self.entry(&entry.path());
                }
            }
        }
    }
}
