//! Tokens of logins for requests: renewed before they expire, by one process at a time, and stored before they are
//! used.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
    time::Duration,
};

use reqwest::Client;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use windlass_base::{blocking::blocking, clock, credential_file};
use windlass_core::config::{Environment, paths::Paths};
use windlass_protocol::opencode::config::AuthEntry;

use super::{
    endpoint::{Endpoint, LoginError},
    rows::{self, Grant, Issuer},
};
use crate::{ProviderError, Secret, auth};

/// Time before its end at which a token is renewed.
const EARLY_MS: i64 = 5 * 60 * 1000;

/// Time between two looks at a lock of another process; files have no channel for it.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// Time after which a lock is given up: longer than its holder may take.
const LOCK_LIMIT: Duration = Duration::from_secs(60);

/// Time that a process which ends waits for its renewals: a token that came and was not stored is lost.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Renewals under way, which go on when the turn that needs them is cancelled.
pub(crate) static RENEWALS: LazyLock<TaskTracker> = LazyLock::new(TaskTracker::new);

/// The tokens in the files of credentials.
#[derive(Debug, Clone)]
pub struct Tokens {
    environment: Environment,
    paths: Paths,
}

/// A token to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub token: Secret,
    /// The ChatGPT account that it is for.
    pub account: Option<String>,
}

/// A login as a file has it.
#[derive(Clone)]
struct Stored {
    file: PathBuf,
    refresh: String,
    access: String,
    expires_ms: i64,
    account: Option<String>,
    instance: Option<String>,
    /// Fields of others, which stay.
    extra: Map<String, Value>,
}

impl Tokens {
    pub fn new(environment: Environment, paths: Paths) -> Self {
        Self { environment, paths }
    }

    /// Returns a provider's token; renews it if it is about to expire, or is the one that was refused.
    pub async fn access(
        &self,
        client: &Client,
        provider: &str,
        refused: Option<&Secret>,
    ) -> Result<Access, ProviderError> {
        let issuer = rows::issuer(provider).ok_or_else(gone)?;
        let stored = self.stored(provider).await;
        let now_ms = clock::now_ms();
        if let Some(good) = stored.iter().find(|stored| is_good(stored, issuer, refused, now_ms)) {
            return Ok(access(good));
        }
        if stored.is_empty() {
            return Err(gone());
        }
        let (tokens, client, refused) = (self.clone(), client.clone(), refused.cloned());
        // The user may cancel the turn, but a token that the authority has replaced must not be lost.
        let renewed = RENEWALS.spawn(async move { tokens.renew(&client, issuer, refused.as_ref()).await });
        match renewed.await {
            Ok(renewed) => renewed,
            Err(_) => Err(ProviderError::Transport { message: "the login was not renewed".to_owned() }),
        }
    }

    async fn stored(&self, provider: &str) -> Vec<Stored> {
        let (environment, paths, provider) =
            (self.environment.clone(), self.paths.clone(), provider.to_owned());
        blocking(move || {
            let (stored, _) = auth::stored_credentials(&paths, &environment);
            stored.into_iter().filter(|(_, id, _)| *id == provider).filter_map(Stored::of).collect()
        })
        .await
    }

