//! Linked worktrees of a repository, made for tasks that must not disturb each other.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;
use windlass_base::{git::Program, lock::lock, path::real};
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{
    event::EventPayload,
    project::{Worktree, WorktreeCreate},
    service::{ServiceEvent, ServiceNews},
};
use windlass_services::tool::bash;

use crate::{
    Engine, Loaded, Workspace,
    git::{Git, GitError, default_branch},
    project,
};

/// The part of a branch's name before the worktree's own.
const PREFIX: &str = "opencode/";
/// Names that are tried before one is free.
const MAX_TRIES: usize = 20;
const MAX_NAME: usize = 64;

/// The reason for which nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorktreeError {
    #[error("the directory is not in a git repository with a commit; commit something first")]
    NotGit,
    #[error("no free name was found; give one")]
    NoName,
    #[error("`{name}` cannot be its name, which is of small letters, digits and hyphens{way_out}")]
    Name { name: String, way_out: String },
    #[error("the worktrees cannot be listed: {0}")]
    List(String),
    #[error("the worktree was not made: {0}")]
    Create(String),
    #[error("the worktree was not removed: {0}")]
    Remove(String),
    #[error("the worktree was not reset: {0}")]
    Reset(String),
}

/// The worktrees of projects that were made for tasks.
#[derive(Clone, Copy)]
pub struct Worktrees<'a>(&'a Engine);

/// A worktree that a session, a run or a chat works in.
pub struct TaskWorktree {
    engine: Engine,
    /// The project's own.
    workspace: Arc<Workspace>,
    pub worktree: Worktree,
    /// The files that a new one had at its beginning; one that was there before stays.
    before: Option<String>,
}

impl Engine {
    /// Returns the worktrees of projects that were made for tasks.
    pub fn worktrees(&self) -> Worktrees<'_> {
        Worktrees(self)
    }
}

impl TaskWorktree {
    /// Removes a new worktree where nothing was changed; true where it is gone. Nothing may work there any more.
    pub async fn leave(self) -> Result<bool, WorktreeError> {
        let worktrees = self.engine.worktrees();
        let Some(before) = &self.before else { return Ok(false) };
        if !worktrees.is_unchanged(&self.workspace, &self.worktree, before).await? {
            return Ok(false);
        }
        worktrees.discard(&self.workspace, &self.worktree.directory).await.map(|()| true)
    }

    /// The same behind a session that has ended, unless another one is open there.
    pub(crate) async fn leave_behind_session(self) {
        let directory = Path::new(&self.worktree.directory);
        let is_used = {
            let sessions = lock(&self.engine.0.sessions.open);
            sessions.values().any(|open| open.workspace.directory().starts_with(directory))
        };
        if is_used {
            return;
        }
        let name = self.worktree.name.clone();
        if let Err(error) = self.leave().await {
            tracing::warn!(worktree = name, %error, "the worktree of a session stays");
        }
    }
}

