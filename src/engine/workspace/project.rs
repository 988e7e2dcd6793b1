//! The project that a worktree belongs to: its root commit, asked of git (facts: OpenCode §1.1).

use std::{collections::BTreeMap, ffi::OsStr, path::Path, time::Duration};

use tokio::io::AsyncReadExt;

use crate::{
    base::{
        ids,
        process::{self, Spawn},
    },
    engine::{Engine, EngineError, Workspace},
};

/// Stands for everything outside a repository, and for a repository whose root commit is not known yet.
pub const GLOBAL: &str = crate::storage::UNKNOWN_PROJECT;
/// A repository whose history takes longer to walk stays `global`.
const LIMIT: Duration = Duration::from_secs(60);

impl Engine {
    /// Returns the project id of a workspace, which is `global` until git has named it, and its worktree if it is in one.
    pub async fn project_and_worktree(
        &self,
        workspace: &Workspace,
    ) -> Result<(String, Option<String>), EngineError> {
        let worktree = workspace.loaded().config.worktree.clone();
        let id = self.project_id(&worktree).await?;
        Ok((id, (worktree != Path::new("/")).then(|| worktree.display().to_string())))
    }

    /// Returns the stored project id of a worktree. One that is not known yet is found out in the background.
    pub(crate) async fn project_id(&self, worktree: &Path) -> Result<String, EngineError> {
        if worktree == Path::new("/") {
            return Ok(GLOBAL.to_owned());
        }
        let key = worktree.display().to_string();
        if let Some(id) = self.0.storage.project_of(key.clone()).await? {
            return Ok(id);
        }
        let (storage, worktree) = (self.0.storage.clone(), worktree.to_owned());
        tokio::spawn(async move {
            if let Some(id) = root_commit(&worktree).await
                && let Err(error) = storage.set_project(key, id).await
            {
                tracing::warn!(%error, "the project was not stored");
            }
        });
        Ok(GLOBAL.to_owned())
    }
}

/// Returns the root commit of a repository: the first of them in order, when there are several.
pub async fn root_commit(worktree: &Path) -> Option<String> {
    let args = ["rev-list", "--max-parents=0", "HEAD"].map(Into::into);
    let spawn = Spawn {
        program: OsStr::new("git"),
        args: &args,
        directory: worktree,
        environment: &BTreeMap::new(),
        stdin: false,
        without: &[],
        is_parent: false,
    };
    let mut child = process::spawn(&spawn).ok()?;
    let mut stdout = child.stdout.take()?;
    let mut text = String::new();
    tokio::time::timeout(LIMIT, stdout.read_to_string(&mut text)).await.ok()?.ok()?;
    child.wait().await.ok()?;
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
