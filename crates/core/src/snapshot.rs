//! Snapshots of a worktree's files: git trees in a repository of our own, which the user's git does not know.
//!
//! The worktree is only read, except by [`Snapshots::restore`]; the user's index, refs and configuration are never
//! touched. Contents are kept as they are: no line ends are converted and no filters run.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime},
};

use tokio_util::task::AbortOnDropHandle;
use windlass_base::{git::Program, hash, ids};

mod cleaning;
mod git;
mod index;
mod listing;
mod locking;
mod modes;
mod restoring;
mod unchanged;

use self::{git::Git, unchanged::Look};
pub use self::{
    listing::{Change, FileStatus},
    restoring::{Restored, Target},
};

/// Files that are larger are left out.
const MAX_FILE: u64 = 2 << 20;
/// Trees of which the files are known that they do not hold, and sets of moved files.
const MAX_LEFT_OUT: usize = 16;
/// New or changed files of one snapshot; a directory with more is no project.
const MAX_FILES: usize = 200_000;
/// A look at the worktree that takes longer may have read contents.
const SLOW: Duration = Duration::from_millis(300);
const REFRESH_EVERY: Duration = Duration::from_secs(60);
/// Time until directories are looked at again that could not be remembered.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);

/// A failure to take or to use a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("git failed: {0}")]
    Git(String),
    #[error("git takes too long")]
    Slow,
    #[error("the directory of snapshots cannot be used: {0}")]
    Io(String),
    #[error("another windlass is taking a snapshot of this worktree for too long")]
    Busy,
    #[error("the worktree has more than {MAX_FILES} files that are neither committed nor ignored")]
    TooMany,
    #[error("the snapshot is no longer there; snapshots are kept for {} days", cleaning::KEPT_DAYS)]
    Gone,
}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        Self::Io(windlass_base::cause::innermost(&error))
    }
}

/// The snapshots of one worktree.
pub struct Snapshots {
    /// The directory of the snapshots of all worktrees.
    root: PathBuf,
    worktree: PathBuf,
    git: Git,
    state: tokio::sync::Mutex<State>,
    has_failed: AtomicBool,
}

/// The files that a step changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepChanges {
    /// Those with contents that are known from before the step, and those that it made.
    pub held: Vec<Change>,
    /// Those that were there before in no snapshot, or are in none now. To undo that they are there would be to remove
    /// them.
    pub left_out: Vec<PathBuf>,
}

/// A snapshot that is being taken; dropping it ends that.
pub type ComingTree = AbortOnDropHandle<Result<String, SnapshotError>>;

#[derive(Default)]
struct State {
    is_prepared: bool,
    newest: Option<Newest>,
    /// The files that the newest trees do not hold; of other trees none are known.
    left_out: VecDeque<(String, HashSet<PathBuf>)>,
    /// The files that a snapshot found moved or linked, with its time; the newest first.
    moved: VecDeque<(SystemTime, HashSet<PathBuf>)>,
    /// The newest list of permissions, with the name of its content.
    modes: Option<(Vec<u8>, String)>,
    /// The time before which another look at the directories is not worth its cost.
    next_look: Option<Instant>,
    /// The time of the last refresh of the index.
    refreshed: Option<Instant>,
    /// The time at which old snapshots were last removed.
    cleaned: Option<Instant>,
}

/// The newest tree, and the index that it was written from.
struct Newest {
    index: IndexStamp,
    tree: String,
    /// Git found nothing to save since.
    is_confirmed: bool,
    /// The directories as they were before git found that.
    look: Option<Look>,
}

/// A value that changes whenever a process writes the index.
type IndexStamp = (SystemTime, u64, u64);