impl Worktrees<'_> {
    /// Returns the worktree of a name, or makes one, with all its files. One that is being made is removed again if this
    /// is cancelled.
    pub async fn enter(
        self,
        workspace: &Arc<Workspace>,
        name: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<TaskWorktree, WorktreeError> {
        if let Some(name) = name.as_deref().filter(|name| slug(name) != *name) {
            return Err(WorktreeError::Name { name: name.to_owned(), way_out: way_out(&slug(name)) });
        }
        let (worktree, is_new) = self.find_or_make(workspace, name, cancel).await?;
        let before = if is_new { Some(self.files(workspace, &worktree).await?) } else { None };
        Ok(TaskWorktree { engine: self.0.clone(), workspace: workspace.clone(), worktree, before })
    }

    /// Returns the name of the worktree with this directory, whether it is there or not; `None` for other directories.
    pub fn name_of(self, directory: &Path) -> Option<String> {
        let root = self.root();
        let below: Vec<_> = directory.strip_prefix(&root).ok()?.iter().collect();
        let [_project, name] = below.as_slice() else { return None };
        Some(name.to_str()?.to_owned())
    }

    /// Makes the worktree of this directory again, if it was one that was removed since nothing was changed in it; `None`
    /// if it was none, or is there.
    pub async fn restore(self, directory: &Path) -> Option<TaskWorktree> {
        let name = self.name_of(directory).filter(|_| !directory.exists())?;
        let project = directory.parent()?.file_name()?;
        let projects = self.0.storage().projects().await.ok()?;
        let own = projects.into_iter().filter(|it| *it.id == *project).map(|it| PathBuf::from(it.worktree));
        let main = own.into_iter().find(|it| it.is_dir() && !it.starts_with(self.root()))?;
        let workspace = self.0.workspaces().workspace(&main).await.ok()?;
        match self.enter(&workspace, Some(name.clone()), &CancellationToken::new()).await {
            Ok(entered) => Some(entered),
            Err(error) => {
                tracing::warn!(worktree = name, %error, "the worktree of a session was not made again");
                None
            }
        }
    }

    /// Returns the directories of a project's worktrees that were made for tasks.
    pub async fn directories(self, workspace: &Workspace) -> Result<Vec<String>, WorktreeError> {
        let Some(folder) = self.folder(workspace).await else { return Ok(Vec::new()) };
        let listed = folder.list().await.map_err(|GitError(reason)| WorktreeError::List(reason))?;
        Ok(listed.into_iter().map(|(directory, _)| directory.display().to_string()).collect())
    }

    /// Returns a project's worktrees that were made for tasks, with their names and branches.
    pub async fn list(self, workspace: &Workspace) -> Result<Vec<Worktree>, WorktreeError> {
        let Some(folder) = self.folder(workspace).await else { return Ok(Vec::new()) };
        let listed = folder.list().await.map_err(|GitError(reason)| WorktreeError::List(reason))?;
        let worktree = |(directory, branch): (PathBuf, Option<String>)| Worktree {
            name: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            branch,
            directory: directory.display().to_string(),
        };
        Ok(listed.into_iter().map(worktree).collect())
    }

    /// Makes a worktree on a branch of its own. Its files follow, and the event `worktree.ready` behind them.
    pub async fn create(
        self,
        workspace: &Workspace,
        create: WorktreeCreate,
    ) -> Result<Worktree, WorktreeError> {
        let (worktree, filling) = self.begin(workspace, create).await?;
        // Its end is an event; a process that ends meanwhile leaves a worktree that can be reset.
        self.0.spawn(filling.run());
        Ok(worktree)
    }

    /// Returns the worktree of a name, or makes one; true for one that was made.
    async fn find_or_make(
        self,
        workspace: &Workspace,
        name: Option<String>,
        cancel: &CancellationToken,
    ) -> Result<(Worktree, bool), WorktreeError> {
        let folder = self.folder(workspace).await.ok_or(WorktreeError::NotGit)?;
        if let Some(name) = name.clone() {
            let listed = folder.list().await.map_err(|GitError(reason)| WorktreeError::List(reason))?;
            let known = listed.into_iter().find(|(directory, _)| directory.ends_with(&name));
            if let Some((directory, branch)) = known {
                if !directory.is_dir() {
                    let reason = format!(
                        "the directory of {name} has gone; `windlass worktree remove {name}` forgets it, with its branch"
                    );
                    return Err(WorktreeError::Create(reason));
                }
                return Ok((Worktree { name, branch, directory: directory.display().to_string() }, false));
            }
        }
        let create = WorktreeCreate { name, start_command: None };
        let (worktree, filling) = self.begin(workspace, create).await?;
        let filled = cancel.run_until_cancelled(filling.fill()).await;
        if let Err(reason) = filled.unwrap_or_else(|| Err("it was interrupted".to_owned())) {
            // Half a worktree is no use to the next one that asks for it.
            let removed = self.remove(workspace, &worktree.directory).await;
            let and = removed.err().map(|error| format!("; {error}")).unwrap_or_default();
            return Err(WorktreeError::Create(reason + &and));
        }
        Ok((worktree, true))
    }

    /// Returns the files that are changed, new or ignored in a worktree, as git lists them.
    async fn files(self, workspace: &Workspace, worktree: &Worktree) -> Result<String, WorktreeError> {
        self.listed_files(workspace, worktree, "--ignored").await
    }

    /// Returns the files of a worktree that are not committed, as git lists them; a directory among them is a repository.
    pub async fn open_files(
        self,
        workspace: &Workspace,
        worktree: &Worktree,
    ) -> Result<String, WorktreeError> {
        self.listed_files(workspace, worktree, "--untracked-files=all").await
    }

    async fn listed_files(
        self,
        workspace: &Workspace,
        worktree: &Worktree,
        option: &str,
    ) -> Result<String, WorktreeError> {
        let failed = |GitError(reason)| WorktreeError::List(reason);
        let git = self.git(workspace, worktree).await.map_err(failed)?;
        git.line(&["status", "--porcelain", option]).await.map_err(failed)
    }

    async fn git(self, workspace: &Workspace, worktree: &Worktree) -> Result<Git, GitError> {
        Git::open(workspace.git(), Path::new(&worktree.directory), &self.0.paths().cache()).await
    }

    /// Returns true if nothing is in a worktree that is not elsewhere: no commit, and no files but those that it had
    /// `before`.
    pub async fn is_unchanged(
        self,
        workspace: &Workspace,
        worktree: &Worktree,
        before: &str,
    ) -> Result<bool, WorktreeError> {
        if self.files(workspace, worktree).await? != before {
            return Ok(false);
        }
        let failed = |GitError(reason)| WorktreeError::List(reason);
        let git = self.git(workspace, worktree).await.map_err(failed)?;
        // Commits may be on another branch by now, or on none.
        let head = git.line(&["symbolic-ref", "--quiet", "--short", "HEAD"]).await.ok();
        let Some(branch) = head.filter(|head| worktree.branch.as_ref() == Some(head)) else {
            return Ok(false);
        };
        let others = format!("--exclude={branch}");
        let own = ["rev-list", "--count", branch.as_str(), "--not", &others, "--branches", "--remotes"];
        Ok(git.line(&own).await.map_err(failed)? == "0")
    }

    async fn begin(
        self,
        workspace: &Workspace,
        create: WorktreeCreate,
    ) -> Result<(Worktree, Filling), WorktreeError> {
        let folder = self.folder(workspace).await.ok_or(WorktreeError::NotGit)?;
        let wanted = create.name.as_deref().map(slug).filter(|name| !name.is_empty());
        let (name, directory, branch) = folder.free(wanted).await?;
        let failed = |GitError(reason)| WorktreeError::Create(reason);
        if let Some(parent) = directory.parent() {
            let made = tokio::fs::create_dir_all(parent).await;
            made.map_err(|error| WorktreeError::Create(format!("{}: {error}", parent.display())))?;
        }
        let text = directory.display().to_string();
        add(workspace, &directory, &branch).await.map_err(failed)?;
        let root = workspace.loaded().config.worktree.display().to_string();
        let projects = self.0.storage().projects().await;
        let projects = projects.map_err(|error| WorktreeError::Create(error.to_string()))?;
        let stored = projects.into_iter().find(|it| it.worktree == root);
        if stored.is_none() {
            // By it the worktree is found again.
            let known = self.0.storage().set_project(root, folder.project.clone()).await;
            known.map_err(|error| WorktreeError::Create(error.to_string()))?;
        }
        let own = stored.and_then(|it| it.settings.commands).and_then(|commands| commands.start);
        let lines: Vec<String> = own.into_iter().chain(create.start_command).collect();
        let filling = Filling {
            bus: self.0.bus().clone(),
            git: workspace.git().clone(),
            config: workspace.loaded(),
            name: name.clone(),
            branch: branch.clone(),
            directory,
            lines: lines.into_iter().filter(|line| !line.trim().is_empty()).collect(),
        };
        Ok((Worktree { name, branch: Some(branch), directory: text }, filling))
    }

    /// Removes a worktree with its branch. One that is gone already is removed.
    pub async fn remove(self, workspace: &Workspace, directory: &str) -> Result<(), WorktreeError> {
        self.0.sessions().close_directory(Path::new(directory)).await;
        self.discard(workspace, directory).await
    }

    async fn discard(self, workspace: &Workspace, directory: &str) -> Result<(), WorktreeError> {
        let folder = self.folder(workspace).await.ok_or(WorktreeError::NotGit)?;
        let (path, branch) = folder.find(directory).await.map_err(WorktreeError::Remove)?;
        let failed = |GitError(reason)| WorktreeError::Remove(reason);
        let text = path.display().to_string();
        folder.git.run(&["worktree", "remove", "--force", &text], &[]).await.map_err(failed)?;
        if let Some(branch) = branch.filter(|branch| branch.starts_with(PREFIX)) {
            folder.git.run(&["branch", "-D", &branch], &[]).await.map_err(failed)?;
        }
        Ok(())
    }

    /// Puts a worktree back to the default branch, without any file that is not in it.
    pub async fn reset(self, workspace: &Workspace, directory: &str) -> Result<(), WorktreeError> {
        let folder = self.folder(workspace).await.ok_or(WorktreeError::NotGit)?;
        let (path, _) = folder.find(directory).await.map_err(WorktreeError::Reset)?;
        let failed = |GitError(reason)| WorktreeError::Reset(reason);
        let base = default_branch(&folder.git).await;
        let base = base.ok_or_else(|| WorktreeError::Reset("no default branch was found".to_owned()))?;
        let remote = format!("origin/{base}");
        let git = Git::open(workspace.git(), &path, &self.0.paths().cache()).await.map_err(failed)?;
        if git.run(&["reset", "--hard", "--quiet", &remote], &[]).await.is_err() {
            git.run(&["reset", "--hard", "--quiet", &base], &[]).await.map_err(failed)?;
        }
        git.run(&["clean", "-ffdxq"], &[]).await.map_err(failed)?;
        Ok(())
    }

    /// Returns the folder of a project's worktrees; none outside of repositories, and before the first commit.
    async fn folder(self, workspace: &Workspace) -> Option<WorktreeFolder> {
        let worktree = workspace.loaded().config.worktree.clone();
        if worktree == Path::new("/") {
            return None;
        }
        let id = project::root_commit(workspace.git(), &worktree, &self.0.paths().cache()).await?;
        Some(WorktreeFolder {
            root: self.root().join(&id),
            project: id,
            git: workspace.open_git().await.ok()?,
        })
    }

    fn root(self) -> PathBuf {
        self.0.paths().worktrees()
    }
}

