//! Reads what configures a directory: for a session's services, for a look, and with what is fetched for it.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use super::{Engine, EngineError, EngineErrorKind, Loaded, Workspace, remote_config, workspace::Moment};
use crate::{
    base::lock::lock,
    config::remote,
    library::{self, Instructions},
};

impl Engine {
    /// The services of a directory, with its files read afresh.
    pub async fn workspace(&self, directory: &Path) -> Result<Arc<Workspace>, EngineError> {
        let read_at = Moment::now();
        let loaded = self.inspect_files(directory).await?;
        let before = lock(&self.0.workspaces).get(&loaded.config.directory).map(|it| it.loaded());
        log(&loaded, before.as_deref());
        self.refresh_remote_config();
        self.0.pages.prepare(&library::instruction_urls(&loaded.config));
        self.refresh_agents(&loaded);
        self.refresh_skills(&loaded);
        let workspace = {
            let mut workspaces = lock(&self.0.workspaces);
            match workspaces.get(&loaded.config.directory) {
                Some(workspace) => workspace.clone(),
                None => {
                    let storage = self.0.storage.clone();
                    let workspace = Arc::new(Workspace::start(loaded, read_at, &self.0.bus, storage));
                    workspaces.insert(workspace.directory().to_owned(), workspace.clone());
                    return Ok(workspace);
                }
            }
        };
        self.exchange(&workspace, loaded, read_at);
        Ok(workspace)
    }

    /// What a directory's files say now, without starting its services. What is wrong in them is logged.
    pub async fn read_files(&self, directory: &Path) -> Result<Loaded, EngineError> {
        let loaded = self.inspect_files(directory).await?;
        log(&loaded, None);
        Ok(loaded)
    }

    /// Like [`Engine::read_files`], for those who tell what is wrong themselves.
    pub async fn inspect_files(&self, directory: &Path) -> Result<Loaded, EngineError> {
        let (environment, paths) = (self.0.environment.clone(), self.0.paths.clone());
        let use_stored_keys = self.0.use_stored_keys.load(Ordering::Relaxed);
        let before = lock(&self.0.workspaces).get(directory).map(|workspace| workspace.loaded());
        let directory = directory.to_owned();
        let read = tokio::task::spawn_blocking(move || {
            if !directory.is_dir() {
                let reason = format!("the directory {} does not exist", directory.display());
                return Err(EngineError::new(EngineErrorKind::InvalidInput, reason));
            }
            Ok(Loaded::read(&environment, &paths, &directory, use_stored_keys, before.as_deref()))
        });
        read.await.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?
    }

    /// The instructions of a directory, its files read now and its pages fetched before where that is possible.
    pub(crate) async fn read_instructions(&self, loaded: &Arc<Loaded>) -> Instructions {
        let pages = self.0.pages.get(&library::instruction_urls(&loaded.config)).await;
        let loaded = loaded.clone();
        let read = tokio::task::spawn_blocking(move || library::instructions(&loaded.config, &pages));
        read.await.unwrap_or_default()
    }

    /// Fetches what organisations serve; whether it is something else than what was kept.
    pub async fn fetch_remote_config(&self) -> bool {
        let (environment, paths) = (self.0.environment.clone(), self.0.paths.clone());
        let entries = tokio::task::spawn_blocking(move || remote::entries(&environment, &paths)).await;
        match entries.unwrap_or_default() {
            entries if entries.is_empty() => false,
            entries => {
                remote_config::refresh(&self.0.http, &self.0.environment, &self.0.paths, entries).await
            }
        }
    }

    /// Asks organisations and marketplaces of a directory now, all of them at once.
    pub async fn fetch_all(&self, directory: &Path) {
        let (is_new, asked) = tokio::join!(self.fetch_remote_config(), self.fetch_agents(directory, &[]));
        if is_new {
            // It may name marketplaces of its own.
            self.fetch_agents(directory, &asked).await;
        }
    }
}

/// Logs what is wrong and was not so before.
pub(super) fn log(loaded: &Loaded, before: Option<&Loaded>) {
    let is_known = |warning| before.is_some_and(|before| before.warnings.contains(warning));
    for warning in loaded.warnings.iter().filter(|warning| !is_known(warning)) {
        tracing::warn!("{warning}");
    }
    for note in loaded.config.notes.iter().chain(&loaded.notes).filter(|_| before.is_none()) {
        tracing::debug!("{note}");
    }
}
