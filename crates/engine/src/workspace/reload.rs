//! Keeps a workspace up to date: watches its files and reads them again when they change.

use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, SystemTime},
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{
    lock::lock,
    watch::{Followed, Target, Watcher},
};
use windlass_protocol::opencode::{
    event::EventPayload,
    service::{ServiceEvent, ServiceNews},
};

use super::directory::{Reloading, Turn};
use crate::{Engine, EngineError, Workspace, Workspaces, branch, plugins::Renewal};

/// Quiet time after which a change counts as complete: editors write in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// Time after which an unfinished change is read all the same.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time that a turn waits for the reading of files that changed before it began.
const TURN_PATIENCE: Duration = Duration::from_secs(3);

impl Workspaces<'_> {
    /// Watches the files that a workspace was read from, until the workspace ends. Returns at once; does nothing the
    /// second time.
    pub fn watch(self, workspace: &Arc<Workspace>) {
        let mut reloading = lock(&workspace.reloading);
        if reloading.is_none() {
            let (turns, begun) = mpsc::unbounded_channel();
            let task = tokio::spawn(run(self.engine.clone(), Arc::downgrade(workspace), begun));
            *reloading = Some(Reloading { turns, _task: AbortOnDropHandle::new(task) });
        }
    }

    /// Ends when a workspace holds the state that its files had when this began, as far as that does not take too long.
    pub(crate) async fn sync_config(self, workspace: &Arc<Workspace>) {
        if !workspace.polls_each_turn() {
            let (turn, is_read) = oneshot::channel();
            let has_task = lock(&workspace.reloading).as_ref().is_some_and(|it| it.turns.send(turn).is_ok());
            if has_task && tokio::time::timeout(TURN_PATIENCE, is_read).await.is_err() {
                tracing::warn!(
                    "files are still being read, so this turn begins with the previous configuration"
                );
                return;
            }
        }
        if workspace.polls_each_turn()
            && let Err(error) = self.read_again(workspace).await
        {
            tracing::warn!(%error, "the configuration was not read again");
        }
    }

    /// Reads a workspace's files now. Changes hold from the next turn on.
    pub(crate) async fn read_again(self, workspace: &Arc<Workspace>) -> Result<(), EngineError> {
        let mut reading = self.read(workspace.directory()).await?;
        let loaded = &mut reading.loaded;
        self.engine.remote().refresh_named(loaded);
        let before = workspace.loaded();
        // A model that was chosen in one session meanwhile is not forced on the others.
        loaded.last_used.clone_from(&before.last_used);
        loaded.log_problems(Some(&before));
        self.apply_reading(workspace, reading);
        let renewal = self.engine.plugins().renew(workspace).await;
        let host = match &renewal {
            Renewal::None => None,
            Renewal::Ended => Some(None),
            Renewal::Ready(host) => Some(Some(host.clone())),
        };
        if let Some(host) = host {
            let reading = self.read_with(workspace.directory(), host).await?;
            // In one step: a turn begins with the plugins that its configuration was made with.
            self.engine.plugins().take_over(workspace.directory(), renewal);
            self.apply_reading(workspace, reading);
        }
        // A key that was added may be an organisation's.
        self.engine.remote().fetch_and_read_again(true);
        Ok(())
    }
}