/// Makes a worktree without files.
async fn add(workspace: &Workspace, directory: &Path, branch: &str) -> Result<(), GitError> {
    let shared = workspace.open_git().await?.repository().common_dir.join("worktrees");
    let failed = |error: io::Error| GitError(error.to_string());
    tokio::fs::create_dir_all(&shared).await.map_err(failed)?;
    // Opened again, so that git sees the directory.
    let git = workspace.open_git().await?;
    let text = directory.display().to_string();
    git.run(&["worktree", "add", "--no-checkout", "-b", branch, &text], &[]).await?;
    // It wrote the path by which it was shown its directory, which will not last.
    let file = directory.join(".git");
    let written = tokio::fs::read(&file).await.map_err(failed)?;
    let name = Path::new(OsStr::from_bytes(written.trim_ascii_end())).file_name();
    let name = name.ok_or_else(|| GitError("git named no directory of the worktree".to_owned()))?;
    let lasting = [b"gitdir: ", shared.join(name).as_os_str().as_bytes(), b"\n"].concat();
    tokio::fs::write(&file, lasting).await.map_err(failed)
}

/// The folder of a project's worktrees, and its git.
struct WorktreeFolder {
    root: PathBuf,
    /// The project's id.
    project: String,
    git: Git,
}

impl WorktreeFolder {
    /// Returns the worktrees in the folder, as git knows them, with their branches.
    async fn list(&self) -> Result<Vec<(PathBuf, Option<String>)>, GitError> {
        let args = ["worktree", "list", "--porcelain"];
        let printed = self.git.run(&args, &[]).await?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        let root = real(&self.root);
        let mut found: Vec<(PathBuf, Option<String>)> = Vec::new();
        for line in printed.lines() {
            if let Some(directory) = line.strip_prefix("worktree ") {
                found.push((PathBuf::from(directory), None));
            } else if let Some(branch) = line.strip_prefix("branch refs/heads/")
                && let Some((_, known)) = found.last_mut()
            {
                *known = Some(branch.to_owned());
            }
        }
        found.retain(|(directory, _)| real(directory).starts_with(&root));
        Ok(found)
    }

