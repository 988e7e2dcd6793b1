//! Finds the files that changed since the newest snapshot from a watch of the worktree, so that a snapshot costs what has
//! changed, and not what is there.
//!
//! The system tells the changes that are made by way of a watched directory. The others, and their finders:
//!
//! | change | finder |
//! |---|---|
//! | a file with several names, written by one outside of the watched directories | its times, at each snapshot |
//! | a file that got such a name later, and is written by it | a look at all files each half minute of use, and git before an undo |
//! | a file that is mapped into memory, or written by asynchronous calls, and still open | the same |
//! | an open file whose name was taken away, and given to another file | the same |
//! | an open file that has another name by now | git |
//! | `.gitignore` or `.git` of any directory, a directory that cannot be read | git |
//! | the user's own excludes outside of the worktree | git, before an undo |
//! | another directory or file system in the place of the worktree or of a part of it | git |
//! | more events than the system keeps, or than are worth to be told | git |
//!
//! Where git looks at everything, a new watch is made.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::FutureExt;
use nix::{
    errno::Errno,
    sys::stat::{FileStat, SFlag},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{
    memory,
    watch::{Changes, TreeWatch},
};

use super::{
    SnapshotError,
    git::Git,
    index::{self, Index},
    listing,
    unchanged::{self, Stamp, stat},
};

/// Changed paths; for more of them git is as quick.
const MAX_CHANGED: usize = 1000;
/// Files with several names, which are looked at for each snapshot.
const MAX_LINKED: usize = 1000;
/// Paths of which it is known that git ignores them.
const MAX_IGNORED: usize = 10_000;
/// Time of use after which all files are looked at, beside the work.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The permissions with which the owner can list a directory and look at its entries.
const READABLE: u32 = 0o500;

/// Worktrees that one process watches: a user has 128 watchers, for all programs.
static WATCHES: Semaphore = Semaphore::const_new(16);

/// A watch of a worktree.
pub struct Watch {
    _permit: SemaphorePermit<'static>,
    /// `None` once it is being dropped.
    tree: Option<TreeWatch>,
    /// Files with several names.
    linked: HashMap<PathBuf, Stamp>,
    /// Files that are ignored, as far as git was asked.
    ignored: HashSet<PathBuf>,
    /// The newest snapshot has all that was told until now.
    pub is_based: bool,
    /// The time at which all files were last looked at.
    looked: Instant,
    /// A look at all files; true if they are as the index has them.
    look: Option<AbortOnDropHandle<bool>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        // To end thousands of watches takes milliseconds.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let tree = self.tree.take();
            runtime.spawn_blocking(move || drop(tree));
        }
    }
}

/// The reason that a worktree is not watched.
#[derive(Debug, thiserror::Error)]
pub enum Unwatched {
    #[error("{0}")]
    Lasting(io::Error),
    /// Another try may do better.
    #[error("{0}")]
    Passing(SnapshotError),
}

impl From<io::Error> for Unwatched {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::NotFound => Self::Passing(error.into()),
            _ => Self::Lasting(error),
        }
    }
}

impl From<SnapshotError> for Unwatched {
    fn from(error: SnapshotError) -> Self {
        Self::Passing(error)
    }
}

/// The changes since the newest snapshot.
pub struct Changed {
    /// The files that a snapshot has to save or to take out.
    pub files: Vec<PathBuf>,
    /// The files and directories with other permissions, as far as a snapshot has them.
    pub touched: HashSet<PathBuf>,
}

impl Watch {
    /// Begins to watch a worktree. The first snapshot from then on has to look at everything.
    pub async fn begin(git: &Git, worktree: &Path) -> Result<Self, Unwatched> {
        let busy = || io::Error::new(io::ErrorKind::Unsupported, "enough worktrees are watched");
        let permit = WATCHES.try_acquire().map_err(|_| busy())?;
        let tree = TreeWatch::new(worktree)?;
        let left_out = LeftOut::read(git, &[]).await?;
        let (root, known) = (worktree.to_owned(), left_out.clone());
        let begun = spawn_blocking(move || {
            let mut watch = Self {
                _permit: permit,
                tree: Some(tree),
                linked: HashMap::new(),
                ignored: HashSet::new(),
                is_based: false,
                looked: Instant::now(),
                look: None,
            };
            watch.follow(&root, vec![PathBuf::new()], &known)?;
            memory::give_back();
            Ok::<_, io::Error>(watch)
        });
        let watch = begun.await.map_err(io::Error::other)??;
        if left_out.holds(git, worktree, &[]).await? {
            Ok(watch)
        } else {
            Err(io::Error::new(io::ErrorKind::Interrupted, "its rules are being changed").into())
        }
    }

