//! Detects changes of watched files since they were read, by the file system's records.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    plan::{Plan, Wanted, changed_at},
    target::Target,
};

/// Step of the times of a file system that counts fractions of a second: two ticks of a slow kernel.
const FINE_STEP: Duration = Duration::from_millis(20);
/// Step of the times of a file system that counts whole seconds.
const COARSE_STEP: Duration = Duration::from_secs(2);

/// The state of watched files and directories at one time: identities, sizes and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64);

/// The state in which targets are found at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The state of the targets, or `None` if it could not reveal the next change: if some of them changed
    /// after they were read, or so shortly before that the next change could bear the same time, or if there
    /// are too many.
    pub stamp: Option<Stamp>,
    /// Trees with more directories than are watched.
    pub overfull: Vec<PathBuf>,
}

impl Survey {
    /// Surveys targets that were read since `since`. Does blocking reads of directories.
    pub fn of(targets: &[Target], since: SystemTime) -> Self {
        let plan = Plan::new(targets);
        let stamp = if plan.overfull.is_empty() { Stamp::of(&plan, since) } else { None };
        Self { stamp, overfull: plan.overfull }
    }
}

impl Stamp {
    fn of(plan: &Plan, since: SystemTime) -> Option<Self> {
        let mut sum = Sum { hasher: DefaultHasher::new(), latest: Duration::ZERO, has_fractions: false };
        for (directory, wanted) in &plan.directories {
            match wanted {
                Wanted::Everything => {
                    let mut names: Vec<_> =
                        fs::read_dir(directory).ok()?.flatten().map(|entry| entry.path()).collect();
                    names.sort();
                    names.iter().for_each(|path| sum.add(path));
                }
                Wanted::Names(names) => {
                    let mut names: Vec<_> = names.iter().map(|name| directory.join(name)).collect();
                    names.sort();
                    names.iter().for_each(|path| sum.add(path));
                }
            }
        }
        let step = if sum.has_fractions { FINE_STEP } else { COARSE_STEP };
        let since = since.duration_since(UNIX_EPOCH).ok()?;
        (sum.latest + step < since).then(|| Self(sum.hasher.finish()))
    }
}

struct Sum {
    hasher: DefaultHasher,
    /// The time of the latest change, since 1970.
    latest: Duration,
    /// Set if some time is not a whole second, so that the file system counts in finer steps.
    has_fractions: bool,
}

impl Sum {
    fn add(&mut self, path: &Path) {
        path.hash(&mut self.hasher);
        let metadata = fs::symlink_metadata(path).ok();
        metadata.is_some().hash(&mut self.hasher);
        let Some(metadata) = metadata else { return };
        let changed = changed_at(&metadata);
        let identity = (metadata.dev(), metadata.ino(), metadata.mode());
        (identity, metadata.size(), metadata.mtime(), metadata.mtime_nsec(), changed).hash(&mut self.hasher);
        self.latest = self.latest.max(changed);
        self.has_fractions = self.has_fractions || changed.subsec_nanos() != 0;
    }
}
