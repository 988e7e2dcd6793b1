//! Snapshots of a worktree's files: git trees in a repository of our own, which the user's git does not know.
//!
//! The worktree is only read, except by [`Snapshots::restore`]; the user's index, refs and configuration are never
//! touched. Contents are kept as they are: no line ends are converted and no filters run.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use tokio_util::task::AbortOnDropHandle;
use windlass_base::{
    git::Program,
    hash, ids, memory,
    watch::{Changes, TreeWatch},
};

mod cleaning;
mod git;
mod index;
mod listing;
mod locking;
mod modes;
mod remote;
mod restoring;
mod unchanged;
mod watching;

use self::{
    git::Git,
    unchanged::Look,
    watching::{Changed, Unwatched, Watch},
};
pub use self::{
    listing::{Change, FileStatus},
    remote::{Commit, Difference, Draft, Remote, RemoteError},
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
/// Time until a worktree is tried again that cannot be watched.
const WATCH_AGAIN: Duration = Duration::from_secs(10 * 60);
/// Snapshots by a watch which are worth its cost.
const FEW: u32 = 5;
/// Time without a snapshot after which a worktree is watched no longer.
const UNUSED: Duration = Duration::from_secs(10 * 60);
/// Bytes of an index whose reading leaves memory behind worth giving back.
const LARGE_INDEX: u64 = 1 << 20;
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
    state: Arc<tokio::sync::Mutex<State>>,
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
    watch: Option<Watch>,
    /// A watch that is being made, beside the work.
    coming_watch: Option<AbortOnDropHandle<Result<Watch, Unwatched>>>,
    /// The time before which no other is made.
    next_watch: Option<Instant>,
    /// The pause between the last two.
    pause: Duration,
    /// Snapshots that the last one was enough for.
    n_by_watch: u32,
    /// The time of the last snapshot.
    used: Option<Instant>,
    /// Ends the watch when it is not used.
    ender: Option<AbortOnDropHandle<()>>,
}

/// A watch, and what it was told.
struct Told {
    watch: Watch,
    changes: Changes,
    /// Nothing else has changed since the newest snapshot.
    is_all: bool,
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
            state: Arc::default(),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Returns the worktree.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Returns the reason for which changes of the worktree's files cannot be watched, if there is one. Does blocking reads.
    pub fn can_watch(&self) -> io::Result<()> {
        TreeWatch::new(&self.worktree)?.add(Path::new("")).map(|_| ())
    }

    /// Returns true for the first failure, which is worth a warning.
    pub fn fails_first(&self) -> bool {
        !self.has_failed.swap(true, Ordering::Relaxed)
    }

    /// Takes a snapshot of all files that git would not ignore, and returns its tree.
    pub async fn track(&self) -> Result<String, SnapshotError> {
        self.take(true).await
    }

    /// Like [`Snapshots::track`], but looks at every file: nothing that it holds may be overwritten.
    pub async fn track_all(&self) -> Result<String, SnapshotError> {
        self.take(false).await
    }

    async fn take(&self, by_watch: bool) -> Result<String, SnapshotError> {
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
        let before = state.newest.as_ref().map(|newest| newest.tree.clone());
        // Changes from here on are told to the next snapshot.
        let known = match self.take_watch(&mut state).await {
            Some(Told { watch, changes, is_all: true }) if by_watch => {
                self.track_changes(&mut state, watch, changes).await
            }
            Some(Told { watch, changes, .. }) => {
                state.watch = self.follow(watch, changes).await;
                None
            }
            None => None,
        };
        let is_whole = known.is_none();
        state.n_by_watch = if is_whole { state.n_by_watch } else { state.n_by_watch + 1 };
        let tree = match known {
            Some(tree) => tree,
            None => self.track_whole(&mut state).await?,
        };
        self.freshen(&tree);
        state.used = Some(Instant::now());
        if let Some(watch) = &mut state.watch {
            watch.is_based_on(is_whole);
        } else if before.is_some() {
            self.begin_watch(&mut state);
        }
        let is_large = state.newest.as_ref().is_some_and(|newest| newest.index.1 > LARGE_INDEX);
        if is_large && (is_whole || before.as_ref() != Some(&tree)) {
            // No snapshot depends on it.
            tokio::task::spawn_blocking(memory::give_back);
        }
        Ok(tree)
    }

