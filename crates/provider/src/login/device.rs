//! Logins by a code that the user types into a page, on any machine.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    endpoint::{Answer, Endpoint, LoginError},
    rows::Encoding,
};

/// A page to open, and the code to type there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub url: String,
    pub code: Option<String>,
}

/// Tells the user which page to open.
pub type Show<'a> = &'a (dyn Fn(&Page) + Send + Sync);

/// Time between two questions if the authority names none.
const INTERVAL_S: f64 = 5.0;

/// Time that is waited longer than was asked, at most: clocks differ.
const MARGIN: Duration = Duration::from_secs(3);

/// Time by which an authority's `slow_down` lengthens the waits (RFC 8628 §3.5).
const SLOWER: Duration = Duration::from_secs(5);

/// Time that a code holds if the authority names none.
const LIFE_S: f64 = 900.0;

/// Logs in by RFC 8628.
pub async fn log_in(
    endpoint: &Endpoint<'_>,
    start: &str,
    extra: &[(&str, &str)],
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let encoding = endpoint.issuer.encoding;
    let client_id = endpoint.client_id();
    let begin = [&[("client_id", client_id), ("scope", endpoint.issuer.scope)], extra].concat();
    let begun = endpoint.post(start, encoding, &begin).await?;
    let (Some(device_code), Some(user_code)) = (begun.text("device_code"), begun.text("user_code")) else {
        return Err(LoginError::Failed(endpoint.reason(&begun, &begin)));
    };
    let page = begun.text("verification_uri_complete").or_else(|| begun.text("verification_uri"));
    let url = page.ok_or_else(|| LoginError::Failed("the answer names no page to open".to_owned()))?;
    show(&Page { url: url.to_owned(), code: Some(user_code.to_owned()) });
    let poll = [
        ("client_id", client_id),
        ("device_code", device_code),
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
    ];
    let mut waits = Waits::new(&begun);
    loop {
        waits.wait().await?;
        let answer = match endpoint.post(endpoint.issuer.token_url, encoding, &poll).await {
            Ok(answer) => answer,
            // The code is still good.
            Err(LoginError::Unreachable(_)) => continue,
            Err(error) => return Err(error),
        };
        if answer.is_success() {
            return endpoint.entry(&answer, None);
        }
        match answer.text("error") {
            Some("authorization_pending") => {}
            Some("slow_down") => waits.slow_down(),
            Some("expired_token") => return Err(expired()),
            Some("access_denied") => {
                return Err(LoginError::Refused("the login was declined on the page".to_owned()));
            }
            Some(_) | None => return Err(LoginError::Failed(endpoint.reason(&answer, &poll))),
        }
    }
}

/// The addresses of OpenAI's flow.
pub struct Addresses<'a> {
    pub start: &'a str,
    pub poll: &'a str,
    pub page: &'a str,
    pub redirect: &'a str,
}

/// Logs in by OpenAI's own flow.
pub async fn log_in_by_code(
    endpoint: &Endpoint<'_>,
    addresses: &Addresses<'_>,
    show: Show<'_>,
) -> Result<AuthEntry, LoginError> {
    let client_id = endpoint.client_id();
    let begin = [("client_id", client_id)];
    let begun = endpoint.post(addresses.start, Encoding::Json, &begin).await?;
    let (Some(device), Some(user_code)) = (begun.text("device_auth_id"), begun.text("user_code")) else {
        return Err(LoginError::Failed(endpoint.reason(&begun, &begin)));
    };
    show(&Page { url: endpoint.address(addresses.page)?.into(), code: Some(user_code.to_owned()) });
    let poll = [("device_auth_id", device), ("user_code", user_code)];
    let waits = Waits::new(&begun);
    let granted = loop {
        waits.wait().await?;
        match endpoint.post(addresses.poll, Encoding::Json, &poll).await {
            Ok(answer) if answer.is_success() => break answer,
            Ok(Answer { status: 403 | 404, .. }) | Err(LoginError::Unreachable(_)) => {}
            Ok(answer) => return Err(LoginError::Failed(endpoint.reason(&answer, &poll))),
            Err(error) => return Err(error),
        }
    };
    let (Some(code), Some(verifier)) = (granted.text("authorization_code"), granted.text("code_verifier"))
    else {
        return Err(LoginError::Failed(endpoint.reason(&granted, &poll)));
    };
    endpoint.exchange(code, verifier, addresses.redirect).await
}

/// The waits between two questions, until the code expires.
struct Waits {
    interval: Duration,
    end: Instant,
}

impl Waits {
    fn new(begun: &Answer) -> Self {
        let seconds = |name: &str, default: f64| begun.number(name).unwrap_or(default).clamp(0.0, 3600.0);
        let interval = Duration::from_secs_f64(seconds("interval", INTERVAL_S));
        let life = Duration::from_secs_f64(seconds("expires_in", LIFE_S));
        Self { interval: interval + interval.min(MARGIN), end: Instant::now() + life }
    }

    async fn wait(&self) -> Result<(), LoginError> {
        if Instant::now() + self.interval > self.end {
            return Err(expired());
        }
        sleep(self.interval).await;
        Ok(())
    }

    fn slow_down(&mut self) {
        self.interval += SLOWER;
    }
}

fn expired() -> LoginError {
    LoginError::Failed("the code expired before it was typed; begin again".to_owned())
}