impl Snapshots {
    /// Makes the snapshots of a worktree; nothing is read or written yet.
    pub fn new(program: Program, root: &Path, worktree: &Path) -> Self {
        let name = format!("{:016x}", hash::fnv(worktree.as_os_str().as_encoded_bytes()));
        let git = Git::new(program, root.join(name), worktree.to_owned());
        Self {
            root: root.to_owned(),
            worktree: worktree.to_owned(),
            git,
            state: tokio::sync::Mutex::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the worktree.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Returns true for the first failure, which is worth a warning.
    pub fn fails_first(&self) -> bool {
        !self.has_failed.swap(true, Ordering::Relaxed)
    }

    /// Takes a snapshot of all files that git would not ignore, and returns its tree.
    pub async fn track(&self) -> Result<String, SnapshotError> {
        let mut state = self.state.lock().await;
        let _lock = locking::lock(self.git.directory()).await?;
        // After a month without a snapshot, another process may have removed the directory.
        if !state.is_prepared || !self.git.is_prepared() {
            self.prepare().await?;
            state.is_prepared = true;
        }
        if state.cleaned.is_none_or(|cleaned| cleaned.elapsed() > CLEAN_EVERY) {
            self.clean().await;
            state.cleaned = Some(Instant::now());
        }
        if let Some(tree) = self.unchanged(&mut state).await {
            self.freshen(&tree);
            return Ok(tree);
        }
        // A change between this look and git's shows in one of them.
        let look = self.look(&state).await;
        let began = Instant::now();
        let changes = listing::unsaved(&self.git).await?;
        let is_due = state.refreshed.is_none_or(|refreshed| refreshed.elapsed() > REFRESH_EVERY);
        if is_due && began.elapsed() > SLOW {
            // Files with changed times and the same contents are read again and again until the index knows.
            listing::refresh(&self.git).await?;
            state.refreshed = Some(Instant::now());
        }
        let stamp = self.index_stamp();
        let State { newest, next_look, left_out, modes, .. } = &mut *state;
        if let (Some(stamp), Some(newest)) = (stamp, newest)
            && stamp == newest.index
            && listing::are_left_out(&changes, left_out_of(left_out, &newest.tree), &self.worktree)
            && self.unsaved_modes(modes.as_ref()).await?.is_none()
        {
            if changes.is_empty() {
                if newest.is_confirmed && look.is_none() {
                    *next_look = Some(Instant::now() + LOOK_AGAIN);
                }
                newest.is_confirmed = true;
                newest.look = look;
            }
            self.freshen(&newest.tree);
            return Ok(newest.tree.clone());
        }
        self.remember_moved(&mut state, &changes).await?;
        let (tree, left_out) = match self.write(&mut state, changes).await {
            Err(SnapshotError::Git(error)) => {
                tracing::info!(error, "the index of the snapshots is made anew");
                self.rewrite(&mut state).await?
            }
            written => written?,
        };
        state.left_out.retain(|(known, _)| *known != tree);
        if !left_out.is_empty() {
            state.left_out.push_front((tree.clone(), left_out));
            state.left_out.truncate(MAX_LEFT_OUT);
        }
        self.freshen(&tree);
        state.newest = self.index_stamp().map(|index| Newest {
            index,
            tree: tree.clone(),
            is_confirmed: false,
            look: None,
        });
        Ok(tree)
    }

    /// Returns the newest tree if nothing has changed since, as far as that is known without git.
    async fn unchanged(&self, state: &mut State) -> Option<String> {
        let newest = state.newest.as_mut()?;
        let look = newest.look.take()?;
        if self.index_stamp() != Some(newest.index) {
            return None;
        }
        newest.look = self.confirm(look, &newest.tree).await;
        newest.look.as_ref().map(|_| newest.tree.clone())
    }

    /// Looks at the directories, if nothing changed lately.
    async fn look(&self, state: &State) -> Option<Look> {
        let newest = state.newest.as_ref().filter(|newest| newest.is_confirmed)?;
        if state.next_look.is_some_and(|time| Instant::now() < time) {
            return None;
        }
        let look = Look::take(&self.git, &self.worktree).await.ok()??;
        self.confirm(look, &newest.tree).await
    }

    /// Returns the look if it still holds.
    async fn confirm(&self, look: Look, tree: &str) -> Option<Look> {
        let (index, worktree) = (self.git.index(), self.worktree.clone());
        let hash_size = tree.len() / 2;
        let confirm = move || look.holds(&index, &worktree, hash_size).then_some(look);
        tokio::task::spawn_blocking(confirm).await.ok()?
    }

    /// Notes which of the changed files were under another path in the newest tree.
    async fn remember_moved(&self, state: &mut State, changes: &[PathBuf]) -> Result<(), SnapshotError> {
        let (index, worktree, hash_size) = (self.git.index(), self.worktree.clone(), self.git.hash_size()?);
        let (changes, now) = (changes.to_vec(), SystemTime::now());
        let find = move || listing::moved(&index, &worktree, &changes, hash_size);
        let moved = tokio::task::spawn_blocking(find).await.map_err(io::Error::other)?;
        if !moved.is_empty() {
            state.moved.push_front((now, moved));
            state.moved.truncate(MAX_LEFT_OUT);
        }
        Ok(())
    }

    /// Saves changed files and writes the tree of all; returns it with the files that it does not hold.
    async fn write(
        &self,
        state: &mut State,
        changes: Vec<PathBuf>,
    ) -> Result<(String, HashSet<PathBuf>), SnapshotError> {
        let left_out = listing::save(&self.git, &self.worktree, changes).await?;
        if let Some(content) = self.unsaved_modes(state.modes.as_ref()).await? {
            let saved = self.git.with_input(&["hash-object", "-w", "--stdin"], &content).await?;
            let saved = String::from_utf8_lossy(&saved).trim().to_owned();
            let entry = format!("100644,{saved},{}", index::MODES);
            self.git.run(&["update-index", "--add", "--cacheinfo", &entry]).await?;
            state.modes = Some((content, saved));
        }
        Ok((self.git.line(&["write-tree"]).await?, left_out))
    }

    /// Returns the list of permissions if the index has another one; `known` is the one that was saved last.
    async fn unsaved_modes(
        &self,
        known: Option<&(Vec<u8>, String)>,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let (index, worktree, hash_size) = (self.git.index(), self.worktree.clone(), self.git.hash_size()?);
        let list = move || modes::list(&index, &worktree, hash_size);
        let Some(modes::List { content, saved }) =
            tokio::task::spawn_blocking(list).await.map_err(io::Error::other)??
        else {
            return Ok(None);
        };
        let is_saved = known.is_some_and(|(known, name)| *known == content && Some(name) == saved.as_ref());
        Ok((!is_saved).then_some(content))
    }

    /// Writes the tree from the worktree alone: contents that the index took from the user's repository may have left
    /// it, and that may have been made anew.
    async fn rewrite(&self, state: &mut State) -> Result<(String, HashSet<PathBuf>), SnapshotError> {
        match fs::remove_file(self.git.index()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.prepare().await?;
        self.write(state, listing::unsaved(&self.git).await?).await
    }

    /// Returns the files that differ between two trees, with their diffs where `with_patches` is set.
    pub async fn changes(
        &self,
        before: &str,
        after: &str,
        with_patches: bool,
    ) -> Result<Vec<Change>, SnapshotError> {
        if before == after {
            return Ok(Vec::new());
        }
        let mut changes = listing::changes(&self.git, before, after, with_patches).await?;
        modes::replace_list(&self.git, [before, after], &mut changes).await?;
        Ok(changes)
    }

    /// Returns the files that work changed which began after the tree `before` and ended before the tree `after`.
    pub async fn changes_since(
        &self,
        began: SystemTime,
        before: &str,
        after: &str,
    ) -> Result<StepChanges, SnapshotError> {
        let changes = self.changes(before, after, false).await?;
        let (not_before, not_after, moved) = {
            let state = self.state.lock().await;
            let left_out_of = |tree| left_out_of(&state.left_out, tree).cloned().unwrap_or_default();
            let since = state.moved.iter().take_while(|(time, _)| *time >= began);
            let moved: HashSet<PathBuf> = since.flat_map(|(_, moved)| moved).cloned().collect();
            (left_out_of(before), left_out_of(after), moved)
        };
        if not_after.is_empty() && changes.iter().all(|it| it.status != FileStatus::Added) {
            return Ok(listing::divide(changes, &not_before, HashSet::new()));
        }
        let worktree = self.worktree.clone();
        let divided = tokio::task::spawn_blocking(move || {
            let not_after = listing::changed_since(not_after, &worktree, began);
            // To undo a move is to remove the file at its new path: the tree `before` has it at the other.
            let old = &listing::added_before(&changes, &worktree, began) - &moved;
            listing::divide(changes, &(&not_before | &old), not_after)
        });
        Ok(divided.await.map_err(io::Error::other)?)
    }

    /// Brings files back to how they are in trees. `now` is a snapshot of the present: files that it does not hold are
    /// neither overwritten nor removed.
    pub async fn restore(
        &self,
        targets: BTreeMap<PathBuf, Target>,
        now: &str,
    ) -> Result<Restored, SnapshotError> {
        let _state = self.state.lock().await;
        let _lock = locking::lock(self.git.directory()).await?;
        restoring::restore(&self.git, &self.worktree, targets, now).await
    }

    async fn prepare(&self) -> Result<(), SnapshotError> {
        let (git, root) = (self.git.clone(), self.root.clone());
        let prepared = tokio::task::spawn_blocking(move || git.prepare(&root));
        prepared.await.map_err(io::Error::other)?
    }

    /// Removes old snapshots; those that cannot be removed are left to the next time.
    async fn clean(&self) {
        if let Err(error) = cleaning::clean(&self.git, cleaning::QUOTA).await {
            tracing::warn!(%error, "old snapshots were not removed");
        }
        let (root, own) = (self.root.clone(), self.git.directory().to_owned());
        // Large directories take long, and this snapshot does not depend on them.
        tokio::task::spawn_blocking(move || cleaning::remove_unused(&root, &own));
    }

    /// Marks a tree as used now: an old one that is not in the index is removed, unless a new tree needs it.
    fn freshen(&self, tree: &str) {
        let Some((directory, name)) = tree.split_at_checked(2) else { return };
        let object = self.git.directory().join("objects").join(directory).join(name);
        // A tree that is in the user's repository is not ours to mark.
        let _ = fs::File::open(object).and_then(|file| file.set_modified(SystemTime::now()));
    }

    fn index_stamp(&self) -> Option<IndexStamp> {
        use std::os::unix::fs::MetadataExt;

        let metadata = fs::metadata(self.git.index()).ok()?;
        Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
    }
}

/// Returns the files that a tree is known not to hold.
fn left_out_of<'a>(
    known: &'a VecDeque<(String, HashSet<PathBuf>)>,
    tree: &str,
) -> Option<&'a HashSet<PathBuf>> {
    known.iter().find(|(known, _)| known == tree).map(|(_, left_out)| left_out)
}

/// Returns the name of a file that is there only until it is renamed.
fn temporary() -> String {
    format!(".windlass-{}", ids::random(12))
}

#[cfg(test)]
mod tests;
