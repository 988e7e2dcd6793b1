//! Fetches organisations' configurations in the background and says whether what was kept of them changed.

use std::{path::Path, time::Duration};

use reqwest::Url;
use tokio::time::timeout;

use super::download;
use crate::{
    config::{
        Environment,
        paths::Paths,
        remote::{self, Document, Entry},
    },
    provider::http,
};

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
    let fetches = entries.iter().map(|entry| one(client, &environment, paths, entry));
    futures_util::future::join_all(fetches).await.contains(&true)
}

async fn one(client: &http::Client, environment: &Environment, paths: &Paths, entry: &Entry) -> bool {
    let fetched = match timeout(TIMEOUT, fetch(client, environment, &entry.url)).await {
        Ok(fetched) => fetched,
        Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
    };
    let file = remote::cache_file(paths, &entry.url);
    let kept = match fetched {
        Ok(document) => keep(&file, document).await,
        Err(reason) => Err(reason),
    };
    kept.unwrap_or_else(|reason| {
        tracing::warn!(
            "the configuration of {} was not fetched: {reason}; what was kept of it is used",
            entry.url
        );
        false
    })
}

async fn keep(file: &Path, document: Document) -> Result<bool, String> {
    let path = file.to_owned();
    let kept = tokio::task::spawn_blocking(move || remote::keep(&path, &document)).await;
    let kept = kept.map_err(|error| error.to_string())?;
    kept.map_err(|error| format!("{} cannot be written: {error}", file.display()))
}

async fn fetch(client: &http::Client, environment: &Environment, url: &str) -> Result<Document, String> {
    let address = remote::well_known(url);
    let text = get(client, &address, &[]).await?;
    let request = remote::first_answer(&text, environment).map_err(|reason| format!("{address} {reason}"))?;
    let remote = match request {
        None => None,
        Some(request) => {
            let text = get(client, &request.url, &request.headers).await?;
            remote::second_answer(&text).map_err(|reason| format!("{} {reason}", request.url))?;
            Some((request.url, text))
        }
    };
    Ok(Document { url: url.to_owned(), text, remote })
}

async fn get(client: &http::Client, url: &str, headers: &[(String, String)]) -> Result<String, String> {
    if !remote::is_trusted(url) {
        return Err(format!("{url} is neither https nor this machine"));
    }
    let address = Url::parse(url).map_err(|error| format!("{url}: it is not a URL ({error})"))?;
    let bytes = download::get_with(client, address, headers, MAX_BYTES).await;
    let bytes = bytes.map_err(|reason| format!("{url}: {reason}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{url} is not text in UTF-8"))
}