/// Runs one reading at a time; changes during one lead to one more.
async fn run(engine: Engine, workspace: Weak<Workspace>, begun: mpsc::UnboundedReceiver<Turn>) {
    let mut watch = Watch::new();
    let mut turns = Turns { begun, waiting: Vec::new() };
    // The branch that was seen last, once one was looked for.
    let mut branch: Option<Option<String>> = None;
    while let Some((mut sources, worktree, read_at)) =
        workspace.upgrade().map(|it| (it.sources(), it.loaded().config.worktree.clone(), it.read_at()))
    {
        let following = move || {
            let head_file = branch::head_file(&worktree);
            sources.extend(head_file.clone().map(Target::File));
            let (watch, followed) = watch.follow(sources, read_at.wall);
            // Behind the beginning of the watch, so that no change is missed.
            (watch, followed, head_file.and_then(|file| branch::read(&file)))
        };
        let (back, followed, branch_now) = match tokio::task::spawn_blocking(following).await {
            Ok(followed) => followed,
            Err(error) => {
                // Else the runtime ends.
                if let Some(workspace) = workspace.upgrade().filter(|_| error.is_panic()) {
                    tracing::error!(
                        "watching failed with an internal error; each turn reads the files itself"
                    );
                    workspace.polls_each_turn.store(true, Ordering::Relaxed);
                }
                return;
            }
        };
        watch = back;
        if let Some(workspace) = workspace.upgrade() {
            workspace.polls_each_turn.store(!followed.is_whole, Ordering::Relaxed);
            if branch.as_ref().is_some_and(|before| *before != branch_now) {
                let directory = Some(workspace.directory().display().to_string());
                let news = ServiceNews::VcsBranchUpdated { branch: branch_now.clone() };
                engine.bus().publish(EventPayload::Service(ServiceEvent { directory, news }));
            }
            branch = Some(branch_now);
        }
        // Changes before it was watched count too.
        if !followed.has_changed {
            watch.changed(&mut turns).await;
        }
        turns.waiting.extend(std::iter::from_fn(|| turns.begun.try_recv().ok()));
        let Some(workspace) = workspace.upgrade() else { return };
        if let Err(error) = engine.workspaces().read_again(&workspace).await {
            tracing::warn!(%error, "the configuration was not read again; the previous configuration stays");
        }
        turns.waiting.clear();
    }
}

/// The turns that begin.
struct Turns {
    begun: mpsc::UnboundedReceiver<Turn>,
    /// Turns that began after a change that is not read yet.
    waiting: Vec<Turn>,
}

impl Turns {
    /// Returns the next one. Never ends once there will be none.
    async fn next(&mut self) -> Turn {
        match self.begun.recv().await {
            Some(turn) => turn,
            None => std::future::pending().await,
        }
    }
}

/// The watcher, as long as the system lets us have one.
struct Watch(Option<Watcher>);

impl Watch {
    fn new() -> Self {
        match Watcher::new() {
            Ok(watcher) => Self(Some(watcher)),
            Err(error) => Self::blind(&error),
        }
    }

    fn blind(error: &io::Error) -> Self {
        tracing::warn!(
            %error,
            "configuration files cannot be watched, so they are read at the beginning of each turn. \
             On Linux `sysctl fs.inotify` has the limits"
        );
        Self(None)
    }

    /// Does blocking reads of directories.
    fn follow(mut self, sources: Vec<Target>, since: SystemTime) -> (Self, Followed) {
        const BLIND: Followed = Followed { has_changed: false, is_whole: false };
        match self.0.as_mut().map(|watcher| watcher.follow(&sources, since)) {
            Some(Ok(followed)) => (self, followed),
            Some(Err(error)) => (Self::blind(&error), BLIND),
            None => (self, BLIND),
        }
    }

    /// Ends when a change seems complete; turns that begin before anything changes go on.
    async fn changed(&mut self, turns: &mut Turns) {
        let Some(watcher) = &mut self.0 else {
            loop {
                drop(turns.next().await);
            }
        };
        let mut seen = loop {
            tokio::select! {
                seen = watcher.changed() => break seen,
                turn = turns.next() => match watcher.has_changed() {
                    Ok(false) => drop(turn),
                    has_changed @ (Ok(true) | Err(_)) => {
                        turns.waiting.push(turn);
                        break has_changed.map(drop);
                    }
                },
            }
        };
        let end = tokio::time::Instant::now() + PATIENCE;
        while seen.is_ok() && tokio::time::Instant::now() < end {
            let quiet = tokio::time::Instant::now() + QUIET;
            match tokio::time::timeout_at(quiet.min(end), watcher.changed()).await {
                Ok(next) => seen = next,
                Err(_) => return,
            }
        }
        if let Err(error) = seen {
            *self = Self::blind(&error);
        }
    }
}
