//! Has the resources that a configuration names by URL fetched: in the background once they are no longer fresh, or
//! now.

use std::{path::Path, sync::Arc, time::Duration};

use windlass_base::{blocking::blocking, lock::lock};
use windlass_core::{
    config::{Config, remote},
    library,
};
use windlass_provider::{
    Model,
    catalog::{served, source},
};

use super::{agent_urls::Agents, remote_config, skill_urls::Skills};
use crate::{Loaded, Remote, Workspace, freshness::Refreshed};

/// Time for which an organisation's configuration counts as fresh.
const FRESH: Duration = Duration::from_secs(300);

impl Remote<'_> {
    /// Has the resources behind URLs fetched in the background.
    pub(crate) fn refresh(self, loaded: &Loaded) {
        self.refresh_remote_config();
        self.refresh_named(loaded);
    }

    /// Does the same without organisations, which `auth.json` names.
    pub(crate) fn refresh_named(self, loaded: &Loaded) {
        let config = &loaded.config;
        self.engine.0.fetched.pages.prepare(&library::instruction_urls(config), &config.project_addresses);
        self.refresh_listed::<Agents>(loaded);
        self.refresh_listed::<Skills>(loaded);
        self.refresh_served(loaded);
    }

    /// Has servers asked for their models in the background, each at most every few minutes.
    fn refresh_served(self, loaded: &Loaded) {
        let is_due =
            |model: &&Model| self.engine.0.freshness.begin(Refreshed::Server(model.base_url.clone()), FRESH);
        let due: Vec<Model> = loaded.catalog.asked().filter(is_due).cloned().collect();
        if due.is_empty() || self.engine.0.environment.is_on("OPENCODE_DISABLE_MODELS_FETCH") {
            return;
        }
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            if engine.remote().ask_servers(due).await {
                engine.remote().read_workspaces_again(|_| true).await;
            }
        });
    }

    /// Asks the servers of a configuration for their models now; returns true if one lists others than before.
    pub async fn fetch_served(self, loaded: &Loaded) -> bool {
        self.ask_servers(loaded.catalog.asked().cloned().collect()).await
    }

    async fn ask_servers(self, models: Vec<Model>) -> bool {
        let asked =
            models.iter().map(|model| served::refresh(&self.engine.0.http, &self.engine.0.paths, model));
        let answers = futures_util::future::join_all(asked).await;
        let changed = answers.into_iter().map(|answer| {
            // A local server is often not running.
            answer.unwrap_or_else(|reason| {
                tracing::debug!("a server was not asked for its models: {reason}");
                false
            })
        });
        // Every answer counts, not only the first.
        changed.filter(|has_changed| *has_changed).count() > 0
    }

    /// Has organisations' configurations fetched in the background when they are no longer fresh, and the workspaces
    /// that they change read again.
    pub(crate) fn refresh_remote_config(self) {
        if self.engine.0.freshness.begin(Refreshed::Organisations, FRESH) {
            self.fetch_and_read_again(false);
        }
    }

    /// Has the catalog of models fetched in the background if it is old. Called behind a turn, which never waits for
    /// it; the next reading of a directory's files finds it.
    pub(crate) fn refresh_catalog(self) {
        if !self.engine.0.freshness.begin(Refreshed::Catalog, FRESH) {
            return;
        }
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            if let Err(reason) = engine.remote().fetch_catalog(false).await {
                tracing::debug!("{reason}");
            }
        });
    }

    /// Fetches the catalog of models; returns true if there is another one now.
    pub async fn fetch_catalog(self, is_forced: bool) -> Result<bool, String> {
        source::refresh(&self.engine.0.http, &self.engine.0.environment, &self.engine.0.paths, is_forced)
            .await
    }

    /// Fetches configurations and reads the files again. With `only_new`, organisations are asked only when they differ
    /// from the last ones.
    pub(crate) fn fetch_and_read_again(self, only_new: bool) {
        let engine = self.engine.clone();
        self.engine.0.background_tasks.run(async move {
            let has_changed = engine.0.freshness.replace_organisations(engine.remote().organisations().await);
            if only_new && !has_changed || !engine.remote().fetch_remote_config().await {
                return;
            }
            engine.remote().read_workspaces_again(|_| true).await;
            tracing::info!("an organisation's configuration changed and was read again");
        });
    }

    /// Asks organisations and marketplaces of a directory now, all of them at once.
    pub async fn fetch_all(self, directory: &Path) {
        let (is_new, asked) = tokio::join!(self.fetch_remote_config(), self.fetch_agents(directory, &[]));
        if is_new {
            // It may name marketplaces of its own.
            self.fetch_agents(directory, &asked).await;
        }
    }

    /// Reads the workspaces with a concerned configuration again.
    pub(crate) async fn read_workspaces_again(self, is_concerned: impl Fn(&Config) -> bool) {
        let workspaces: Vec<Arc<Workspace>> = lock(&self.engine.0.workspaces).values().cloned().collect();
        for workspace in workspaces.into_iter().filter(|it| is_concerned(&it.loaded().config)) {
            if let Err(error) = self.engine.workspaces().read_again(&workspace).await {
                tracing::warn!("{} was not read again: {error}", workspace.directory().display());
            }
        }
    }

    /// Fetches the configurations of organisations. Returns true if one differs from its kept copy.
    async fn fetch_remote_config(self) -> bool {
        let entries = self.organisations().await;
        !entries.is_empty()
            && remote_config::refresh(
                &self.engine.0.http,
                &self.engine.0.environment,
                &self.engine.0.paths,
                entries,
            )
            .await
    }

    /// Returns the organisations that the credentials name.
    async fn organisations(self) -> Vec<remote::Entry> {
        let (environment, paths) = (self.engine.0.environment.clone(), self.engine.0.paths.clone());
        blocking(move || remote::entries(&environment, &paths)).await
    }
}