    /// Takes the watch with what it was told since the last snapshot.
    async fn take_watch(&self, state: &mut State) -> Option<Told> {
        if let Some(coming) = state.coming_watch.take_if(|coming| coming.is_finished()) {
            match coming.await {
                Ok(Ok(watch)) => state.watch = Some(watch),
                Ok(Err(error)) => {
                    tracing::debug!(%error, worktree = %self.worktree.display(), "it is not watched");
                    if let Unwatched::Lasting(_) = error {
                        state.next_watch = Some(Instant::now() + WATCH_AGAIN);
                    }
                }
                Err(_) => {}
            }
        }
        let mut watch = state.watch.take()?;
        let was_based = std::mem::take(&mut watch.is_based);
        let worktree = self.worktree.clone();
        let take = move || watch.take(&worktree).map(|changes| (watch, changes));
        let (watch, changes) = tokio::task::spawn_blocking(take).await.ok()??;
        let newest = state.newest.as_ref();
        let is_all = was_based && newest.is_some_and(|newest| self.index_stamp() == Some(newest.index));
        Some(Told { watch, changes, is_all })
    }

    /// Returns a watch for which git has to look at everything, with new directories watched as well.
    async fn follow(&self, watch: Watch, changes: Changes) -> Option<Watch> {
        if changes.is_empty() {
            return Some(watch);
        }
        let resolved = watch.resolve(&self.git, &self.worktree, changes).await;
        resolved.ok().flatten().map(|(watch, _)| watch)
    }

    /// Takes a snapshot of what a watch was told; `None` where only git knows what changed.
    async fn track_changes(&self, state: &mut State, mut watch: Watch, changes: Changes) -> Option<String> {
        let newest = state.newest.as_ref()?.tree.clone();
        if changes.is_empty() {
            watch.look_around(&self.git, &self.worktree);
            state.watch = Some(watch);
            return Some(newest);
        }
        let resolved = watch.resolve(&self.git, &self.worktree, changes).await;
        let (mut watch, changed) = match resolved {
            Ok(resolved) => resolved?,
            Err(error) => {
                tracing::debug!(%error, "git looks at everything");
                return None;
            }
        };
        let tree = match self.save_changes(state, newest, changed).await {
            Ok(tree) => tree,
            Err(error) => {
                tracing::debug!(%error, "git looks at everything");
                return None;
            }
        };
        watch.look_around(&self.git, &self.worktree);
        state.watch = Some(watch);
        Some(tree)
    }

    /// Saves changed files and returns the tree of all; `newest` is the one without them.
    async fn save_changes(
        &self,
        state: &mut State,
        newest: String,
        changed: Changed,
    ) -> Result<String, SnapshotError> {
        let Changed { files, touched } = changed;
        if touched.is_empty() {
            return Ok(newest);
        }
        let held_before = left_out_of(&state.left_out, &newest).cloned().unwrap_or_default();
        if listing::are_left_out(&files, Some(&held_before), &self.worktree)
            && self.unsaved_modes(state.modes.as_ref(), Some(&touched)).await?.is_none()
        {
            return Ok(newest);
        }
        self.remember_moved(state, &files).await?;
        let (tree, left_out) = self.write(state, files.clone(), Some(&touched)).await?;
        // Those that are gone are in no list of changes, since the index never had them.
        let worktree = self.worktree.clone();
        let keep =
            move |path: &PathBuf| !files.contains(path) && worktree.join(path).symlink_metadata().is_ok();
        let kept = tokio::task::spawn_blocking(move || held_before.into_iter().filter(keep).collect());
        let mut all_left_out: HashSet<PathBuf> = kept.await.map_err(io::Error::other)?;
        all_left_out.extend(left_out);
        self.remember_newest(state, &tree, all_left_out);
        Ok(tree)
    }

    /// Begins to make a watch. No snapshot waits for it.
    fn begin_watch(&self, state: &mut State) {
        let is_due = state.next_watch.is_none_or(|time| Instant::now() >= time);
        if state.coming_watch.is_none() && is_due {
            let (git, worktree) = (self.git.clone(), self.worktree.clone());
            let coming = tokio::spawn(async move { Watch::begin(&git, &worktree).await });
            state.coming_watch = Some(AbortOnDropHandle::new(coming));
            // Where watches are lost again and again, they cost more than they save.
            let pause = if state.n_by_watch < FEW { state.pause * 2 } else { LOOK_AGAIN };
            state.pause = pause.clamp(LOOK_AGAIN, WATCH_AGAIN);
            state.next_watch = Some(Instant::now() + state.pause);
            state.n_by_watch = 0;
            let ender = tokio::spawn(end_unused(Arc::downgrade(&self.state), UNUSED));
            state.ender = Some(AbortOnDropHandle::new(ender));
        }
    }

