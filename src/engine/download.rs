//! Fetches what a configuration names by URL: bounded, by http or https alone, and never from https to http.

use reqwest::{Url, header::LOCATION};

use crate::provider::http;

const MAX_REDIRECTS: usize = 5;

/// The bytes behind a URL; else why there are none.
pub async fn get(client: &http::Client, url: Url, max_bytes: usize) -> Result<Vec<u8>, String> {
    // Reads the system's certificates when it is the first.
    let client = client.clone();
    let client = tokio::task::spawn_blocking(move || client.reqwest()).await;
    let client = client.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    let mut url = checked(url)?;
    for _ in 0..=MAX_REDIRECTS {
        let mut response = client.get(url.clone()).send().await.map_err(http::causes)?;
        let status = response.status();
        if status.is_redirection()
            && let Some(target) = response.headers().get(LOCATION).and_then(|it| it.to_str().ok())
        {
            let next = url.join(target).map_err(|error| format!("it redirects to no URL ({error})"))?;
            let next = checked(next)?;
            if url.scheme() == "https" && next.scheme() == "http" {
                return Err("it redirects from https to http".to_owned());
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

fn checked(url: Url) -> Result<Url, String> {
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(format!("only http and https are fetched, not {other}")),
    }
}