    /// Watches directories and those in them, but no ignored ones and none in other repositories. Does blocking reads.
    fn follow(&mut self, worktree: &Path, mut left: Vec<PathBuf>, left_out: &LeftOut) -> io::Result<()> {
        let Some(tree) = &mut self.tree else { return Ok(()) };
        while let Some(directory) = left.pop() {
            // The order matters: entries that are made behind the reading are told.
            if left_out.ignored.contains(&directory)
                || !tree.add(&directory)?
                || left_out.others.contains(&directory)
            {
                continue;
            }
            let entries = match fs::read_dir(worktree.join(&directory)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let path = directory.join(entry.file_name());
                let found = match entry.metadata() {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    found => found?,
                };
                if found.is_dir() && entry.file_name() != ".git" {
                    left.push(path);
                } else if found.is_file() && found.nlink() > 1 {
                    self.linked.insert(path, Stamp::of_metadata(&found));
                }
            }
        }
        if self.linked.len() > MAX_LINKED {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "too many of its files have several names",
            ));
        }
        Ok(())
    }

    /// Returns what was told since the last call; `None` where only git knows. Does blocking reads.
    pub fn take(&mut self, worktree: &Path) -> Option<Changes> {
        let told = self.tree.as_mut()?.take();
        let mut changes = told.inspect_err(|lost| tracing::debug!(%lost, "a watch is lost")).ok()?;
        if let Some(look) = self.look.take_if(|look| look.is_finished()) {
            // The task has ended, so that its result is there.
            if !look.now_or_never().and_then(Result::ok).unwrap_or_default() {
                return None;
            }
        }
        // Files in a directory that was moved may be ignored no more.
        self.ignored.retain(|path| !path.ancestors().any(|above| changes.directories.contains(above)));
        let worktree = File::open(worktree).ok()?;
        let (written, is_there) = (&changes.written, |path: &Path| stat(&worktree, path).is_ok());
        let is_wanted =
            |path: &PathBuf| !self.ignored.contains(path) || written.contains(path) && !is_there(path);
        changes.entries.retain(is_wanted);
        self.linked.retain(|path, known| {
            let now = stat(&worktree, path).ok().map(|found: FileStat| Stamp::of(&found));
            if now != Some(*known) {
                changes.entries.insert(path.clone());
                *known = now.unwrap_or(*known);
            }
            now.is_some()
        });
        let own = Path::new(".git");
        let decides = |path: &&PathBuf| {
            let name = path.file_name();
            name == Some(OsStr::new(".gitignore")) || name == Some(OsStr::new(".git")) && **path != own
        };
        if changes.entries.iter().chain(&changes.directories).any(|path| decides(&path)) {
            return None;
        }
        changes.entries.remove(own);
        changes.directories.remove(own);
        Some(changes)
    }

    /// Finds out which files a snapshot has to save; `None` where only git knows. The watch is given back unless it no
    /// longer sees everything.
    pub async fn resolve(
        mut self,
        git: &Git,
        worktree: &Path,
        changes: Changes,
    ) -> Result<Option<(Self, Changed)>, SnapshotError> {
        if changes.entries.len() + changes.directories.len() > MAX_CHANGED {
            return Ok(None);
        }
        let new = present(&changes.directories, worktree).await?;
        // New directories are watched before git reads them.
        if !new.is_empty() {
            let within: Vec<&Path> = new.iter().map(PathBuf::as_path).collect();
            let left_out = LeftOut::read(git, &within).await?;
            let (root, new, known) = (worktree.to_owned(), new.clone(), left_out.clone());
            let followed = spawn_blocking(move || {
                self.follow(&root, new, &known)?;
                Ok::<_, io::Error>(self)
            });
            match followed.await.map_err(io::Error::other)? {
                Ok(watch) => self = watch,
                Err(error) => {
                    tracing::debug!(%error, "a new directory cannot be watched");
                    return Ok(None);
                }
            }
            if !left_out.holds(git, worktree, &within).await? {
                return Ok(None);
            }
        }
        let (index, hash_size, worktree) = (git.index(), git.hash_size()?, worktree.to_owned());
        let linked: HashSet<PathBuf> = self.linked.keys().cloned().collect();
        let sort = move || Sorted::of(&changes, &index, hash_size, &worktree, &linked);
        let Some(sorted) = spawn_blocking(sort).await.map_err(io::Error::other)?? else { return Ok(None) };
        let asked: Vec<&Path> = sorted.untracked.iter().chain(&new).map(PathBuf::as_path).collect();
        let mut files = sorted.tracked;
        if !asked.is_empty() {
            let list = ["ls-files", "-z", "--others", "--exclude-standard", "--"];
            let listed = git.on_paths(&list, &asked).await?;
            // A repository within this one is shown as a directory.
            let paths = listing::split(&listed)
                .filter(|path| !path.ends_with(b"/") && *path != index::MODES.as_bytes())
                .map(|path| PathBuf::from(OsStr::from_bytes(path)));
            files.extend(paths);
        }
        if files.len() > MAX_CHANGED {
            return Ok(None);
        }
        let unlisted: Vec<&Path> =
            sorted.untracked.iter().filter(|path| !files.contains(*path)).map(PathBuf::as_path).collect();
        if !unlisted.is_empty() && self.ignored.len() < MAX_IGNORED {
            let list = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
            let ignored = git.on_paths(&list, &unlisted).await?;
            self.ignored.extend(listing::split(&ignored).map(|path| PathBuf::from(OsStr::from_bytes(path))));
        }
        let touched = files.iter().cloned().chain(sorted.directories).chain(new).collect();
        Ok(Some((self, Changed { files: files.into_iter().collect(), touched })))
    }

    /// Looks at all files beside the work, where that is due.
    pub fn look_around(&mut self, git: &Git, worktree: &Path) {
        if self.look.is_some() || self.looked.elapsed() < LOOK_EVERY {
            return;
        }
        let Ok(hash_size) = git.hash_size() else { return };
        let (index, worktree) = (git.index(), worktree.to_owned());
        let look = spawn_blocking(move || {
            let is_unchanged = unchanged::has_all(&index, &worktree, hash_size);
            memory::give_back();
            is_unchanged
        });
        self.look = Some(AbortOnDropHandle::new(look));
        self.looked = Instant::now();
    }

    /// Notes that a snapshot has looked at everything, or has all that was told.
    pub fn is_based_on(&mut self, is_whole: bool) {
        self.is_based = true;
        if is_whole {
            self.look = None;
            self.looked = Instant::now();
        }
    }
}