    /// Returns the worktree that a client names. Only one that was made here is found.
    async fn find(&self, directory: &str) -> Result<(PathBuf, Option<String>), String> {
        let wanted = real(Path::new(directory));
        let listed = self.list().await.map_err(|GitError(reason)| reason)?;
        let found = listed.into_iter().find(|(known, _)| real(known) == wanted);
        found.ok_or_else(|| format!("{directory} is no worktree that was made for a task of this project"))
    }

    /// Returns a name that is free, with its directory and branch.
    async fn free(&self, wanted: Option<String>) -> Result<(String, PathBuf, String), WorktreeError> {
        for n_tries in 0..MAX_TRIES {
            let name = match &wanted {
                Some(name) if n_tries == 0 => name.clone(),
                Some(name) => format!("{name}-{}", project::slug()),
                None => project::slug(),
            };
            let (directory, branch) = (self.root.join(&name), format!("{PREFIX}{name}"));
            let reference = format!("refs/heads/{branch}");
            let has_branch = self.git.run(&["show-ref", "--verify", "-q", &reference], &[]).await;
            if has_branch.is_err() && !directory.exists() {
                return Ok((name, directory, branch));
            }
        }
        Err(WorktreeError::NoName)
    }
}

fn way_out(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("; `{name}` could") }
}

