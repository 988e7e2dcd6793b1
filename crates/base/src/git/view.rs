//! A project's repository as git is shown it: its data by links, its configuration without anything that acts.
//!
//! git reads the configuration and the hooks in the common directory, which the environment may name, and everything
//! of the worktree alone (`HEAD`, the index) in the repository's own. So a common directory of ours, with links to the
//! data, keeps the configuration out as a whole, even if later versions of git read more of it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
};

use super::{RepositoryPaths, repository::Repository};
use crate::ids;

/// Files and directories of the common directory that hold data. `lfs` has the contents that the user's own filter
/// would fetch otherwise.
const DATA: [&str; 9] =
    ["objects", "refs", "packed-refs", "reftable", "info", "logs", "shallow", "worktrees", "lfs"];

/// The view of a repository for the time of a request; removed when dropped.
#[derive(Debug)]
pub struct View {
    worktree: PathBuf,
    repository: Repository,
    common_dir: PathBuf,
}

impl View {
    /// Makes the view of a worktree's repository in a directory for files that are not kept. Blocks.
    pub fn make(worktree: &Path, scratch: &Path) -> io::Result<Self> {
        let repository = Repository::of(worktree)?;
        fs::create_dir_all(scratch)?;
        let common_dir = scratch.canonicalize()?.join(format!("git-{}", ids::random(12)));
        fs::DirBuilder::new().mode(0o700).create(&common_dir)?;
        let view = Self { worktree: worktree.to_owned(), repository, common_dir };
        for name in DATA {
            let data = view.repository.common_dir.join(name);
            if data.symlink_metadata().is_ok() {
                symlink(data, view.common_dir.join(name))?;
            }
        }
        fs::write(view.common_dir.join("config"), view.repository.inert_config())?;
        Ok(view)
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    pub fn paths(&self) -> RepositoryPaths<'_> {
        RepositoryPaths {
            git_dir: &self.repository.git_dir,
            common_dir: Some(&self.common_dir),
            worktree: &self.worktree,
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Links are removed, not followed.
        let _ = fs::remove_dir_all(&self.common_dir);
    }
}
