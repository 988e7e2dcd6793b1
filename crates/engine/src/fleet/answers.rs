//! The remembered answers of a project, where the setting shares them between the nodes.

use std::path::Path;

use windlass_base::clock;
use windlass_core::storage::answers::StoredAnswer;
use windlass_shared::SharedAnswer;

use super::Fleet;
use crate::{EngineError, Workspace, project};

impl Fleet<'_> {
    /// Exchanges the answers of a workspace's project with the other nodes, if they share them. A failure is said in the
    /// log; then those here hold.
    pub(crate) async fn exchange_answers(self, workspace: &Workspace) {
        if !self.shares_answers() {
            return;
        }
        let worktree = &workspace.loaded().config.worktree;
        let project = workspace.approvals.project().map(str::to_owned);
        let exchanged = async {
            let Some(project) = project else { return Ok(()) };
            self.exchange(&project, worktree).await
        };
        match exchanged.await {
            Ok(()) => workspace.approvals.sync().await,
            Err::<(), EngineError>(error) => {
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
        let is_about = |answer: &SharedAnswer, own: &StoredAnswer| {
            answer.rule.permission == own.rule.permission && answer.rule.pattern == own.rule.pattern
        };
        let stored = |answer: &SharedAnswer| StoredAnswer {
            project: project.to_owned(),
            rule: answer.rule.clone(),
            created: answer.created,
        };
        let (mut to_tell, mut added, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for answer in &revoked {
            let before = theirs.iter().find(|it| is_about(it, answer));
            // It holds over the answer, however wrong a clock was.
            let created = before.map_or(0, |it| it.created + 1).max(answer.created).max(clock::now_ms());
            // An answer that was given again is a new one.
            if own.iter().all(|it| {
                it.rule.pattern != answer.rule.pattern || it.rule.permission != answer.rule.permission
            }) {
                to_tell.push(SharedAnswer { rule: answer.rule.clone(), created, is_revoked: true });
            }
        }
        for answer in &theirs {
            if revoked.iter().any(|it| is_about(answer, it)) {
                continue;
            }
            let here = own.iter().find(|it| is_about(answer, it));
            match here {
                Some(_) if answer.is_revoked => removed.push(stored(answer)),
                Some(here) if here.created < answer.created => added.push(stored(answer)),
                None if !answer.is_revoked => added.push(stored(answer)),
                Some(_) | None => {}
            }
        }
        for here in &own {
            let known = theirs.iter().find(|it| is_about(it, here));
            if known.is_none_or(|it| it.created < here.created) {
                to_tell.push(SharedAnswer {
                    rule: here.rule.clone(),
                    created: here.created,
                    is_revoked: false,
                });
            }
        }
        if !to_tell.is_empty() {
            shared.put_answers(&id, &to_tell).await?;
        }
        if !added.is_empty() || !removed.is_empty() || !revoked.is_empty() {
            storage.exchange_answers(added, removed, revoked).await?;
        }
        Ok(())
    }
}
