//! Fetches organisations' configurations in the background and says whether their kept copies changed.

use std::time::Duration;

use tokio::time::timeout;
use windlass_base::{blocking::blocking, reason::Reason};
use windlass_core::config::{
    Environment,
    paths::Paths,
    remote::{self, Document, Entry},
};
use windlass_provider::http;

use super::download::{self, ANSWER_LIMIT, late, not_kept};

/// Time that one organisation's answers may take together.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of an answer that are read.
const MAX_BYTES: usize = 1 << 20;

/// Returns true if any of the entries' configurations is another now. One that cannot be fetched stays as it
/// was kept.
pub async fn refresh(
    client: &http::Client,
    environment: &Environment,
    paths: &Paths,
    entries: Vec<Entry>,
) -> bool {
    let mut environment = environment.clone();
    for entry in &entries {
        environment.variables.insert(entry.variable.clone(), entry.token.clone());
    }
    let fetches = entries.iter().map(|entry| refresh_one(client, &environment, paths, entry));
    futures_util::future::join_all(fetches).await.contains(&true)
}

async fn refresh_one(client: &http::Client, environment: &Environment, paths: &Paths, entry: &Entry) -> bool {
    let fetched = timeout(TIMEOUT, fetch(client, environment, &entry.url)).await;
    let kept = match fetched.unwrap_or_else(|_| Err(late(TIMEOUT))) {
        Ok(document) => {
            let file = remote::cache_file(paths, &entry.url);
            blocking(move || remote::keep(&file, &document)).await.map_err(not_kept)
        }
        Err(error) => Err(error),
    };
    kept.unwrap_or_else(|error| {
        tracing::warn!(
            "the configuration of {} was not fetched: {error}; what was kept of it is used",
            entry.url
        );
        false
    })
}

async fn fetch(client: &http::Client, environment: &Environment, url: &str) -> Result<Document, Reason> {
    let unusable = |address: &str, reason: String| format!("{address} {reason}");
    let address = remote::well_known(url);
    let text = get(client, &address, &[]).await?;
    let request = remote::first_answer(&text, environment).map_err(|reason| unusable(&address, reason))?;
    let remote = match request {
        None => None,
        Some(request) => {
            let text = get(client, &request.url, &request.headers).await?;
            remote::second_answer(&text).map_err(|reason| unusable(&request.url, reason))?;
            Some((request.url, text))
        }
    };
    Ok(Document { url: url.to_owned(), text, remote })
}

pub async fn get(client: &http::Client, url: &str, headers: &[(String, String)]) -> Result<String, Reason> {
    let fetched = async {
        if !remote::is_trusted(url) {
            return Err("it is neither https nor this machine".to_owned());
        }
        let url = download::parsed(url)?;
        download::utf8(download::fetch(client, url, Some(headers), MAX_BYTES, ANSWER_LIMIT).await?)
    };
    fetched.await.map_err(|error| format!("{url}: {error}"))
}
