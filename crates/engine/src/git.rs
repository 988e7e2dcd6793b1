//! Runs git on the user's repository, without obeying it and without changing its index where it is only asked.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    time::Duration,
};

use windlass_base::{
    blocking::blocking,
    git::{self, Program, Run, repository::Repository, view::View},
};

use crate::Workspace;

/// Time limit for one command.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes of a command's output.
const MAX_OUTPUT: u64 = 32 << 20;

/// The reason for which git did not do its work, in its own words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GitError(pub String);

impl From<git::GitError> for GitError {
    fn from(error: git::GitError) -> Self {
        Self(error.to_string())
    }
}

impl Workspace {
    /// Opens the repository around the directory.
    pub async fn open_git(&self) -> Result<Git, GitError> {
        let loaded = self.loaded();
        Git::open(self.git(), &loaded.config.worktree, &loaded.config.paths.cache()).await
    }
}

/// The user's repository, open for a request.
pub struct Git {
    program: Program,
    view: View,
}

impl Git {
    /// Opens the repository of a worktree; `scratch` is for files that are not kept.
    pub async fn open(program: &Program, worktree: &Path, scratch: &Path) -> Result<Self, GitError> {
        let (owned, scratch) = (worktree.to_owned(), scratch.to_owned());
        let view = blocking(move || View::make(&owned, &scratch)).await;
        let view = view.map_err(|error| GitError(format!("{}: {error}", worktree.display())))?;
        Ok(Self { program: program.clone(), view })
    }

    pub fn repository(&self) -> &Repository {
        self.view.repository()
    }

    pub fn worktree(&self) -> &Path {
        self.view.worktree()
    }

    /// Runs a command and returns its output.
    pub async fn run(&self, args: &[impl AsRef<OsStr>], input: &[u8]) -> Result<Vec<u8>, GitError> {
        self.on_index(None, args, input).await
    }

    /// Runs a command and returns its output as one line of text.
    pub async fn line(&self, args: &[&str]) -> Result<String, GitError> {
        let printed = self.run(args, &[]).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }

    /// Like [`Git::run`], with another index than the user's.
    pub async fn on_index(
        &self,
        index: Option<&Path>,
        args: &[impl AsRef<OsStr>],
        input: &[u8],
    ) -> Result<Vec<u8>, GitError> {
        self.execute(index, args, input, true).await
    }

    /// Runs a command that looks at objects alone, so that no filter of the user's runs.
    pub async fn on_objects(&self, args: &[&str]) -> Result<Vec<u8>, GitError> {
        self.execute(None, args, &[], false).await
    }

    async fn execute(
        &self,
        index: Option<&Path>,
        args: &[impl AsRef<OsStr>],
        input: &[u8],
        is_parent: bool,
    ) -> Result<Vec<u8>, GitError> {
        let run = Run {
            program: &self.program,
            repository: Some(self.view.paths()),
            directory: self.worktree(),
            settings: &[],
            args: args.iter().map(OsString::from).collect(),
            index,
            input,
            limit: LIMIT,
            max_output: MAX_OUTPUT,
            is_parent,
            is_online: false,
        };
        let printed = run.output().await?;
        if printed.len() as u64 == MAX_OUTPUT {
            return Err(GitError(format!("git printed more than {} MiB", MAX_OUTPUT >> 20)));
        }
        Ok(printed)
    }
}

/// Makes a repository of a directory.
pub async fn init(program: &Program, directory: &Path) -> Result<(), GitError> {
    let run = Run {
        program,
        repository: None,
        directory,
        settings: &[],
        args: vec!["init".into(), "--quiet".into()],
        index: None,
        input: &[],
        limit: LIMIT,
        max_output: MAX_OUTPUT,
        is_parent: true,
        is_online: false,
    };
    run.output().await?;
    Ok(())
}

/// Returns the branch that the remote names, else the one of the usual names that is there.
pub async fn default_branch(git: &Git) -> Option<String> {
    let named = git.line(&["symbolic-ref", "--short", "-q", "refs/remotes/origin/HEAD"]).await.ok();
    if let Some(name) = named.as_deref().and_then(|it| it.strip_prefix("origin/")) {
        return Some(name.to_owned());
    }
    let configured = git.line(&["config", "init.defaultBranch"]).await.ok();
    let usual = ["main", "master"].map(str::to_owned);
    for name in usual.into_iter().chain(configured.filter(|it| !it.is_empty())) {
        let reference = format!("refs/heads/{name}");
        if git.run(&["show-ref", "--verify", "-q", &reference], &[]).await.is_ok() {
            return Some(name);
        }
    }
    current_branch(git).await
}

/// Returns the branch that is checked out; `None` for a commit by itself.
pub async fn current_branch(git: &Git) -> Option<String> {
    git.line(&["symbolic-ref", "--short", "-q", "HEAD"]).await.ok().filter(|it| !it.is_empty())
}
