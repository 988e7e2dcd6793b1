//! The pages behind the URLs of a configuration: fetched in the background, kept in memory and on disk, so that
//! no turn waits for them twice.

use std::{
    collections::HashMap,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};
use windlass_base::{blocking::blocking, lock::lock, reason::Reason};
use windlass_core::{
    config::{
        ProjectAddresses,
        cache::{self, Cached},
    },
    library,
};
use windlass_provider::http;

use super::download::{self, late, not_kept};

/// Time that a turn may wait for the first fetch of a page (facts: OpenCode §2.5).
const LIMIT: Duration = Duration::from_secs(5);
/// Time that a fetch may continue behind the turns, so that a later one has the page of a slow server.
const FETCH_LIMIT: Duration = Duration::from_secs(30);
/// Time for which a page counts as new.
const FRESH: Duration = Duration::from_secs(600);
/// Time before a page that could not be fetched is tried again.
const PAUSE: Duration = Duration::from_secs(30);
const MAX_AT_ONCE: usize = 4;
/// A larger page is no instruction.
const MAX_BYTES: usize = 1024 * 1024;

/// All pages of the process.
pub struct Pages {
    reach: Arc<Reach>,
    known: Mutex<HashMap<String, watch::Sender<Page>>>,
    /// Requests under way, which end with this value.
    tasks: Mutex<JoinSet<()>>,
}

/// Means to get a page.
struct Reach {
    client: http::Client,
    /// Directory of pages that are kept between processes.
    directory: PathBuf,
    permits: Semaphore,
}

#[derive(Default)]
struct Page {
    /// The newest text that was ever fetched.
    text: Option<String>,
    /// Reason why the last fetch failed.
    failure: Option<String>,
    /// Time at which the last fetch began.
    began: Option<Instant>,
    is_fetching: bool,
}

/// The newest text of a page, for the next process.
#[derive(Serialize, Deserialize)]
struct KeptPage {
    url: String,
    text: String,
}

impl Cached for KeptPage {
    fn url(&self) -> &str {
        &self.url
    }
}

impl Page {
    fn is_due(&self) -> bool {
        let pause = if self.failure.is_some() { PAUSE } else { FRESH };
        !self.is_fetching && self.began.is_none_or(|began| began.elapsed() > pause)
    }

    /// Returns the text, or why there is none; `None` while the first fetch is under way.
    fn known(&self) -> Option<Result<String, String>> {
        match (&self.text, &self.failure) {
            (Some(text), _) => Some(Ok(text.clone())),
            (None, Some(reason)) => Some(Err(reason.clone())),
            (None, None) => None,
        }
    }
}

impl Pages {
    pub fn new(client: http::Client, directory: PathBuf) -> Self {
        let reach = Reach { client, directory, permits: Semaphore::new(MAX_AT_ONCE) };
        Self { reach: Arc::new(reach), known: Mutex::default(), tasks: Mutex::default() }
    }

    /// Begins to fetch pages that are not known or no longer new; never waits. `addresses` are those of the project.
    pub fn prepare(&self, urls: &[String], addresses: &ProjectAddresses) {
        for url in urls {
            drop(self.begin(url, addresses.has(url)));
        }
    }

    /// Returns the known texts of the pages. Waits only for pages that were never seen, and not long.
    pub async fn get(&self, urls: &[String], addresses: &ProjectAddresses) -> library::Pages {
        let mut pages = library::Pages::new();
        let waiting: Vec<_> = urls.iter().map(|url| (url, self.begin(url, addresses.has(url)))).collect();
        for (url, mut page) in waiting {
            let left = page.borrow().began.map_or(LIMIT, |began| LIMIT.saturating_sub(began.elapsed()));
            let known = async {
                // The sender lives in the map, which outlives this.
                page.wait_for(|page| page.known().is_some()).await.ok().and_then(|page| page.known())
            };
            let known = tokio::time::timeout(left, known).await.ok().flatten();
            pages.insert(url.clone(), known.unwrap_or_else(|| Err(late(LIMIT))));
        }
        pages
    }

    fn begin(&self, url: &str, is_foreign: bool) -> watch::Receiver<Page> {
        let mut known = lock(&self.known);
        let sender = known.entry(url.to_owned()).or_insert_with(|| watch::Sender::new(Page::default()));
        let is_due = sender.send_if_modified(|page| {
            let is_due = page.is_due();
            if is_due {
                page.is_fetching = true;
                page.began = Some(Instant::now());
            }
            is_due
        });
        if is_due {
            let (reach, sender, url) = (self.reach.clone(), sender.clone(), url.to_owned());
            let mut tasks = lock(&self.tasks);
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move { reach.refresh(&url, is_foreign, &sender).await });
        }
        sender.subscribe()
    }
}

impl Reach {
    /// Shows the text that an earlier process kept, then the network's.
    async fn refresh(&self, url: &str, is_foreign: bool, page: &watch::Sender<Page>) {
        let is_new = page.borrow().text.is_none();
        if is_new && let Some(text) = self.kept(url).await {
            page.send_modify(|page| page.text = Some(text));
        }
        let fetched = async {
            // The semaphore is never closed.
            let permit = self.permits.acquire().await;
            let mut fetching = pin!(tokio::time::timeout(FETCH_LIMIT, self.fetch(url, is_foreign)));
            let fetched = match tokio::time::timeout(LIMIT, &mut fetching).await {
                Ok(fetched) => fetched,
                Err(_) => {
                    // Slow servers do not hold up the pages of others.
                    drop(permit);
                    fetching.await
                }
            };
            fetched.unwrap_or_else(|_| Err(late(FETCH_LIMIT)))
        };
        let fetched = fetched.await;
        match &fetched {
            Ok(text) => self.keep(url, text).await,
            Err(reason) => tracing::warn!("{url}: {reason}"),
        }
        page.send_modify(|page| {
            page.is_fetching = false;
            match fetched {
                Ok(text) => {
                    page.text = Some(text);
                    page.failure = None;
                }
                Err(reason) => page.failure = Some(reason),
            }
        });
    }

    async fn fetch(&self, url: &str, is_foreign: bool) -> Result<String, Reason> {
        let url = download::parsed(url)?;
        let client = self.client.for_address(is_foreign);
        let bytes = download::fetch(&client, url, None, MAX_BYTES, FETCH_LIMIT).await?;
        if bytes.contains(&0) {
            return Err("it is not a text".to_owned());
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn file(&self, url: &str) -> PathBuf {
        self.directory.join(cache::name(url)).with_extension("json")
    }

    async fn kept(&self, url: &str) -> Option<String> {
        let (file, url) = (self.file(url), url.to_owned());
        let kept = blocking(move || cache::read_or_log::<KeptPage>(&file, &url)).await;
        kept.map(|page| page.text)
    }

    async fn keep(&self, url: &str, text: &str) {
        let file = self.file(url);
        let page = KeptPage { url: url.to_owned(), text: text.to_owned() };
        let written = blocking(move || cache::write(&file, &page)).await;
        if let Err(error) = written.map_err(not_kept) {
            tracing::warn!("{url}: {error}");
        }
    }
}
