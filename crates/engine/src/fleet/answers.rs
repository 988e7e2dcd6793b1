//! The remembered answers of a project, where the setting shares them between the nodes.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use windlass_base::lock::lock;
use windlass_core::storage::answers::StoredAnswer;
use windlass_protocol::opencode::permission::Rule;
use windlass_shared::SharedAnswer;

use super::Fleet;
use crate::{EngineError, Workspace, project};

/// Time until the next exchange behind one that failed.
const AGAIN: Duration = Duration::from_secs(60);

impl Fleet<'_> {
    /// Exchanges the answers of a workspace's project with the other nodes, if they share them. A failure is said in the
    /// log; then those here hold.
    pub(crate) async fn exchange_answers(self, workspace: &Workspace) {
        let failed = &self.engine.0.fleet.exchange_failed;
        if !self.shares_answers() || lock(failed).is_some_and(|at| at.elapsed() < AGAIN) {
            return;
        }
        let worktree = &workspace.loaded().config.worktree;
        let answers = workspace.approvals.of(None);
        let project = answers.project().map(str::to_owned);
        let exchanged = async {
            let Some(project) = project else { return Ok(()) };
            self.exchange(&project, worktree).await
        };
        match exchanged.await {
            Ok(()) => answers.sync().await,
            Err::<(), EngineError>(error) => {
                *lock(failed) = Some(Instant::now());
                tracing::warn!(%error, "remembered permissions were not exchanged with other nodes");
            }
        }
    }

    fn shares_answers(self) -> bool {
        let setting = self.engine.0.fleet.setting.get();
        self.found().is_some() && setting.is_some_and(|it| it.settings.answers == Some(true))
    }

    /// Exchanges the answers of a project behind one that was taken back there. Returns false where nothing is shared.
    pub async fn tell_revoked(self, project: &str, worktree: &Path) -> Result<bool, EngineError> {
        self.setting().await;
        if !self.shares_answers() {
            return Ok(false);
        }
        self.exchange(project, worktree).await.map(|()| true)
    }

    /// `project` is the name of the project in this machine's store.
    async fn exchange(self, project: &str, worktree: &Path) -> Result<(), EngineError> {
        let Some(shared) = self.found() else { return Ok(()) };
        let cache = self.engine.0.paths.cache();
        // The other nodes know it by its root commit; a directory without one is nobody else's.
        let Some(id) = project::root_commit(&self.engine.0.git, worktree, &cache).await else {
            return Ok(());
        };
        let storage = self.engine.storage();
        let theirs = shared.answers(&id).await?;
        let revoked = storage.revoked_answers(project.to_owned()).await?;
        let own = storage.answers(Some(project.to_owned())).await?;
        let is_same =
            |one: &Rule, other: &Rule| one.permission == other.permission && one.pattern == other.pattern;
        let revoked_at = |rule: &Rule| revoked.iter().find(|it| is_same(&it.rule, rule)).map(|it| it.created);
        let stored = |answer: &SharedAnswer| StoredAnswer {
            project: project.to_owned(),
            rule: answer.rule.clone(),
            created: answer.created,
        };
        let (mut to_tell, mut added, mut taken_back) = (Vec::new(), Vec::new(), Vec::new());
        for answer in &theirs {
            let is_known = revoked_at(&answer.rule).is_some_and(|at| at >= answer.created);
            let here = own.iter().find(|it| is_same(&it.rule, &answer.rule));
            if is_known || here.is_some_and(|here| here.created >= answer.created) {
                continue;
            }
            if answer.is_revoked { taken_back.push(stored(answer)) } else { added.push(stored(answer)) }
        }
        let is_newer = |rule: &Rule, created: i64| {
            theirs.iter().find(|it| is_same(&it.rule, rule)).is_none_or(|it| it.created < created)
        };
        let of_revoked = revoked.iter().map(|answer| (answer, true));
        for (answer, is_revoked) in of_revoked.chain(own.iter().map(|answer| (answer, false))) {
            if is_newer(&answer.rule, answer.created) {
                to_tell.push(SharedAnswer { rule: answer.rule.clone(), created: answer.created, is_revoked });
            }
        }
        if !to_tell.is_empty() {
            shared.put_answers(&id, &to_tell).await?;
        }
        if !added.is_empty() || !taken_back.is_empty() {
            storage.take_over_answers(added, taken_back).await?;
        }
        Ok(())
    }
}
