//! GitLab's exchange of a user's token for one that its gateway to the models takes (facts: provider requests §4.3).

use std::time::Duration;

use reqwest::{
    Client,
    header::{ACCEPT, CONTENT_TYPE},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    base::{cause, clock},
    provider::{ProviderError, Secret},
};

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
pub(super) struct Granted {
    pub token: Secret,
    /// Headers that go with it.
    pub headers: Vec<(String, String)>,
    until_ms: i64,
}

impl Granted {
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
    #[serde(default)]
    expires_at: Option<f64>,
}

/// Exchanges a token at this address.
pub(super) async fn exchange(client: &Client, url: &str, secret: &str) -> Result<Granted, ProviderError> {
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
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| broken(cause::innermost(&error.without_url())))?
    {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_ANSWER {
            return Err(broken("the answer is too large".to_owned()));
        }
    }
    let Answer { token, headers, expires_at } =
        serde_json::from_slice(&body).map_err(|_| broken("the answer holds none".to_owned()))?;
    let now_ms = clock::now_ms();
    let until_ms = expires_at.map_or(now_ms.saturating_add(LIFE_MS), |s| (s * 1000.0) as i64 - EARLY_MS);
    // The token itself stands among them under another name.
    let is_own = |name: &str| ["authorization", "x-api-key"].iter().any(|own| name.eq_ignore_ascii_case(own));
    let headers = headers.into_iter().filter(|(name, _)| !is_own(name));
    let headers = headers.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect();
    Ok(Granted { token: Secret(token), headers, until_ms })
}
