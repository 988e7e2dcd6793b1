//! The directories that a person may look into, and the reasons for which something there cannot be shown.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_base::path::{absolute, real};
use windlass_core::config::project_files::ProjectFiles;
use windlass_engine::Workspace;

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
pub(super) struct Roots {
    pub(super) directory: PathBuf,
    pub(super) worktree: PathBuf,
    files: Arc<ProjectFiles>,
}

impl Roots {
    pub(super) fn of(workspace: &Workspace) -> Self {
        let config = &workspace.loaded().config;
        let (worktree, files) = (config.worktree.clone(), config.project_files.clone());
        Self { directory: workspace.directory().to_owned(), worktree, files }
    }

    /// Returns true if the directory is in a repository.
    pub(super) fn is_git(&self) -> bool {
        self.worktree != Path::new("/")
    }

    /// Resolves a path. One that leads out of the project, also by a link, is refused.
    pub(super) fn resolve(&self, path: &str) -> Result<PathBuf, FilesError> {
        let target = absolute(&self.directory, path);
        let real_target = real(&target);
        if self.files.hides(&real_target) {
            return Err(FilesError::Invalid(format!(
                "{path} is among the keys and records, which are not shown."
            )));
        }
        let is_in = |root: &Path| real_target.starts_with(real(root));
        if is_in(&self.directory) || (self.is_git() && is_in(&self.worktree)) {
            return Ok(target);
        }
        Err(FilesError::Invalid(format!("{path} is outside of the project {}.", self.directory.display())))
    }

    /// Returns a path as clients see it: below the directory where it is in it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.directory).unwrap_or(path).display().to_string()
    }
}