    /// Renews a provider's token unless another process just has.
    async fn renew(
        &self,
        client: &Client,
        issuer: &'static Issuer,
        refused: Option<&Secret>,
    ) -> Result<Access, ProviderError> {
        let provider = issuer.provider;
        let _lock = lock(&self.paths, provider).await?;
        let stored = self.stored(provider).await;
        let now_ms = clock::now_ms();
        if let Some(good) = stored.iter().find(|stored| is_good(stored, issuer, refused, now_ms)) {
            return Ok(access(good));
        }
        let mut failure = None;
        for old in stored.iter().filter(|stored| !stored.refresh.is_empty()) {
            match self.renew_one(client, issuer, old).await {
                Ok(renewed) => return Ok(renewed),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let is_valid = |stored: &&Stored| {
            stored.expires_ms > now_ms && refused.is_none_or(|refused| refused.0 != stored.access)
        };
        match (failure, stored.iter().find(is_valid)) {
            // It was renewed early.
            (Some(LoginError::Unreachable(_)), Some(valid)) => Ok(access(valid)),
            (Some(LoginError::Unreachable(reason)), None) => Err(ProviderError::Transport {
                message: format!("the login has expired and cannot be renewed now: {reason}"),
            }),
            (Some(LoginError::Refused(reason) | LoginError::Failed(reason)), _) => {
                Err(expired(&format!(" and cannot be renewed ({reason})")))
            }
            (None, _) => Err(expired("")),
        }
    }

    async fn renew_one(
        &self,
        client: &Client,
        issuer: &'static Issuer,
        old: &Stored,
    ) -> Result<Access, LoginError> {
        let endpoint = Endpoint::new(client, &self.environment, issuer, old.instance.as_deref())?;
        let mut entry = endpoint.renew(&old.refresh).await?;
        if let AuthEntry::Oauth { account_id, enterprise_url, extra, .. } = &mut entry {
            *extra = old.extra.clone();
            *account_id = account_id.take().or(old.account.clone());
            *enterprise_url = old.instance.clone();
        }
        let (paths, provider) = (self.paths.clone(), issuer.provider);
        let (file, refresh, new) = (old.file.clone(), old.refresh.clone(), entry.clone());
        let stored = blocking(move || auth::renew(&paths, provider, &file, &refresh, &new)).await;
        match stored {
            Ok(true) => {}
            Ok(false) => return Err(LoginError::Failed("the user logged out".to_owned())),
            // The session goes on; the next process has to log in.
            Err(error) => tracing::error!("a renewed login was not stored: {error}"),
        }
        let renewed = Stored::of((PathBuf::new(), provider.to_owned(), entry));
        renewed.as_ref().map(access).ok_or_else(|| LoginError::Failed("the answer holds no token".to_owned()))
    }
}

/// Waits for renewals that are under way, at most a few seconds.
pub async fn finish_renewals() {
    if !RENEWALS.is_empty() {
        RENEWALS.close();
        let _ = tokio::time::timeout(END_LIMIT, RENEWALS.wait()).await;
    }
}

impl Stored {
    fn of((file, _, entry): auth::StoredCredential) -> Option<Self> {
        match entry {
            AuthEntry::Oauth { refresh, access, expires, account_id, enterprise_url, extra } => Some(Self {
                file,
                refresh,
                access,
                expires_ms: expires,
                account: account_id,
                instance: enterprise_url,
                extra,
            }),
            AuthEntry::Api { .. } | AuthEntry::Wellknown { .. } => None,
        }
    }
}

fn is_good(stored: &Stored, issuer: &Issuer, refused: Option<&Secret>, now_ms: i64) -> bool {
    let is_fresh = match issuer.grant {
        Grant::Renewed => stored.expires_ms > now_ms.saturating_add(EARLY_MS),
        Grant::Lasting | Grant::Key(_) => true,
    };
    is_fresh && !stored.access.is_empty() && refused.is_none_or(|refused| refused.0 != stored.access)
}

fn access(stored: &Stored) -> Access {
    Access { token: Secret(stored.access.clone()), account: stored.account.clone() }
}

fn gone() -> ProviderError {
    ProviderError::Auth { message: "there is no login any more".to_owned() }
}

fn expired(why: &str) -> ProviderError {
    ProviderError::Auth { message: format!("the login has expired{why}") }
}

/// Waits until no other renewal of the provider is under way, in this process or another.
async fn lock(paths: &Paths, provider: &str) -> Result<std::fs::File, ProviderError> {
    let failed = |reason: String| ProviderError::Transport {
        message: format!("the login is renewed by one process at a time, and {reason}"),
    };
    let file = paths.data.join(format!("login-{provider}.lock"));
    let path = file.clone();
    let opened = blocking(move || credential_file::open_lock(&path)).await;
    // Waiting mends nothing there.
    let unusable = |error: std::io::Error| expired(&format!(" and cannot be renewed ({error})"));
    let opened = opened.map_err(unusable)?;
    let end = Instant::now() + LOCK_LIMIT;
    loop {
        match opened.try_lock() {
            Ok(()) => return Ok(opened),
            Err(std::fs::TryLockError::WouldBlock) if Instant::now() < end => sleep(LOCK_LOOK).await,
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(failed(format!("another one holds {} for too long", shown(&file))));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(unusable(error)),
        }
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
