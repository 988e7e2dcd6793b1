//! Keeps a workspace up to date: watches what its files were read from and reads them again when that changes.

use std::{
    io,
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, SystemTime},
};

use tokio_util::task::AbortOnDropHandle;
use windlass_protocol::opencode::event::EventPayload;

use super::{Engine, EngineError, Workspace, workspace::Reading};
use crate::base::{
    lock::lock,
    watch::{Target, Watcher},
};

/// How long nothing may happen before a change counts as complete: editors write in several steps.
const QUIET: Duration = Duration::from_millis(50);
/// How long a change may go on before it is looked at all the same.
const PATIENCE: Duration = Duration::from_millis(500);

impl Engine {
    /// Watches what a workspace was read from, until the workspace ends. Returns at once; does nothing the second
    /// time.
    pub fn watch(&self, workspace: &Arc<Workspace>) {
        let mut reloading = lock(&workspace.reloading);
        if reloading.is_none() {
            let task = run(self.clone(), Arc::downgrade(workspace));
            *reloading = Some(AbortOnDropHandle::new(tokio::spawn(task)));
        }
    }

    /// Reads a workspace's files now. What is new holds from the next turn on.
    pub(super) async fn read_again(&self, workspace: &Workspace) -> Result<(), EngineError> {
        let mut reading = self.read(workspace.directory()).await?;
        let loaded = &mut reading.loaded;
        self.refresh_named(loaded);
        let before = workspace.loaded();
        // A model that was chosen in one session meanwhile is not forced on the others.
        loaded.last_used.clone_from(&before.last_used);
        loaded.log_problems(&before.warnings);
        self.exchange(workspace, reading);
        // A key that was added may be an organisation's.
        self.fetch_and_read_again(true);
        Ok(())
    }

    /// Lets freshly read files hold, and says so when they are different.
    pub(super) fn exchange(&self, workspace: &Workspace, reading: Reading) {
        if workspace.replace(reading) {
            let directory = workspace.directory().display().to_string();
            tracing::info!(directory, "the configuration has changed");
            self.bus().publish(EventPayload::ConfigUpdated { directory });
        }
    }
}

/// One reading at a time; whatever happens during one leads to one more.
async fn run(engine: Engine, workspace: Weak<Workspace>) {
    let mut eyes = Eyes::new();
    while let Some((sources, read_at)) = workspace.upgrade().map(|it| (it.loaded().sources(), it.read_at())) {
        let (back, is_stale_already) =
            match tokio::task::spawn_blocking(move || eyes.follow(sources, read_at.wall)).await {
                Ok(followed) => followed,
                // The runtime ends.
                Err(_) => return,
            };
        eyes = back;
        if let Some(workspace) = workspace.upgrade() {
            workspace.is_blind.store(eyes.0.is_none(), Ordering::Relaxed);
        }
        // What happened to it before it was watched counts too.
        if !is_stale_already {
            eyes.changed().await;
        }
        let Some(workspace) = workspace.upgrade() else { return };
        if let Err(error) = engine.read_again(&workspace).await {
            tracing::warn!(%error, "the configuration was not read again; what held before still holds");
        }
    }
}

/// The watcher, as long as the system lets us have one.
struct Eyes(Option<Watcher>);

impl Eyes {
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
    fn follow(mut self, sources: Vec<Target>, since: SystemTime) -> (Self, bool) {
        match self.0.as_mut().map(|watcher| watcher.follow(&sources, since)) {
            Some(Ok(has_changed)) => (self, has_changed),
            Some(Err(error)) => (Self::blind(&error), false),
            None => (self, false),
        }
    }

    /// Ends when a change seems complete.
    async fn changed(&mut self) {
        let Some(watcher) = &mut self.0 else { return std::future::pending().await };
        let mut seen = watcher.changed().await;
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
