//! The project that a worktree belongs to: its root commit, asked of git (facts: OpenCode §1.1).

use std::path::{Path, PathBuf};

use windlass_base::{git::Program, ids};
use windlass_core::config::worktree;

use crate::{EngineError, Workspace, Workspaces, git::Git};

/// Stands for everything outside a repository, and for a repository with a root commit that is not known yet.
pub const GLOBAL: &str = windlass_core::storage::UNKNOWN_PROJECT;

impl Workspaces<'_> {
    /// Returns the directory by which sessions are grouped: the repository around `directory`, or itself. Blocks.
    pub fn project_root(self, directory: &Path) -> PathBuf {
        let root = worktree::worktree(&self.engine.0.environment, directory);
        if root == Path::new("/") { directory.to_owned() } else { root }
    }

    /// Returns the project id of a workspace, which is `global` until git has named it, and its worktree if it is in one.
    pub async fn project_and_worktree(
        self,
        workspace: &Workspace,
    ) -> Result<(String, Option<String>), EngineError> {
        let worktree = workspace.loaded().config.worktree.clone();
        let id = self.project_id(&worktree).await?;
        Ok((id, (worktree != Path::new("/")).then(|| worktree.display().to_string())))
    }

    /// Returns the stored project id of a worktree. One that is not known yet is found out in the background.
    pub(crate) async fn project_id(self, worktree: &Path) -> Result<String, EngineError> {
        if worktree == Path::new("/") {
            return Ok(GLOBAL.to_owned());
        }
        let key = worktree.display().to_string();
        if let Some(id) = self.engine.0.storage.project_of(key.clone()).await? {
            return Ok(id);
        }
        let (storage, worktree) = (self.engine.0.storage.clone(), worktree.to_owned());
        let (git, scratch) = (self.engine.0.git.clone(), self.engine.0.paths.cache());
        self.engine.0.background_tasks.run(async move {
            if let Some(id) = root_commit(&git, &worktree, &scratch).await
                && let Err(error) = storage.set_project(key, id).await
            {
                tracing::warn!(%error, "the project was not stored");
            }
        });
        Ok(GLOBAL.to_owned())
    }
}

impl Workspaces<'_> {
    /// Finds the project id of a worktree and stores it, unless it is known.
    pub(crate) async fn find_project(self, worktree: &Path) -> Result<(), EngineError> {
        let storage = &self.engine.0.storage;
        let key = worktree.display().to_string();
        if worktree == Path::new("/") || storage.project_of(key.clone()).await?.is_some() {
            return Ok(());
        }
        if let Some(id) = root_commit(&self.engine.0.git, worktree, &self.engine.0.paths.cache()).await {
            storage.set_project(key, id).await?;
        }
        Ok(())
    }
}

/// Returns the root commit of a repository: the first of them in order, when there are several. A repository with a
/// history that takes too long to walk has none.
pub async fn root_commit(program: &Program, worktree: &Path, scratch: &Path) -> Option<String> {
    let git = Git::open(program, worktree, scratch).await.ok()?;
    let printed = git.on_objects(&["rev-list", "--max-parents=0", "HEAD"]).await.ok()?;
    let text = String::from_utf8_lossy(&printed);
    let mut roots: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    roots.sort_unstable();
    roots.first().map(|root| (*root).to_owned())
}

/// Returns two random words.
pub fn slug() -> String {
    const FIRST: [&str; 16] = [
        "amber", "brisk", "calm", "deft", "eager", "fleet", "golden", "hardy", "jolly", "keen", "lucid",
        "mellow", "nimble", "quiet", "steady", "vivid",
    ];
    const SECOND: [&str; 16] = [
        "anchor", "beacon", "capstan", "dinghy", "ensign", "fathom", "galley", "harbor", "jetty", "keel",
        "lantern", "mast", "pennant", "rudder", "sextant", "tiller",
    ];
    let pick = ids::random(2).into_bytes();
    let index = |at: usize| pick.get(at).map_or(0, |byte| usize::from(*byte) % 16);
    format!("{}-{}", FIRST[index(0)], SECOND[index(1)])
}
