//! The worktrees that this process works in: entered, made for a task, and removed behind it where nothing was changed.

use std::{
    collections::HashMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use windlass_base::{git::repository::Repository, lock::lock, path::real};
use windlass_protocol::opencode::{
    project::{Worktree, WorktreeCreate},
    session::ArchiveFilter,
};

use super::{
    folder::{WorktreeError, Worktrees, has_no_commits, slug, way_out},
    open_files::OpenFiles,
};
use crate::{Engine, Workspace, git::GitError};

/// Sessions of a worktree that are looked at.
const MAX_SESSIONS: usize = 100;

/// The worktrees in which work of this process goes on, by their directories. The lock is held while one is entered or
/// removed.
pub type HeldWorktrees = Mutex<HashMap<PathBuf, HeldWorktree>>;

pub struct HeldWorktree {
    /// The project's own directory.
    main: PathBuf,
    worktree: Worktree,
    /// Those beside open sessions that keep it.
    n_uses: usize,
    files: Files,
}

/// The files of a worktree at its beginning.
enum Files {
    /// It was there before, so it stays.
    Earlier,
    /// They are being written: nobody can use it yet.
    Coming,
    New(OpenFiles),
}

/// The use of a worktree. One that is only dropped is left in the background.
pub struct TaskWorktree {
    engine: Engine,
    pub worktree: Worktree,
    /// The project's own directory.
    main: PathBuf,
    is_left: bool,
}

impl TaskWorktree {
    fn directory(&self) -> PathBuf {
        PathBuf::from(&self.worktree.directory)
    }

    /// Returns the place in the worktree of a directory of its project; the whole where the worktree has no such place.
    pub fn place_of(&self, directory: &Path) -> PathBuf {
        let own = self.directory();
        let directory = real(directory);
        let below =
            directory.strip_prefix(real(&self.main)).ok().filter(|below| !below.as_os_str().is_empty());
        below.map(|below| own.join(below)).filter(|place| place.is_dir()).unwrap_or(own)
    }

    /// Removes the worktree if it is new, nothing was changed in it and no session is open there; true where it is gone.
    pub async fn leave(mut self) -> Result<bool, WorktreeError> {
        self.is_left = true;
        self.engine.worktrees().release(&self.directory(), 1).await
    }

    /// Leaves the worktree to the session that is open there: it is removed behind that.
    pub(crate) async fn leave_to_session(mut self) {
        self.is_left = true;
        if let Some(held) = self.engine.0.held_worktrees.lock().await.get_mut(&self.directory()) {
            held.n_uses -= 1;
        }
    }
}

impl Drop for TaskWorktree {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let (engine, directory) = (self.engine.clone(), self.directory());
        self.engine.spawn(async move { engine.worktrees().release_quietly(&directory, 1).await });
    }
}

