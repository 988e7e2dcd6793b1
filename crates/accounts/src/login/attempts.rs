//! Logins that were begun and not completed: each is known for ten minutes, to one browser, and used once.

use std::{
    collections::VecDeque,
    sync::Mutex,
    time::{Duration, Instant},
};

use openidconnect::{CsrfToken, Nonce, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl};
use subtle::ConstantTimeEq;
use windlass_base::lock::lock;

use super::{clock::Clock, error::LoginError};

/// Maximum number of attempts; the oldest gives way.
pub(super) const MAX_ATTEMPTS: usize = 1_024;
/// Time within which an attempt has to be completed.
const VALID: Duration = Duration::from_secs(10 * 60);
/// Random bytes of a state, a nonce and a browser's key.
const N_RANDOM: u32 = 32;

/// The attempts of all providers.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    clock: Clock,
    /// The oldest is first.
    open: Mutex<VecDeque<Attempt>>,
}

/// An attempt. All secrets are hidden in its `Debug` form.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The id of the provider that the browser was sent to.
    pub(super) provider: String,
    pub(super) redirect_uri: RedirectUrl,
    pub(super) nonce: Nonce,
    pub(super) verifier: PkceCodeVerifier,
    state: CsrfToken,
    browser_key: CsrfToken,
    began: Instant,
}

/// The parts of an attempt that go to the browser.
pub(super) struct Sent {
    pub(super) state: CsrfToken,
    pub(super) nonce: Nonce,
    pub(super) challenge: PkceCodeChallenge,
    pub(super) browser_key: String,
}

impl Attempts {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, open: Mutex::default() }
    }

    /// Notes a new attempt.
    pub(super) fn begin(&self, provider: &str, redirect_uri: RedirectUrl) -> Sent {
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let state = CsrfToken::new_random_len(N_RANDOM);
        let nonce = Nonce::new_random_len(N_RANDOM);
        let browser_key = CsrfToken::new_random_len(N_RANDOM);
        let attempt = Attempt {
            provider: provider.to_owned(),
            redirect_uri,
            nonce: nonce.clone(),
            verifier,
            state: state.clone(),
            browser_key: browser_key.clone(),
            began: self.clock.instant(),
        };
        let mut open = lock(&self.open);
        while open.len() >= MAX_ATTEMPTS {
            open.pop_front();
        }
        open.push_back(attempt);
        Sent { state, nonce, challenge, browser_key: browser_key.into_secret() }
    }

    /// Takes out the attempt that an answer belongs to. It is used up even if the answer is refused, so a stolen answer
    /// can be tried once.
    ///
    /// `id` and `name` are those of the provider at whose address the answer arrived.
    pub(super) fn take(
        &self,
        (id, name): (&str, &str),
        state: Option<&str>,
        browser_key: Option<&str>,
    ) -> Result<Attempt, LoginError> {
        let unknown = || LoginError::UnknownAttempt { provider: name.to_owned() };
        let state = state.ok_or_else(unknown)?;
        let now = self.clock.instant();
        let attempt = {
            let mut open = lock(&self.open);
            open.retain(|attempt| now.duration_since(attempt.began) < VALID);
            let place = open.iter().position(|attempt| is_same(attempt.state.secret(), state));
            place.and_then(|place| open.remove(place)).ok_or_else(unknown)?
        };
        if attempt.provider != id {
            return Err(LoginError::OtherProvider { provider: name.to_owned() });
        }
        if !browser_key.is_some_and(|key| is_same(attempt.browser_key.secret(), key)) {
            return Err(LoginError::OtherBrowser { provider: name.to_owned() });
        }
        Ok(attempt)
    }
}

fn is_same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}