/// Returns those of some paths at which there is a directory.
async fn present(paths: &HashSet<PathBuf>, worktree: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut paths, worktree) = (Vec::from_iter(paths.iter().cloned()), worktree.to_owned());
    if paths.is_empty() {
        return Ok(paths);
    }
    let look = spawn_blocking(move || {
        paths.retain(|it| fs::symlink_metadata(worktree.join(it)).is_ok_and(|found| found.is_dir()));
        paths
    });
    look.await.map_err(io::Error::other)
}

/// The directories that need no watch.
#[derive(Clone)]
struct LeftOut {
    ignored: HashSet<PathBuf>,
    /// Repositories within the worktree.
    others: HashSet<PathBuf>,
}

impl LeftOut {
    /// Asks git, about some directories or about the whole worktree.
    async fn read(git: &Git, within: &[&Path]) -> Result<Self, SnapshotError> {
        let (ignored, others) =
            (unchanged::ignored(git, within).await?, unchanged::others(git, within).await?);
        Ok(Self { ignored, others })
    }

    /// Asks git again: rules may have changed before their directory was watched. Directories that went are told of when
    /// they come again.
    async fn holds(&self, git: &Git, worktree: &Path, within: &[&Path]) -> Result<bool, SnapshotError> {
        if self.ignored.is_empty() && self.others.is_empty() {
            return Ok(true);
        }
        let now = Self::read(git, within).await?;
        let changed = self.ignored.difference(&now.ignored).chain(self.others.difference(&now.others));
        let changed: HashSet<PathBuf> = changed.cloned().collect();
        Ok(present(&changed, worktree).await?.is_empty())
    }
}

/// Changed paths by what they are.
struct Sorted {
    /// Those that the index has, and what it has below changed directories.
    tracked: BTreeSet<PathBuf>,
    /// Files that it does not have.
    untracked: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Sorted {
    /// Looks at the paths; `None` where only git knows.
    fn of(
        changes: &Changes,
        index: &Path,
        hash_size: usize,
        worktree: &Path,
        linked: &HashSet<PathBuf>,
    ) -> io::Result<Option<Self>> {
        let index = Index::read(index, hash_size)?;
        let Some(entries) = index.entries() else { return Ok(None) };
        let worktree = File::open(worktree)?;
        let mut sorted = Self { tracked: BTreeSet::new(), untracked: Vec::new(), directories: Vec::new() };
        for directory in &changes.directories {
            let below = index::below(&entries, directory).map(|it| PathBuf::from(OsStr::from_bytes(it.name)));
            sorted.tracked.extend(below.take(MAX_CHANGED + 1));
            // A file may have been there.
            if index::find(&entries, directory).is_some() {
                sorted.tracked.insert(directory.clone());
            }
        }
        for path in changes.entries.iter().filter(|path| *path != Path::new(index::MODES)) {
            let found = match stat(&worktree, path) {
                Ok(found) => Some(found),
                Err(Errno::ENOENT | Errno::ENOTDIR) if !changes.written.contains(path) => None,
                Err(_) => return Ok(None),
            };
            let is_kind =
                |kind: SFlag| found.is_some_and(|it| it.st_mode & SFlag::S_IFMT.bits() == kind.bits());
            // Writing by another name tells nothing of this one.
            if is_kind(SFlag::S_IFREG) && found.is_some_and(|it| it.st_nlink > 1) && !linked.contains(path) {
                return Ok(None);
            }
            // Of what is in a directory that cannot be read nothing is known.
            let is_readable = found.is_none_or(|it| it.st_mode & READABLE == READABLE);
            if is_kind(SFlag::S_IFDIR) && !is_readable {
                return Ok(None);
            }
            if index::find(&entries, path).is_some() {
                sorted.tracked.insert(path.clone());
            } else if is_kind(SFlag::S_IFDIR) {
                sorted.directories.push(path.clone());
            } else if found.is_some() {
                sorted.untracked.push(path.clone());
            }
        }
        Ok(Some(sorted))
    }
}

#[cfg(test)]
mod tests;