impl Worktrees<'_> {
    /// Returns the worktree of a name, or makes one, with all its files. One that is being made is removed again if this
    /// is cancelled or dropped.
    pub async fn enter(
        self,
        workspace: &Arc<Workspace>,
        name: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<TaskWorktree, WorktreeError> {
        if let Some(name) = name.as_deref().filter(|name| slug(name) != *name) {
            return Err(WorktreeError::Name { name: name.to_owned(), way_out: way_out(&slug(name)) });
        }
        let main = workspace.loaded().config.worktree.clone();
        let used = |worktree: Worktree| TaskWorktree {
            engine: self.0.clone(),
            worktree,
            main: main.clone(),
            is_left: false,
        };
        let (entered, filling) = {
            let mut held = self.0.0.held_worktrees.lock().await;
            let known = match &name {
                Some(name) => self.find(workspace, name).await?,
                None => None,
            };
            if let Some(worktree) = known {
                let held = held.entry(PathBuf::from(&worktree.directory)).or_insert_with(|| HeldWorktree {
                    main: main.clone(),
                    worktree: worktree.clone(),
                    n_uses: 0,
                    files: Files::Earlier,
                });
                if let Files::Coming = held.files {
                    return Err(WorktreeError::Create(format!("{} is being made", worktree.name)));
                }
                held.n_uses += 1;
                return Ok(used(worktree));
            }
            let (worktree, filling) =
                self.begin(workspace, WorktreeCreate { name, start_command: None }).await?;
            let new = HeldWorktree {
                main: main.clone(),
                worktree: worktree.clone(),
                n_uses: 1,
                files: Files::Coming,
            };
            held.insert(PathBuf::from(&worktree.directory), new);
            (used(worktree), filling)
        };
        let filled = cancel.run_until_cancelled(filling.fill()).await;
        let filled = filled.unwrap_or_else(|| Err("it was interrupted".to_owned()));
        let files = match filled {
            Ok(()) => self.files_of(&entered.directory()).await.map_err(|GitError(reason)| reason),
            Err(reason) => Err(reason),
        };
        match files {
            Ok(files) => {
                if let Some(held) = self.0.0.held_worktrees.lock().await.get_mut(&entered.directory()) {
                    held.files = Files::New(files);
                }
                forget_gone(&entered.directory()).await;
                Ok(entered)
            }
            Err(reason) => {
                // Half a worktree is no use to the next one that asks for it.
                let and = entered.leave().await.err().map(|error| format!("; {error}")).unwrap_or_default();
                Err(WorktreeError::Create(reason + &and))
            }
        }
    }

    /// Returns true if a session in a worktree works, in this process or another one.
    pub async fn is_used(self, worktree: &Worktree) -> bool {
        let directory = Path::new(&worktree.directory);
        let sessions = self.0.sessions().of_project(directory, ArchiveFilter::Include, MAX_SESSIONS).await;
        for session in sessions.unwrap_or_default() {
            let shared = self.0.storage().session_locks.share(&session.id).await;
            if shared.alone().is_none() {
                return true;
            }
        }
        false
    }

    async fn files_of(self, directory: &Path) -> Result<OpenFiles, GitError> {
        OpenFiles::of(&self.git(directory).await?).await
    }

    /// Returns the name of the worktree that a directory is in, whether it is there or not; `None` for other directories.
    pub fn name_of(self, directory: &Path) -> Option<String> {
        self.directory_of(directory)?.file_name()?.to_str().map(str::to_owned)
    }

    /// Returns the directory of the worktree that a directory is in.
    fn directory_of(self, directory: &Path) -> Option<PathBuf> {
        let (root, directory) = (self.root(), real(directory));
        let mut below = directory.strip_prefix(&root).ok()?.iter();
        Some(root.join(below.next()?).join(below.next()?))
    }

    /// Returns the directory of git that a worktree belongs to, whether the worktree is there or was removed behind its
    /// task. Blocks.
    pub(crate) fn repository_of(self, directory: &Path) -> Option<PathBuf> {
        let worktree = self.directory_of(directory)?;
        let found = Repository::of(&worktree).or_else(|_| {
            let main = std::fs::read_to_string(gone(&worktree))?;
            Repository::of(Path::new(&main))
        });
        found.ok().map(|found| found.common_dir)
    }

    /// Makes the worktree of this directory again, if it is one that was removed behind its task.
    pub async fn restore(self, directory: &Path) -> Option<TaskWorktree> {
        let worktree = self.directory_of(directory).filter(|worktree| !worktree.exists())?;
        let name = worktree.file_name()?.to_str()?.to_owned();
        let main = PathBuf::from(tokio::fs::read_to_string(gone(&worktree)).await.ok()?);
        let workspace = self.0.workspaces().workspace(&main).await.ok()?;
        let entered = self.enter(&workspace, Some(name.clone()), &CancellationToken::new()).await;
        self.0.workspaces().close_if_unused(workspace).await;
        match entered {
            Ok(entered) if entered.directory() == worktree => Some(entered),
            // Its branch has another use by now.
            Ok(entered) => {
                let _ = entered.leave().await;
                None
            }
            Err(error) => {
                tracing::warn!(worktree = name, %error, "the worktree of a session was not made again");
                None
            }
        }
    }

    /// Notes that the worktree of a session that came from another machine is to be made from the project's checkout here.
    pub(crate) async fn expect(self, directory: &Path) {
        let Some(worktree) = self.directory_of(directory).filter(|it| !it.exists()) else { return };
        let note = gone(&worktree);
        let project = worktree.parent().and_then(Path::file_name).and_then(OsStr::to_str).unwrap_or_default();
        let projects = self.0.storage().projects().await.unwrap_or_default();
        let is_checkout = |it: &Path| it.is_dir() && self.name_of(it).is_none();
        let checkouts = projects.iter().filter(|it| it.id == project).map(|it| Path::new(&it.worktree));
        let Some(main) = checkouts.into_iter().find(|it| is_checkout(it)) else { return };
        if note.exists() {
            return;
        }
        let made = tokio::fs::create_dir_all(note.parent().unwrap_or(main)).await;
        if let Err(error) = made.and(tokio::fs::write(&note, main.display().to_string()).await) {
            tracing::warn!(worktree = %worktree.display(), %error, "the worktree of a session is not made");
        }
    }

    /// Removes the worktree that a session was in, as [`TaskWorktree::leave`] does.
    pub(crate) async fn tidy(self, directory: &Path) {
        if let Some(worktree) = self.directory_of(directory) {
            self.release_quietly(&worktree, 0).await;
        }
    }

    /// Does the same for all that are held.
    pub(crate) async fn tidy_all(self) {
        let held: Vec<PathBuf> = self.0.0.held_worktrees.lock().await.keys().cloned().collect();
        for directory in held {
            self.release_quietly(&directory, 0).await;
        }
    }

    async fn release_quietly(self, directory: &Path, n_uses: usize) {
        if let Err(error) = self.release(directory, n_uses).await {
            tracing::warn!(worktree = %directory.display(), %error, "the worktree of a session stays");
        }
    }

    /// Ends so many uses of a worktree, and removes it as [`TaskWorktree::leave`] says.
    async fn release(self, directory: &Path, n_uses: usize) -> Result<bool, WorktreeError> {
        let mut all = self.0.0.held_worktrees.lock().await;
        let Some(held) = all.get_mut(directory) else { return Ok(false) };
        held.n_uses = held.n_uses.saturating_sub(n_uses);
        if held.n_uses > 0 || self.has_session(directory) {
            return Ok(false);
        }
        let is_to_go = match &held.files {
            Files::Earlier => false,
            Files::Coming => true,
            Files::New(files) => {
                let failed = |GitError(reason)| WorktreeError::List(reason);
                let git = self.git(directory).await.map_err(failed)?;
                OpenFiles::of(&git).await.map_err(failed)? == *files
                    && has_no_commits(&git, &held.worktree).await.map_err(failed)?
            }
        };
        let main = held.main.clone();
        all.remove(directory);
        if !is_to_go {
            return Ok(false);
        }
        let folder = self.folder_of(&main).await.ok_or(WorktreeError::NotGit)?;
        folder.remove(directory).await?;
        // A session that comes back finds its project by it.
        if let Err(error) = tokio::fs::write(gone(directory), main.display().to_string()).await {
            tracing::warn!(worktree = %directory.display(), %error, "a worktree that is gone is not noted");
        }
        Ok(true)
    }

    fn has_session(self, directory: &Path) -> bool {
        let open: Vec<PathBuf> = {
            let sessions = lock(&self.0.0.sessions.open);
            sessions.values().map(|open| open.workspace.directory().to_owned()).collect()
        };
        open.iter().any(|it| it.starts_with(directory) || real(it).starts_with(directory))
    }
}

/// Returns the file that says of a worktree's directory which project it was one of.
fn gone(worktree: &Path) -> PathBuf {
    let name = worktree.file_name().unwrap_or_default().to_string_lossy();
    worktree.with_file_name(format!(".{name}.gone"))
}

async fn forget_gone(worktree: &Path) {
    // Most have none.
    let _ = tokio::fs::remove_file(gone(worktree)).await;
}
