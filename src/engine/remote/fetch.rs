//! Has what a configuration names by URL fetched: in the background once it is no longer fresh, or now.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::remote_config;
use crate::{
    base::lock::lock,
    config::remote,
    engine::{Engine, Loaded, Workspace},
    library,
};

/// Time for which an organisation's configuration counts as fresh.
const FRESH: Duration = Duration::from_secs(300);

impl Engine {
    /// Has what lies behind URLs fetched in the background.
    pub(crate) fn refresh(&self, loaded: &Loaded) {
        self.refresh_remote_config();
        self.refresh_named(loaded);
    }

    /// Does the same without organisations, which `auth.json` names.
    pub(crate) fn refresh_named(&self, loaded: &Loaded) {
        self.0.pages.prepare(&library::instruction_urls(&loaded.config));
        self.refresh_agents(loaded);
        self.refresh_skills(loaded);
    }

    /// Has organisations' configurations fetched in the background when they are no longer fresh, and what they
    /// change read again.
    pub(crate) fn refresh_remote_config(&self) {
        {
            let mut refreshed = lock(&self.0.refreshed);
            if refreshed.is_some_and(|at| at.elapsed() < FRESH) {
                return;
            }
            *refreshed = Some(Instant::now());
        }
        self.fetch_and_read_again(false);
    }

    /// Fetches configurations and reads the files again. With `only_new`, organisations are asked only when they differ
    /// from the last ones.
    pub(crate) fn fetch_and_read_again(&self, only_new: bool) {
        let engine = self.clone();
        tokio::spawn(async move {
            let (environment, paths) = (engine.0.environment.clone(), engine.0.paths.clone());
            let entries = tokio::task::spawn_blocking(move || remote::entries(&environment, &paths)).await;
            let entries = entries.unwrap_or_default();
            let is_known = {
                let mut organisations = lock(&engine.0.organisations);
                let before = std::mem::replace(&mut *organisations, entries);
                before == *organisations
            };
            if only_new && is_known || !engine.fetch_remote_config().await {
                return;
            }
            let workspaces: Vec<Arc<Workspace>> = lock(&engine.0.workspaces).values().cloned().collect();
            for workspace in workspaces {
                if let Err(error) = engine.read_again(&workspace).await {
                    tracing::warn!("{} was not read again: {error}", workspace.directory().display());
                }
            }
            tracing::info!("an organisation's configuration changed and was read again");
        });
    }

    /// Asks organisations and marketplaces of a directory now, all of them at once.
    pub async fn fetch_all(&self, directory: &Path) {
        let (is_new, asked) = tokio::join!(self.fetch_remote_config(), self.fetch_agents(directory, &[]));
        if is_new {
            // It may name marketplaces of its own.
            self.fetch_agents(directory, &asked).await;
        }
    }

    /// Fetches what organisations serve; whether it is something else than what was kept.
    async fn fetch_remote_config(&self) -> bool {
        let (environment, paths) = (self.0.environment.clone(), self.0.paths.clone());
        let entries = tokio::task::spawn_blocking(move || remote::entries(&environment, &paths)).await;
        match entries.unwrap_or_default() {
            entries if entries.is_empty() => false,
            entries => {
                remote_config::refresh(&self.0.http, &self.0.environment, &self.0.paths, entries).await
            }
        }
    }
}
