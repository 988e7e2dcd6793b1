//! The folder of a project's worktrees: listed, made, reset and removed by git.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_base::{git::Program, path::real};
use windlass_core::bus::Bus;
use windlass_protocol::opencode::{
    event::EventPayload,
    project::{Worktree, WorktreeCreate},
    service::{ServiceEvent, ServiceNews},
};
use windlass_services::tool::bash;

use super::open_files::OpenFiles;
use crate::{
    Engine, Loaded, Workspace,
    git::{Git, GitError, current_branch, default_branch},
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
pub struct Worktrees<'a>(pub(super) &'a Engine);

impl Engine {
    /// Returns the worktrees of projects that were made for tasks.
    pub fn worktrees(&self) -> Worktrees<'_> {
        Worktrees(self)
    }
}

impl Worktrees<'_> {
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

    /// Returns the worktree of a name, if there is one.
    pub(super) async fn find(
        self,
        workspace: &Workspace,
        name: &str,
    ) -> Result<Option<Worktree>, WorktreeError> {
        let found = self.list(workspace).await?.into_iter().find(|it| it.name == name);
        match found {
            Some(worktree) if !Path::new(&worktree.directory).is_dir() => {
                let reason = format!(
                    "the directory of {name} has gone; `windlass worktree remove {name}` forgets it, with its branch"
                );
                Err(WorktreeError::Create(reason))
            }
            found => Ok(found),
        }
    }

    /// Returns the files of a worktree that are not committed, as git lists them; a directory among them is a repository.
    pub async fn open_files(self, worktree: &Worktree) -> Result<String, WorktreeError> {
        let failed = |GitError(reason)| WorktreeError::List(reason);
        let git = self.git(Path::new(&worktree.directory)).await.map_err(failed)?;
        git.line(&["status", "--porcelain", "--untracked-files=all"]).await.map_err(failed)
    }

    pub(super) async fn git(self, worktree: &Path) -> Result<Git, GitError> {
        Git::open(&self.0.0.git, worktree, &self.0.paths().cache()).await
    }

    /// Returns true if nothing is in a worktree that is not elsewhere: no commit, and no file that is not committed.
    pub async fn is_empty(self, worktree: &Worktree) -> Result<bool, WorktreeError> {
        let failed = |GitError(reason)| WorktreeError::List(reason);
        let git = self.git(Path::new(&worktree.directory)).await.map_err(failed)?;
        let files = OpenFiles::of(&git).await.map_err(failed)?;
        Ok(files.is_empty() && has_no_commits(&git, worktree).await.map_err(failed)?)
    }

    pub(super) async fn begin(
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

    /// Removes a worktree with its branch; its sessions are closed before.
    pub async fn remove(self, workspace: &Workspace, directory: &str) -> Result<(), WorktreeError> {
        let folder = self.folder(workspace).await.ok_or(WorktreeError::NotGit)?;
        let (path, _) = folder.find(directory).await.map_err(WorktreeError::Remove)?;
        // Nothing else removes it from now on.
        self.0.0.held_worktrees.lock().await.remove(&path);
        self.0.sessions().close_directory(&path).await;
        let _alone = self.0.0.held_worktrees.lock().await;
        folder.remove(&path).await
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
        self.folder_of(&workspace.loaded().config.worktree).await
    }

    /// Returns the folder of the worktrees of the project with this directory.
    pub(super) async fn folder_of(self, main: &Path) -> Option<WorktreeFolder> {
        let id = self.project_of(main).await?;
        Some(WorktreeFolder { root: self.root().join(&id), git: self.git(main).await.ok()? })
    }

    /// Returns the root commit of a repository.
    pub(super) async fn project_of(self, directory: &Path) -> Option<String> {
        if directory == Path::new("/") {
            return None;
        }
        project::root_commit(&self.0.0.git, directory, &self.0.paths().cache()).await
    }

    /// Returns the directory of all of them, without links, as git names the directories below it.
    pub(super) fn root(self) -> PathBuf {
        real(&self.0.paths().worktrees())
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
pub(super) struct WorktreeFolder {
    root: PathBuf,
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

    /// Removes a worktree with its branch.
    pub(super) async fn remove(&self, directory: &Path) -> Result<(), WorktreeError> {
        let text = directory.display().to_string();
        let (path, branch) = self.find(&text).await.map_err(WorktreeError::Remove)?;
        let failed = |GitError(reason)| WorktreeError::Remove(reason);
        let text = path.display().to_string();
        self.git.run(&["worktree", "remove", "--force", &text], &[]).await.map_err(failed)?;
        if let Some(branch) = branch.filter(|branch| branch.starts_with(PREFIX)) {
            self.git.run(&["branch", "-D", &branch], &[]).await.map_err(failed)?;
        }
        Ok(())
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

/// Returns true if no commit is on a worktree's branch that is nowhere else.
pub(super) async fn has_no_commits(git: &Git, worktree: &Worktree) -> Result<bool, GitError> {
    // Commits may be on another branch by now, or on none.
    let head = current_branch(git).await;
    let Some(branch) = head.filter(|head| worktree.branch.as_ref() == Some(head)) else { return Ok(false) };
    let others = format!("--exclude={branch}");
    let own = ["rev-list", "--count", branch.as_str(), "--not", &others, "--branches", "--remotes"];
    Ok(git.line(&own).await? == "0")
}

pub(super) fn way_out(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!("; `{name}` could") }
}

/// Returns a name as a part of a path and of a branch.
pub(super) fn slug(name: &str) -> String {
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
pub(super) struct Filling {
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

    pub(super) async fn fill(&self) -> Result<(), String> {
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
