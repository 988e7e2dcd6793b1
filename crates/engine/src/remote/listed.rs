//! Fetches the agents and skills that servers list, in the background, and has new ones read.

use std::{
    future::Future,
    io,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use reqwest::Url;
use serde::{Serialize, de::DeserializeOwned};
use tokio::time::timeout;
use windlass_base::{blocking::blocking, reason::Reason};
use windlass_core::config::{
    Config, ProjectAddresses,
    cache::{self, Listing},
    paths::Paths,
};
use windlass_provider::http;

use super::download::{self, First, not_kept};
use crate::{Loaded, Remote};

/// Time limit for all files of one URL; the rest is fetched the next time.
const WHOLE_LIMIT: Duration = Duration::from_secs(60);
const MAX_LIST_BYTES: usize = 1024 * 1024;

/// Means to fetch the files of a URL.
pub struct Source {
    pub client: http::Client,
    pub paths: Paths,
    pub url: String,
}

/// A kind of things that servers list.
pub trait Kind: 'static {
    /// The configuration's key of its URLs.
    const KEY: &'static str;
    const NOUN: &'static str;
    /// The words before a problem of the list.
    const LIST: &'static str;
    const MAX_AT_ONCE: usize;
    /// An entry as a server lists it.
    type Listed: Send;
    /// An entry as it is kept.
    type Entry: Clone + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static;

    fn urls(config: &Config) -> &[String];
    /// Returns the file of the kept list.
    fn file(paths: &Paths, url: &str) -> PathBuf;
    /// Returns the address of a URL's list.
    fn list(url: Url) -> Result<Url, Reason>;
    /// Reads a list: its usable entries, and the problems of the others.
    fn read(text: &[u8]) -> Result<(Vec<Self::Listed>, Vec<String>), Reason>;
    fn name(listed: &Self::Listed) -> &str;
    fn entry_name(entry: &Self::Entry) -> &str;
    /// Fetches the files of an entry, unless `old` has them.
    fn fetch(
        source: &Source,
        base: &Url,
        listed: &Self::Listed,
        old: Option<&Self::Entry>,
    ) -> impl Future<Output = Result<Self::Entry, Reason>> + Send;
    /// Removes files that the current list does not name, nor the one before. Blocking.
    fn prune(_paths: &Paths, _now: &Listing<Self::Entry>, _before: &[Self::Entry]) -> io::Result<()> {
        Ok(())
    }
}

impl Remote<'_> {
    /// Has entries fetched that are not known or no longer new; never waits. New entries hold from the next turn on.
    pub(crate) fn refresh_listed<K: Kind>(self, loaded: &Loaded) {
        for url in K::urls(&loaded.config) {
            let (engine, own) = (self.engine.clone(), url.clone());
            let is_foreign = loaded.config.project_addresses.has(url);
            let key = format!("{}: {url}", K::KEY);
            self.engine.0.fetched.asked.begin(&key, |first| async move {
                engine.remote().refresh_url::<K>(&own, is_foreign, Some(first)).await
            });
        }
    }

    /// Waits until every URL was answered once, now or in an earlier process; not long.
    pub async fn listed_settled(self) {
        self.engine.0.fetched.asked.settled().await;
    }

    /// Asks these URLs now; `addresses` are those of the project.
    pub(crate) async fn fetch_listed<K: Kind>(self, urls: &[String], addresses: &ProjectAddresses) {
        join_all(urls.iter().map(|url| self.refresh_url::<K>(url, addresses.has(url), None))).await;
    }

    async fn refresh_url<K: Kind>(self, url: &str, is_foreign: bool, first: Option<First>) {
        let file = K::file(&self.engine.0.paths, url);
        let (known, own) = (file.clone(), url.to_owned());
        let before = blocking(move || cache::read_or_log::<Listing<K::Entry>>(&known, &own)).await;
        let first = first.filter(|_| before.is_none());
        let client = self.engine.0.http.for_address(is_foreign);
        let source = Source { client, paths: self.engine.0.paths.clone(), url: url.to_owned() };
        let now = fetch::<K>(&source, before.as_ref()).await;
        for problem in &now.problems {
            tracing::warn!("{}: {url}: {problem}", K::KEY);
        }
        if before.as_ref() != Some(&now) {
            let kept = blocking(move || {
                cache::write(&file, &now)?;
                K::prune(&source.paths, &now, before.as_ref().map_or(&[], |it| &it.entries))
            })
            .await;
            match kept.map_err(not_kept) {
                Ok(()) => {
                    let is_named = |config: &Config| K::urls(config).iter().any(|own| own == url);
                    self.read_workspaces_again(is_named).await;
                    tracing::info!("the {}s of {url} changed and were read again", K::NOUN);
                }
                Err(error) => tracing::warn!("the {}s of {url}: {error}", K::NOUN),
            }
        }
        drop(first);
    }
}

/// Fetches the entries that a server lists now; of one that cannot be fetched, the kept version stays.
async fn fetch<K: Kind>(source: &Source, before: Option<&Listing<K::Entry>>) -> Listing<K::Entry> {
    let before = before.map(|before| before.entries.as_slice()).unwrap_or_default();
    let mut now = Listing { url: source.url.clone(), entries: Vec::new(), problems: Vec::new() };
    let kept_is_used = |is_kept: bool| if is_kept { "; what was kept of it is used" } else { "" };
    let (base, listed) = match list::<K>(source).await {
        Ok((base, listed, problems)) => {
            now.problems = problems.iter().map(|problem| format!("{}{problem}", K::LIST)).collect();
            (base, listed)
        }
        Err(reason) => {
            let used = kept_is_used(!before.is_empty());
            now.problems.push(format!("its {}s cannot be fetched: {reason}{used}", K::NOUN));
            now.entries = before.to_vec();
            return now;
        }
    };
    let deadline = Instant::now() + WHOLE_LIMIT;
    let fetches = listed.into_iter().map(|listed| {
        let old = before.iter().find(|old| K::entry_name(old) == K::name(&listed));
        let base = &base;
        let fetching = async move {
            let left = deadline.saturating_duration_since(Instant::now());
            let fetched = timeout(left, K::fetch(source, base, &listed, old)).await;
            let late = |_| Err(format!("not within {} s", WHOLE_LIMIT.as_secs()));
            (K::name(&listed).to_owned(), old, fetched.unwrap_or_else(late))
        };
        fetching.boxed()
    });
    let fetches: Vec<_> = fetches.collect();
    let mut fetched = stream::iter(fetches).buffered(K::MAX_AT_ONCE);
    while let Some((name, old, entry)) = fetched.next().await {
        match entry {
            Ok(entry) => now.entries.push(entry),
            Err(reason) => {
                let used = kept_is_used(old.is_some());
                now.problems.push(format!("the {} `{name}` cannot be fetched: {reason}{used}", K::NOUN));
                now.entries.extend(old.cloned());
            }
        }
    }
    now
}

type List<K> = (Url, Vec<<K as Kind>::Listed>, Vec<String>);

/// Returns the URL that a server's files are below, its entries, and the problems of its list.
async fn list<K: Kind>(source: &Source) -> Result<List<K>, Reason> {
    let list = K::list(download::parsed(&source.url)?)?;
    let text = download::limited(download::get(&source.client, list.clone(), MAX_LIST_BYTES)).await?;
    let (listed, problems) =
        K::read(&text).map_err(|reason| format!("{} {reason}", K::LIST.trim_end_matches([':', ' '])))?;
    let base = list.join(".").map_err(|error| format!("it is not a URL with a path ({error})"))?;
    Ok((base, listed, problems))
}
