//! The branch of a worktree, read from its files alone: it is looked at whenever something changes.

use std::path::{Path, PathBuf};

use windlass_base::path::absolute;
use windlass_core::config::text_file;

/// Returns the file that names the current branch; `None` outside of repositories. Blocks.
pub fn head_file(worktree: &Path) -> Option<PathBuf> {
    let git = worktree.join(".git");
    if git.is_dir() {
        return Some(git.join("HEAD"));
    }
    // A linked worktree has a file that names its directory.
    let text = text_file::read(&git).ok()?;
    Some(absolute(worktree, text.strip_prefix("gitdir: ")?.trim_end()).join("HEAD"))
}

/// Returns the branch that a file names; `None` while a commit is checked out by itself. Blocks.
pub fn read(head_file: &Path) -> Option<String> {
    let text = text_file::read(head_file).ok()?;
    text.trim_end().strip_prefix("ref: refs/heads/").map(str::to_owned)
}

#[cfg(test)]
mod tests;