/// Returns a name as a part of a path and of a branch.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for char in name.trim().to_lowercase().chars().take(MAX_NAME) {
        if char.is_ascii_alphanumeric() {
            slug.push(char);
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// A new worktree that gets its files.
struct Filling {
    bus: Bus,
    git: Program,
    config: Arc<Loaded>,
    name: String,
    branch: String,
    directory: PathBuf,
    /// Shell lines that prepare it.
    lines: Vec<String>,
}

impl Filling {
    async fn run(self) {
        let news = match self.fill().await {
            Ok(()) => {
                ServiceNews::WorktreeReady { name: self.name.clone(), branch: Some(self.branch.clone()) }
            }
            Err(message) => ServiceNews::WorktreeFailed { message },
        };
        let directory = Some(self.directory.display().to_string());
        self.bus.publish(EventPayload::Service(ServiceEvent { directory, news }));
    }

    async fn fill(&self) -> Result<(), String> {
        let scratch = self.config.config.paths.cache();
        let git = Git::open(&self.git, &self.directory, &scratch).await.map_err(|error| error.0)?;
        git.run(&["reset", "--hard", "--quiet"], &[]).await.map_err(|error| error.0)?;
        for line in &self.lines {
            let started =
                bash::start(&self.config.config, line, &self.directory, &BTreeMap::new(), None, None);
            let mut child = started.map_err(|error| error.to_string())?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let drain = async {
                let mut sink = tokio::io::sink();
                if let Some(mut stdout) = stdout {
                    let _ = tokio::io::copy(&mut stdout, &mut sink).await;
                }
            };
            let drain_errors = async {
                let mut sink = tokio::io::sink();
                if let Some(mut stderr) = stderr {
                    let _ = tokio::io::copy(&mut stderr, &mut sink).await;
                }
            };
            let (status, (), ()) = tokio::join!(child.wait(), drain, drain_errors);
            let status = status.map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("the start command `{line}` failed: {status}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn names_are_parts_of_paths() {
        for (name, wanted) in [("../../x", "x"), ("A b", "a-b"), ("-", ""), ("é", ""), ("a--b-", "a-b")] {
            assert_eq!(slug(name), wanted, "{name}");
        }
    }
}
