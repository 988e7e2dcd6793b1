//! Tokens for the models that are given in exchange for other credentials, and hold for a while.

use std::time::Duration;

use reqwest::{
    Client, Response,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_base::{cause, clock, json_number};

use crate::{Exchange, ProviderError, Secret};

mod azure;
mod google;
#[cfg(test)]
mod tests;

/// Time that the exchange may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum bytes of an answer.
const MAX_ANSWER: usize = 64 << 10;

/// Time before its end at which a token is no longer used.
const EARLY_MS: i64 = 60_000;

/// Time that a token is used if the answer names no end.
const LIFE_MS: i64 = 10 * 60_000;

/// A token of the gateway.
#[derive(Debug, Clone)]
pub(crate) struct Granted {
    pub token: Secret,
    /// Headers that go with it.
    pub headers: Vec<(String, String)>,
    until_ms: i64,
}

impl Granted {
    /// Makes a token without headers; `ends_ms` is the end that its issuer names.
    fn plain(token: String, ends_ms: Option<i64>) -> Granted {
        let until_ms = ends_ms.map_or_else(|| clock::now_ms() + LIFE_MS, |ends| ends - EARLY_MS);
        Granted { token: Secret(token), headers: Vec::new(), until_ms }
    }

    pub fn is_good(&self) -> bool {
        clock::now_ms() < self.until_ms
    }
}

#[derive(Deserialize)]
struct Answer {
    token: String,
    #[serde(default)]
    headers: Map<String, Value>,
    /// Seconds since the epoch.
    #[serde(default, deserialize_with = "json_number::deserialize")]
    expires_at: Option<f64>,
}

/// Gets a token.
pub(super) async fn exchange(
    client: &Client,
    way: &Exchange,
    secret: &str,
) -> Result<Granted, ProviderError> {
    match way {
        Exchange::Gitlab(url) => of_gitlab(client, url, secret).await,
        Exchange::Azure { program, scope } => azure::token(program, scope).await,
        Exchange::Google { file: Some(file), .. } => google::of_file(client, file).await,
        Exchange::Google { file: None, server } => google::of_machine(server).await,
    }
}

/// Exchanges a user's token for one that GitLab's gateway to the models takes (facts: provider requests §4.3).
async fn of_gitlab(client: &Client, url: &str, secret: &str) -> Result<Granted, ProviderError> {
    const BODY: &str = r#"{"feature_flags":{"DuoAgentPlatformNext":true,"duo_agent_platform_agentic_chat":true,"duo_agent_platform":true}}"#;
    let broken = |reason: String| ProviderError::Transport {
        message: format!("the token for the models was not given ({reason})"),
    };
    let request = client.post(url).timeout(TIMEOUT).bearer_auth(secret).body(BODY);
    let request = request.header(CONTENT_TYPE, "application/json").header(ACCEPT, "application/json");
    let mut response =
        request.send().await.map_err(|error| broken(cause::innermost(&error.without_url())))?;
    let status = response.status().as_u16();
    if !response.status().is_success() {
        let message = format!("no token for the models was given (HTTP {status})");
        return Err(match status {
            401 | 403 => ProviderError::Auth { message },
            500.. => ProviderError::Overloaded { message, status: Some(status), after: None },
            _ => ProviderError::Api { message, status: Some(status), body: None },
        });
    }
    let body = body(&mut response).await.map_err(broken)?;
    let Answer { token, headers, expires_at } =
        serde_json::from_slice(&body).map_err(|_| broken("the answer holds none".to_owned()))?;
    let now_ms = clock::now_ms();
    let until_ms = expires_at.map_or(now_ms.saturating_add(LIFE_MS), |s| (s * 1000.0) as i64 - EARLY_MS);
    // The headers repeat the token under another name.
    let is_own = |name: &str| ["authorization", "x-api-key"].iter().any(|own| name.eq_ignore_ascii_case(own));
    let headers = headers.into_iter().filter(|(name, _)| !is_own(name));
    let headers = headers.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect();
    Ok(Granted { token: Secret(token), headers, until_ms })
}

/// Reads an answer of bounded length.
async fn body(response: &mut Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let read = |error: reqwest::Error| cause::innermost(&error.without_url());
    while let Some(chunk) = response.chunk().await.map_err(read)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER {
            return Err("the answer is too large".to_owned());
        }
    }
    Ok(body)
}
