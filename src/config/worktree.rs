//! The repository around a directory, and the way from the one to the other.

use std::path::{Path, PathBuf};

/// Returns the repository around `directory`: the nearest ancestor with `.git`, a directory or (in a linked
/// worktree) a file; `/` when there is none.
pub fn worktree(directory: &Path) -> PathBuf {
    let root = |directory: &Path| {
        let root = directory.ancestors().find(|ancestor| ancestor.join(".git").exists());
        root.map(Path::to_owned)
    };
    // A link into a repository is outside of it; its target counts, as for git.
    let real = || root(&directory.canonicalize().ok()?);
    root(directory).or_else(real).unwrap_or(PathBuf::from("/"))
}

/// Returns the directory, its parent, and so on up to the worktree's root; of what a link leads to where only
/// that is within.
pub fn upwards(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    let real = || directory.canonicalize().unwrap_or(directory.to_owned());
    let start = if directory.starts_with(worktree) { directory.to_owned() } else { real() };
    start.ancestors().take_while(|it| it.starts_with(worktree)).map(Path::to_owned).collect()
}
