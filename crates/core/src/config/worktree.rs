//! The repository around a directory, and the way from the one to the other.

use std::path::{Path, PathBuf};

use super::{Environment, judge::Judge, refusal::Refusal};

/// The repository around a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// `/` when there is none.
    pub root: PathBuf,
    /// Nearer ones that are not obeyed, the nearest first, each with its directory.
    pub refused: Vec<(PathBuf, Refusal)>,
}

/// Returns the repository around `directory`: the nearest ancestor with `.git`, a directory or (in a linked
/// worktree) a file, that others cannot have put there. Does blocking reads.
pub fn find(judge: &Judge, directory: &Path) -> Found {
    let mut refused = Vec::new();
    let mut root = |directory: &Path| {
        let found =
            directory.ancestors().filter(|ancestor| ancestor.join(".git").exists()).find(|ancestor| {
                let refusal = judge.refused_repository(ancestor);
                let is_taken = refusal.is_none();
                refused.extend(refusal.map(|refusal| (ancestor.to_path_buf(), refusal)));
                is_taken
            });
        found.map(Path::to_owned)
    };
    // A link into a repository is outside of it; its target counts, as for git.
    let found = root(directory).or_else(|| {
        let real = directory.canonicalize().ok().filter(|real| real != directory)?;
        root(&real)
    });
    Found { root: found.unwrap_or(PathBuf::from("/")), refused }
}

/// Returns the root of the repository around `directory`; `/` when there is none. Does blocking reads.
pub fn worktree(environment: &Environment, directory: &Path) -> PathBuf {
    find(&Judge::new(environment), directory).root
}

/// Returns the directory, its parent, and so on up to the worktree's root; of a link's target where only
/// that is within. Without a repository it is the directory alone: the ones above may be anybody's.
pub fn upwards(directory: &Path, worktree: &Path) -> Vec<PathBuf> {
    if worktree == Path::new("/") {
        return vec![directory.to_owned()];
    }
    let real = || directory.canonicalize().unwrap_or(directory.to_owned());
    let start = if directory.starts_with(worktree) { directory.to_owned() } else { real() };
    start.ancestors().take_while(|it| it.starts_with(worktree)).map(Path::to_owned).collect()
}
