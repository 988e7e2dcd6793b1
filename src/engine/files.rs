//! A directory's files, their versions and its worktrees, for people who look at them through a front end.

use std::path::{Path, PathBuf};

use crate::{
    base::path::{absolute, real},
    engine::Workspace,
};

mod find;
mod fuzzy;
mod git;
mod look;
mod projects;
pub mod terminals;
mod vcs;
pub mod worktrees;

pub use find::FileQuery;
pub use vcs::{ApplyError, DiffBase};

/// The reason for which a file, or something in it, cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Failed(String),
}

/// The directories that a person may look into.
#[derive(Debug, Clone)]
struct Roots {
    directory: PathBuf,
    worktree: PathBuf,
}

impl Roots {
    fn of(workspace: &Workspace) -> Self {
        let worktree = workspace.loaded().config.worktree.clone();
        Self { directory: workspace.directory().to_owned(), worktree }
    }

    /// Returns true if the directory is in a repository.
    fn is_git(&self) -> bool {
        self.worktree != Path::new("/")
    }

    /// Resolves a path. One that leads out of the project, also by a link, is refused.
    fn resolve(&self, path: &str) -> Result<PathBuf, FilesError> {
        let target = absolute(&self.directory, path);
        let real_target = real(&target);
        let is_in = |root: &Path| real_target.starts_with(real(root));
        if is_in(&self.directory) || (self.is_git() && is_in(&self.worktree)) {
            return Ok(target);
        }
        Err(FilesError::Invalid(format!("{path} is outside of the project {}.", self.directory.display())))
    }

    /// Returns a path as clients see it: below the directory where it is in it.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.directory).unwrap_or(path).display().to_string()
    }
}

#[cfg(test)]
mod tests;
