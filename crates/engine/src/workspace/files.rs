//! Reads the files of a directory, and keeps to that reading while they are unchanged.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use windlass_base::{blocking::blocking, lock::lock, memory, watch::Survey};
use windlass_core::{
    config::{Environment, Hook},
    library::{self, Instructions},
};
use windlass_services::plugin::host::Host;

use super::directory::{Moment, Reading};
use crate::{EngineError, EngineErrorKind, EngineState, Loaded, Workspace, Workspaces, plugins};

/// The state in which a directory has to be to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    /// It may be gone, and then only the files elsewhere count.
    Gone,
}

impl Workspaces<'_> {
    /// Reads the configuration of a directory's files, without starting its services. Faults in them are logged.
    pub async fn read_files(self, directory: &Path) -> Result<Loaded, EngineError> {
        let loaded = self.inspect_files(directory).await?;
        loaded.log_problems(None);
        Ok(loaded)
    }

    /// Like [`Workspaces::read_files`], for callers that report problems themselves.
    pub async fn inspect_files(self, directory: &Path) -> Result<Loaded, EngineError> {
        Ok(self.read(directory).await?.loaded)
    }

    /// Reads a directory's files, with the changes of the plugins that run there.
    pub(crate) async fn read(self, directory: &Path) -> Result<Reading, EngineError> {
        self.read_with(directory, self.engine.plugins().host(directory)).await
    }

    /// Reads the files of a directory that is opened, and starts its plugins.
    pub(crate) async fn read_and_start(self, directory: &Path) -> Result<Reading, EngineError> {
        let reading = self.read(directory).await?;
        if reading.loaded.plan.is_empty() || self.engine.plugins().host(directory).is_some() {
            return Ok(reading);
        }
        match self.engine.plugins().start(&reading.loaded).await {
            Some(host) if ["auth", "config", "provider"].iter().any(|hook| host.declares(hook)) => {
                self.read_with(directory, Some(host)).await
            }
            Some(_) | None => Ok(reading),
        }
    }

    /// Reads a directory's files, with the changes of the plugins of this host.
    pub(crate) async fn read_with(
        self,
        directory: &Path,
        host: Option<Arc<Host>>,
    ) -> Result<Reading, EngineError> {
        self.read_as(directory, host, Presence::Required).await
    }

    async fn read_as(
        self,
        directory: &Path,
        host: Option<Arc<Host>>,
        presence: Presence,
    ) -> Result<Reading, EngineError> {
        let extend = host.clone().and_then(|host| plugins::providers::extension(self.engine, host));
        let of_plugins = host.as_deref().map(plugins::config_hooks).unwrap_or_default();
        let of_client = self.engine.client_hook();
        let use_stored_keys = self.engine.0.use_stored_keys.load(Ordering::Relaxed);
        let before = lock(&self.engine.0.workspaces).get(directory).map(|workspace| workspace.loaded());
        let (directory, engine) = (directory.to_owned(), self.engine.clone());
        let read = tokio::task::spawn_blocking(move || {
            let EngineState { environment, paths, hooks, .. } = engine.0.as_ref();
            let hooks: Vec<Hook> = hooks.iter().cloned().chain(of_plugins).chain(of_client).collect();
            if presence == Presence::Required && !directory.is_dir() {
                let reason = format!("the directory {} does not exist", directory.display());
                return Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
            }
            let read_at = Moment::now();
            let before = before.as_deref();
            let readers = (hooks.as_slice(), extend.as_deref());
            let mut loaded = Loaded::read(environment, paths, readers, &directory, use_stored_keys, before);
            let Survey { stamp, overfull } = Survey::of(&loaded.sources(), read_at.wall);
            loaded.warn_of_overfull(&overfull);
            // The earlier reading holds until the user has seen the new one.
            let was_whole = before.is_some_and(|before| before.config.held.entries.is_empty());
            let whole = (was_whole && !loaded.config.held.entries.is_empty()).then(|| {
                let trusting = Environment { trusts_projects: true, ..environment.clone() };
                let mut whole = Loaded::read(&trusting, paths, readers, &directory, use_stored_keys, before);
                whole.config.environment.trusts_projects = environment.trusts_projects;
                whole
            });
            memory::give_back();
            Ok(Reading { loaded, read_at, stamp, use_stored_keys, whole })
        });
        read.await.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?
    }

    /// Returns the services of a directory, with its files read afresh unless they are unchanged.
    pub async fn workspace(self, directory: &Path) -> Result<Arc<Workspace>, EngineError> {
        if let Some(workspace) = self.current_workspace(directory).await {
            self.engine.remote().refresh(&workspace.loaded());
            workspace.touch();
            return Ok(workspace);
        }
        self.engine.fleet().prepare().await;
        let reading = self.read_and_start(directory).await?;
        Ok(self.take_reading(directory, reading))
    }

    /// Returns the services of a directory that is gone, for a session that people only read.
    pub(crate) async fn workspace_of_gone(self, directory: &Path) -> Result<Arc<Workspace>, EngineError> {
        let reading = self.read_as(directory, None, Presence::Gone).await?;
        Ok(self.take_reading(directory, reading))
    }

    fn take_reading(self, directory: &Path, reading: Reading) -> Arc<Workspace> {
        let known = lock(&self.engine.0.workspaces).get(directory).map(|workspace| workspace.loaded());
        reading.loaded.log_problems(known.as_deref());
        self.engine.remote().refresh(&reading.loaded);
        let workspace = {
            let mut workspaces = lock(&self.engine.0.workspaces);
            match workspaces.get(&reading.loaded.config.directory) {
                Some(workspace) => workspace.clone(),
                None => {
                    let storage = self.engine.0.storage.clone();
                    let git = self.engine.0.git.clone();
                    let workspace = Arc::new(Workspace::start(reading, &self.engine.0.bus, storage, git));
                    workspaces.insert(workspace.directory().to_owned(), workspace.clone());
                    return workspace;
                }
            }
        };
        self.apply_reading(&workspace, reading);
        workspace
    }

    /// Returns the services of a directory with files that have not changed since they were read.
    async fn current_workspace(self, directory: &Path) -> Option<Arc<Workspace>> {
        let workspace = lock(&self.engine.0.workspaces).get(directory)?.clone();
        let use_stored_keys = self.engine.0.use_stored_keys.load(Ordering::Relaxed);
        let paths = self.engine.0.paths.clone();
        blocking(move || workspace.is_current(&paths, use_stored_keys).then_some(workspace)).await
    }

    /// Returns the instructions of a directory, its files read now and its pages fetched before where that is
    /// possible.
    pub(crate) async fn read_instructions(self, loaded: &Arc<Loaded>) -> Instructions {
        let config = &loaded.config;
        let pages = self
            .engine
            .0
            .fetched
            .pages
            .get(&library::instruction_urls(config), &config.project_addresses)
            .await;
        let loaded = loaded.clone();
        blocking(move || library::instructions(&loaded.config, &pages)).await
    }

    /// Returns a directory's instruction files; pages are not asked for.
    pub(crate) async fn read_instruction_files(self, loaded: &Arc<Loaded>) -> Instructions {
        let loaded = loaded.clone();
        blocking(move || library::instruction_files(&loaded.config)).await
    }
}
