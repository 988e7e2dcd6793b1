//! Fetches the agents behind `windlass.agents.urls` in the background, and has what is new read.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, stream};
use reqwest::Url;
use tokio::time::timeout;

use super::download::{self, First, below, limited};
use crate::{
    base::lock::lock,
    config::{
        market::{self, Kept, KeptAgent, Listed, Text},
        remote::is_trusted,
    },
    engine::{Engine, Loaded},
    provider::http,
};

/// Time limit for all files of one URL; the rest is fetched the next time.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
const MAX_AT_ONCE: usize = 4;
const MAX_INDEX_BYTES: usize = 1024 * 1024;
const MAX_FILE_BYTES: usize = 256 * 1024;

impl Engine {
    /// Has agents fetched that are not known or no longer new; never waits. What is new holds from the next turn on.
    pub(crate) fn refresh_agents(&self, loaded: &Loaded) {
        for url in &loaded.config.settings.windlass.agents.urls {
            let (engine, own) = (self.clone(), url.clone());
            self.0
                .agent_urls
                .begin(url, |first| async move { engine.refresh_agents_of(&own, Some(first)).await });
        }
    }

    /// Asks every URL of a directory's configuration now, but those that were asked before; which it has asked.
    pub(crate) async fn fetch_agents(&self, directory: &Path, before: &[String]) -> Vec<String> {
        let Ok(loaded) = self.inspect_files(directory).await else { return Vec::new() };
        let mut urls = loaded.config.settings.windlass.agents.urls.clone();
        urls.retain(|url| !before.contains(url));
        futures_util::future::join_all(urls.iter().map(|url| self.refresh_agents_of(url, None))).await;
        urls
    }

    /// Waits until every URL was answered once, now or in an earlier process; not long.
    pub async fn agents_settled(&self) {
        self.0.agent_urls.settled().await;
    }

    async fn refresh_agents_of(&self, url: &str, first: Option<First>) {
        let (paths, known) = (self.0.paths.clone(), url.to_owned());
        let before = tokio::task::spawn_blocking(move || market::kept(&paths, &known)).await.ok().flatten();
        let first = first.filter(|_| before.is_none());
        let now = fetch(&self.0.http, url, before.as_ref()).await;
        for problem in &now.problems {
            tracing::warn!("windlass.agents.urls: {url}: {problem}");
        }
        if before.as_ref() != Some(&now) {
            let (paths, kept) = (self.0.paths.clone(), now);
            match tokio::task::spawn_blocking(move || market::keep(&paths, &kept)).await {
                Ok(Ok(())) => {
                    self.read_agents_again(url).await;
                    tracing::info!("the agents of {url} changed and were read again");
                }
                Ok(Err(error)) => tracing::warn!("the agents of {url} cannot be kept: {error}"),
                Err(error) => tracing::warn!("the agents of {url} were not kept: {error}"),
            }
        }
        drop(first);
    }

    async fn read_agents_again(&self, url: &str) {
        let workspaces: Vec<_> = lock(&self.0.workspaces).values().cloned().collect();
        for workspace in workspaces {
            if !workspace.loaded().config.settings.windlass.agents.urls.iter().any(|own| own == url) {
                continue;
            }
            if let Err(error) = self.read_again(&workspace).await {
                tracing::warn!("{} was not read again: {error}", workspace.directory().display());
            }
        }
    }
}

/// Fetches the agents that a server lists now; of one that cannot be fetched, what was kept before stays.
async fn fetch(client: &http::Client, url: &str, before: Option<&Kept>) -> Kept {
    let before = before.map(|before| before.agents.as_slice()).unwrap_or_default();
    let mut kept = Kept { url: url.to_owned(), ..Kept::default() };
    let (base, listed, problems) = match index(client, url).await {
        Ok(index) => index,
        Err(reason) => {
            let used = if before.is_empty() { "" } else { "; what was kept of it is used" };
            kept.problems.push(format!("its agents cannot be fetched: {reason}{used}"));
            kept.agents = before.to_vec();
            return kept;
        }
    };
    kept.problems = problems.into_iter().map(|problem| format!("its list: {problem}")).collect();
    let deadline = Instant::now() + WHOLE_LIMIT;
    let fetches = listed.into_iter().map(|listed| {
        let old = before.iter().find(|old| old.name == listed.name);
        let base = &base;
        let fetching = async move {
            let name = listed.name.clone();
            let left = deadline.saturating_duration_since(Instant::now());
            let fetched = timeout(left, one(client, base, listed, old)).await;
            (name, old, fetched.unwrap_or_else(|_| Err(format!("not within {} s", WHOLE_LIMIT.as_secs()))))
        };
        fetching.boxed()
    });
    let fetches: Vec<_> = fetches.collect();
    let mut fetched = stream::iter(fetches).buffered(MAX_AT_ONCE);
    while let Some((name, old, agent)) = fetched.next().await {
        match agent {
            Ok(agent) => kept.agents.push(agent),
            Err(reason) => {
                let used = if old.is_some() { "; what was kept of it is used" } else { "" };
                kept.problems.push(format!("the agent `{name}` cannot be fetched: {reason}{used}"));
                kept.agents.extend(old.cloned());
            }
        }
    }
    kept
}

/// Returns the URL that a server's files are below, what it lists, and what is wrong with that.
async fn index(client: &http::Client, url: &str) -> Result<(Url, Vec<Listed>, Vec<String>), String> {
    // A prompt that somebody on the way changed would be the user's own words to a model with tools.
    if !is_trusted(url) {
        return Err("it is neither https nor this machine".to_owned());
    }
    let url = Url::parse(url).map_err(|error| format!("it is not a URL ({error})"))?;
    let list = if url.path().ends_with(".json") { url } else { below(&url, &["index.json"])? };
    let text = limited(download::get(client, list.clone(), MAX_INDEX_BYTES)).await?;
    let (listed, problems) = market::read_index(&text).map_err(|reason| format!("its list {reason}"))?;
    let base = list.join(".").map_err(|error| format!("it is not a URL with a path ({error})"))?;
    Ok((base, listed, problems))
}

async fn one(
    client: &http::Client,
    base: &Url,
    listed: Listed,
    old: Option<&KeptAgent>,
) -> Result<KeptAgent, String> {
    let Listed { name, version, text, places } = listed;
    let file = match text {
        Text::Here(definition) => return Ok(KeptAgent { name, version, file: None, definition, places }),
        Text::File(file) => file,
    };
    let is_same =
        |old: &&KeptAgent| version.is_some() && old.version == version && old.file.as_ref() == Some(&file);
    if let Some(old) = old.filter(is_same) {
        return Ok(old.clone());
    }
    let path: Vec<&str> = file.split('/').collect();
    let bytes = limited(download::get(client, below(base, &path)?, MAX_FILE_BYTES)).await;
    let text =
        bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned()));
    let text = text.map_err(|reason| format!("{file}: {reason}"))?;
    let (definition, places) = market::read_file(&text).map_err(|reason| format!("{file}:{reason}"))?;
    Ok(KeptAgent { name, version, file: Some(file), definition, places })
}
