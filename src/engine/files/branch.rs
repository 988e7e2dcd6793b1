//! The branch of a worktree, read from its files alone: it is looked at whenever something changes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::base::path::absolute;

/// Returns the file that names the current branch; `None` outside of repositories. Blocks.
pub fn head_file(worktree: &Path) -> Option<PathBuf> {
    let git = worktree.join(".git");
    if git.is_dir() {
        return Some(git.join("HEAD"));
    }
    // A linked worktree has a file that names its directory.
    let text = fs::read_to_string(&git).ok()?;
    Some(absolute(worktree, text.strip_prefix("gitdir: ")?.trim_end()).join("HEAD"))
}

/// Returns the branch that a file names; `None` while a commit is checked out by itself. Blocks.
pub fn read(head_file: &Path) -> Option<String> {
    let text = fs::read_to_string(head_file).ok()?;
    text.trim_end().strip_prefix("ref: refs/heads/").map(str::to_owned)
}