    /// Has git look at everything, unless the times of all files and directories tell that nothing changed.
    async fn track_whole(&self, state: &mut State) -> Result<String, SnapshotError> {
        if let Some(tree) = self.unchanged(state).await {
            return Ok(tree);
        }
        // A change between this look and git's shows in one of them. A watch tells more.
        let is_watched = state.watch.is_some() || state.coming_watch.is_some();
        let look = if is_watched { None } else { self.look(state).await };
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
            && self.unsaved_modes(modes.as_ref(), None).await?.is_none()
        {
            if changes.is_empty() {
                if newest.is_confirmed && look.is_none() {
                    *next_look = Some(Instant::now() + LOOK_AGAIN);
                }
                newest.is_confirmed = true;
                newest.look = look;
            }
            return Ok(newest.tree.clone());
        }
        self.remember_moved(state, &changes).await?;
        let mut written = self.write(state, changes, None).await;
        if let Err(SnapshotError::Git(error)) = &written {
            tracing::debug!(error, "git is asked again, since a file may have changed while it was read");
            let changes = listing::unsaved(&self.git).await?;
            written = self.write(state, changes, None).await;
        }
        let (tree, left_out) = match written {
            // Files that are ignored by now leave the tree with that.
            Err(SnapshotError::Git(error)) => {
                tracing::info!(error, "the index of the snapshots is made anew");
                self.rewrite(state).await?
            }
            written => written?,
        };
        self.remember_newest(state, &tree, left_out);
        Ok(tree)
    }

    /// Notes the newest tree, and the files that it does not hold.
    fn remember_newest(&self, state: &mut State, tree: &str, left_out: HashSet<PathBuf>) {
        state.left_out.retain(|(known, _)| *known != tree);
        if !left_out.is_empty() {
            state.left_out.push_front((tree.to_owned(), left_out));
            state.left_out.truncate(MAX_LEFT_OUT);
        }
        state.newest = self.index_stamp().map(|index| Newest {
            index,
            tree: tree.to_owned(),
            is_confirmed: false,
            look: None,
        });
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

    /// Saves changed files and writes the tree of all; returns it with those of the files that it does not hold. Where
    /// `touched` is given, nothing else has other permissions.
    async fn write(
        &self,
        state: &mut State,
        changes: Vec<PathBuf>,
        touched: Option<&HashSet<PathBuf>>,
    ) -> Result<(String, HashSet<PathBuf>), SnapshotError> {
        let left_out = listing::save(&self.git, &self.worktree, changes).await?;
        if let Some(content) = self.unsaved_modes(state.modes.as_ref(), touched).await? {
            let saved = self.git.with_input(&["hash-object", "-w", "--stdin"], &content).await?;
            let saved = String::from_utf8_lossy(&saved).trim().to_owned();
            let entry = format!("100644,{saved},{}", index::MODES);
            self.git.run(&["update-index", "--add", "--cacheinfo", &entry]).await?;
            state.modes = Some((content, saved));
        }
        Ok((self.git.line(&["write-tree"]).await?, left_out))
    }

    /// Returns the list of permissions if the index has another one; `known` is the one that was saved last, and
    /// `touched` the paths at which another permission is possible since.
    async fn unsaved_modes(
        &self,
        known: Option<&(Vec<u8>, String)>,
        touched: Option<&HashSet<PathBuf>>,
    ) -> Result<Option<Vec<u8>>, SnapshotError> {
        let (index, worktree, hash_size) = (self.git.index(), self.worktree.clone(), self.git.hash_size()?);
        let to_update = known.zip(touched).map(|((content, name), touched)| modes::Known {
            content: content.clone(),
            name: name.clone(),
            touched: touched.clone(),
        });
        let list = move || modes::list(&index, &worktree, hash_size, to_update);
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
        self.write(state, listing::unsaved(&self.git).await?, None).await
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

/// Ends a watch that was not used for some time: a user has few of them, and the system keeps what they are told.
async fn end_unused(state: Weak<tokio::sync::Mutex<State>>, unused: Duration) {
    loop {
        tokio::time::sleep(unused).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock().await;
        if state.used.is_none_or(|used| used.elapsed() >= unused) {
            state.watch = None;
            state.coming_watch = None;
            return;
        }
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
