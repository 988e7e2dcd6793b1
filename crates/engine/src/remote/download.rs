//! Fetches the resources that a configuration names by URL: bounded, by http or https alone, and where a server chooses
//! the address, from public ones.

use std::{
    collections::HashMap,
    io,
    sync::Mutex,
    time::{Duration, Instant},
};

use reqwest::{Url, header::LOCATION};
use tokio::{sync::watch, task::JoinSet, time::timeout};
use windlass_base::{
    blocking::blocking,
    lock::lock,
    public_address::{check_literal, is_loopback},
    reason::Reason,
    shown_url::without_secrets,
};
use windlass_provider::http;

const MAX_REDIRECTS: usize = 5;
/// Time limit for a file, and for the first answer where nothing is stored yet.
const LIMIT: Duration = Duration::from_secs(5);
/// Time that a server may take to connect and begin its answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Time for which a fetched text counts as new.
const FRESH: Duration = Duration::from_secs(600);

/// URLs that were requested, and those that are being requested for the first time ever.
pub struct Asked {
    at: Mutex<HashMap<String, Instant>>,
    n_unknown: watch::Sender<usize>,
    /// Requests under way, which end with this value.
    tasks: Mutex<JoinSet<()>>,
}

impl Default for Asked {
    fn default() -> Self {
        Self { at: Mutex::default(), n_unknown: watch::Sender::new(0), tasks: Mutex::default() }
    }
}

impl Asked {
    /// Starts a task that asks a URL, unless it was asked just now; never waits. The task drops its argument as soon as
    /// something is known of the URL.
    pub fn begin<F>(&self, url: &str, ask: impl FnOnce(First) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        {
            let mut at = lock(&self.at);
            if at.get(url).is_some_and(|at| at.elapsed() < FRESH) {
                return;
            }
            at.insert(url.to_owned(), Instant::now());
        }
        self.n_unknown.send_modify(|n_unknown| *n_unknown += 1);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(ask(First(self.n_unknown.clone())));
    }

    /// Waits until something is known of every URL, now or from an earlier process; not long.
    pub async fn settled(&self) {
        let mut n_unknown = self.n_unknown.subscribe();
        // The sender is our own.
        let _ = timeout(LIMIT, n_unknown.wait_for(|n_unknown| *n_unknown == 0)).await;
    }
}

/// Counts a URL as unknown while it lives.
pub struct First(watch::Sender<usize>);

impl Drop for First {
    fn drop(&mut self) {
        self.0.send_modify(|n_unknown| *n_unknown = n_unknown.saturating_sub(1));
    }
}

/// Says that nothing came within a time limit.
pub fn late(limit: Duration) -> Reason {
    format!("there was no answer within {} s", limit.as_secs())
}

/// Says that a copy was not written.
pub fn not_kept(error: io::Error) -> Reason {
    format!("it cannot be kept ({error})")
}

pub fn parsed(url: &str) -> Result<Url, Reason> {
    Url::parse(url).map_err(|error| format!("it is not a URL ({error})"))
}

/// Returns the URL of a path below another URL.
pub fn below(base: &Url, path: &[&str]) -> Result<Url, Reason> {
    let mut url = base.clone();
    url.path_segments_mut().map_err(|()| "it is not a URL with a path")?.pop_if_empty().extend(path);
    Ok(url)
}

/// Awaits a fetch for at most [`LIMIT`].
pub async fn limited<T>(fetching: impl Future<Output = Result<T, Reason>>) -> Result<T, Reason> {
    timeout(LIMIT, fetching).await.unwrap_or_else(|_| Err(late(LIMIT)))
}

/// Returns the bytes behind a URL.
pub async fn get(client: &http::Client, url: Url, max_bytes: usize) -> Result<Vec<u8>, Reason> {
    fetch(client, url, None, max_bytes, ANSWER_LIMIT).await
}

pub fn utf8(bytes: Vec<u8>) -> Result<String, Reason> {
    String::from_utf8(bytes).map_err(|_| "it is not text in UTF-8".to_owned())
}

/// Returns the bytes behind a URL. With headers, which may hold a key, redirects are not followed.
pub async fn fetch(
    client: &http::Client,
    url: Url,
    headers: Option<&[(String, String)]>,
    max_bytes: usize,
    answer_limit: Duration,
) -> Result<Vec<u8>, Reason> {
    // Reads the system's certificates when it is the first.
    let named = client;
    let mut client = client.clone();
    let mut url = checked(url)?;
    if client.is_foreign() {
        check_literal(&url)?;
    }
    for _ in 0..=MAX_REDIRECTS {
        let asked = client.clone();
        let built = blocking(move || asked.reqwest()).await.map_err(|error| error.to_string())?;
        let mut request = built.get(url.clone());
        for (name, value) in headers.into_iter().flatten() {
            request = request.header(name, value);
        }
        let host = url.host_str().unwrap_or("the server");
        let silent = |_| format!("{host} does not answer within {} s", answer_limit.as_secs());
        let mut response =
            timeout(answer_limit, request.send()).await.map_err(silent)?.map_err(http::causes)?;
        let status = response.status();
        if status.is_redirection()
            && headers.is_none()
            && let Some(target) = response.headers().get(LOCATION).and_then(|it| it.to_str().ok())
        {
            let next =
                checked(url.join(target).map_err(|error| format!("it redirects to no URL ({error})"))?)?;
            if url.origin() != next.origin() {
                client = elsewhere(named, &url, &next)?;
            }
            url = next;
            continue;
        }
        if !status.is_success() {
            return Err(format!("the server answered {}", status.as_u16()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(http::causes)? {
            if bytes.len() + chunk.len() > max_bytes {
                return Err(format!("it is larger than {} KiB", max_bytes / 1024));
            }
            bytes.extend_from_slice(&chunk);
        }
        return Ok(bytes);
    }
    Err(format!("it redirects more than {MAX_REDIRECTS} times"))
}

/// Returns the client for a page of the user's own that has moved to another origin: that one is chosen by a server, so
/// it has to be public. An address that only the project names does not move.
fn elsewhere(named: &http::Client, url: &Url, next: &Url) -> Result<http::Client, Reason> {
    let shown = without_secrets(next);
    if named.is_foreign() {
        return Err(format!("it redirects to {shown}, another origin; name that address if you mean it"));
    }
    if url.scheme() == "https" && next.scheme() == "http" {
        return Err("it redirects from https to http".to_owned());
    }
    if is_loopback(next) {
        return Err(format!(
            "it redirects to {shown}, which is this machine; name that address if you mean it"
        ));
    }
    check_literal(next)?;
    Ok(named.for_address(true))
}

fn checked(url: Url) -> Result<Url, Reason> {
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!("only http and https are fetched, not {other}")),
    }
}
