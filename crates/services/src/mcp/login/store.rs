//! Keeps the tokens of remote servers in `mcp-auth.json`, in OpenCode's form (facts: OpenCode §8).

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use async_trait::async_trait;
use rmcp::transport::{
    AuthError,
    auth::{CredentialRefreshGuard, CredentialStore, OAuthTokenResponse, StoredCredentials},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};
use windlass_base::{blocking::blocking, clock, credential_file, json_number};
use windlass_core::config::paths::Paths;

/// Time after which the lock of another process's renewal is given up.
const LOCK_LIMIT: Duration = Duration::from_secs(60);
/// Time between two looks at it; files have no channel for it.
const LOCK_LOOK: Duration = Duration::from_millis(50);

/// Bytes of the scopes that calls want beside those of the login.
const MAX_WANTED: usize = 2048;

/// The files of logins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginFiles {
    /// Ours, which is written.
    pub own: PathBuf,
    /// OpenCode's, which is only read.
    pub opencodes: PathBuf,
}

impl LoginFiles {
    pub fn new(paths: &Paths) -> Self {
        Self { own: paths.mcp_auth(), opencodes: paths.opencode_mcp_auth() }
    }
}

/// The login of one server at one address.
#[derive(Debug, Clone)]
pub(in crate::mcp) struct Store {
    pub files: LoginFiles,
    pub server: String,
    pub url: String,
    /// The client that the configuration names, where the file names none.
    pub configured: Option<(String, Option<String>)>,
    /// The secret of the client that logs in, to be kept with its id.
    pub client_secret: Option<String>,
}

/// An entry of the file; fields of others stay.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Tokens>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_info: Option<ClientInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// Scopes that a call has wanted since the login.
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted_scope: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    /// Seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "json_number::deserialize")]
    expires_at: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientInfo {
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Store {
    /// Returns the entry of this server at this address: ours, else OpenCode's. Does blocking reads.
    fn read(&self) -> io::Result<Option<Entry>> {
        let mut found = None;
        for file in [&self.files.own, &self.files.opencodes] {
            let entries = match credential_file::read(file) {
                Ok(Some(entries)) => entries,
                Ok(None) => {
                    tracing::warn!(file = %file.display(), "a file of logins is not JSON, and counts as empty");
                    Map::new()
                }
                Err(error) if *file == self.files.opencodes => {
                    tracing::warn!(%error, "OpenCode's logins are not read");
                    Map::new()
                }
                Err(error) => return Err(error),
            };
            match self.entry_of(&entries) {
                Some(entry) if entry.tokens.is_some() => return Ok(Some(entry)),
                // One without a token names our client, and hides no login.
                entry => found = found.or(entry),
            }
        }
        Ok(found)
    }

    /// Returns true if there is a token. Does blocking reads.
    pub fn has_token(&self) -> io::Result<bool> {
        Ok(self.read()?.is_some_and(|entry| entry.tokens.is_some()))
    }

    /// Returns the scopes that calls have wanted, beside those that the login has. Does blocking reads.
    pub fn wanted_scopes(&self) -> Vec<String> {
        let wanted = self.noted_scopes();
        if wanted.is_empty() {
            return Vec::new();
        }
        let tokens = self.read().ok().flatten().and_then(|entry| entry.tokens);
        let granted = tokens.and_then(|tokens| tokens.scope).unwrap_or_default();
        granted.split_whitespace().chain(wanted.split_whitespace()).map(str::to_owned).collect()
    }

    /// Returns the scopes that [`Store::want_scopes`] has noted.
    fn noted_scopes(&self) -> String {
        let entries = credential_file::read(&self.files.own).ok().flatten().unwrap_or_default();
        self.entry_of(&entries).and_then(|entry| entry.wanted_scope).unwrap_or_default()
    }

    /// Notes scopes that a call wants, as many as an address can hold. Does blocking writes.
    pub fn want_scopes(&self, scope: &str) -> io::Result<()> {
        let wanted = self.noted_scopes();
        let mut all: Vec<&str> = wanted.split_whitespace().collect();
        let n_before = all.len();
        for scope in scope.split_whitespace() {
            let n_bytes: usize = all.iter().map(|it| it.len() + 1).sum();
            if !all.contains(&scope) && n_bytes + scope.len() <= MAX_WANTED {
                all.push(scope);
            }
        }
        if all.len() == n_before {
            return Ok(());
        }
        let all = all.join(" ");
        // The tokens of an OpenCode that goes on renewing them are not taken over.
        self.change_based_on(&Map::new(), |entry| entry.wanted_scope = Some(all))
    }

    /// Forgets the scopes that calls have wanted. Does blocking writes.
    pub fn forget_wanted_scopes(&self) -> io::Result<()> {
        if !self.noted_scopes().is_empty() {
            self.change(|entry| entry.wanted_scope = None)?;
        }
        Ok(())
    }

    /// Notes the authority that a program's secret goes to; returns the one that is known, where that is another. Does
    /// blocking writes.
    pub fn pin_issuer(&self, issuer: &str) -> io::Result<Option<String>> {
        let entries = credential_file::read(&self.files.own)?.unwrap_or_default();
        match self.entry_of(&entries).and_then(|entry| entry.issuer) {
            Some(known) if known == issuer => Ok(None),
            Some(known) => Ok(Some(known)),
            None => {
                let issuer = issuer.to_owned();
                self.change_based_on(&Map::new(), |entry| entry.issuer = Some(issuer)).map(|()| None)
            }
        }
    }

    /// Returns true if the authority of the tokens is known. Does blocking reads.
    pub fn has_issuer(&self) -> bool {
        self.read().ok().flatten().is_some_and(|entry| entry.issuer.is_some())
    }

    /// Returns the id and the secret of the client that has logged in. Does blocking reads.
    pub fn client(&self) -> Option<(String, Option<String>)> {
        match self.read().ok()??.client_info {
            Some(info) => Some((info.client_id, info.client_secret)),
            None => self.configured.clone(),
        }
    }

    /// Removes the login; returns false if there was none of ours. Does blocking writes.
    pub fn remove(&self) -> io::Result<bool> {
        if !self.files.own.exists() {
            return Ok(false);
        }
        credential_file::change(&self.files.own, |entries| entries.shift_remove(&self.server).is_some())
    }

    fn write(&self, credentials: &StoredCredentials) -> io::Result<()> {
        self.change(|entry| {
            entry.tokens = credentials.token_response.as_ref().and_then(|tokens| {
                let fields = serde_json::to_value(tokens).ok()?;
                let text = |name: &str| fields[name].as_str().map(str::to_owned);
                let received = credentials.token_received_at.and_then(|at| i64::try_from(at).ok());
                let received = received.unwrap_or_else(|| clock::now_ms() / 1000);
                Some(Tokens {
                    access_token: text("access_token")?,
                    refresh_token: text("refresh_token"),
                    expires_at: fields["expires_in"].as_f64().map(|life| received as f64 + life),
                    scope: text("scope").or_else(|| {
                        let scopes = &credentials.granted_scopes;
                        (!scopes.is_empty()).then(|| scopes.join(" "))
                    }),
                })
            });
            let before = entry.client_info.take().filter(|info| info.client_id == credentials.client_id);
            let mut info = before.unwrap_or_else(|| ClientInfo {
                client_id: credentials.client_id.clone(),
                client_secret: None,
                others: Map::new(),
            });
            info.client_secret = self.client_secret.clone().or(info.client_secret);
            entry.client_info = Some(info);
            entry.issuer.clone_from(&credentials.issuer);
        })
    }

    /// Drops the tokens, which are of no more use, and keeps the client.
    fn drop_tokens(&self) -> io::Result<()> {
        if self.read()?.is_none() {
            return Ok(());
        }
        self.change(|entry| entry.tokens = None)
    }

    /// Changes the entry of this server while no other process does.
    fn change(&self, edit: impl FnOnce(&mut Entry)) -> io::Result<()> {
        // One that cannot be read hides no login of ours.
        let theirs = credential_file::read(&self.files.opencodes).ok().flatten().unwrap_or_default();
        self.change_based_on(&theirs, edit)
    }

    /// Changes the entry of this server, which begins as the one of these others where there is none.
    fn change_based_on(&self, theirs: &Map<String, Value>, edit: impl FnOnce(&mut Entry)) -> io::Result<()> {
        credential_file::change(&self.files.own, |entries| {
            let before = self.entry_of(entries).or_else(|| self.entry_of(theirs));
            let mut entry = before.unwrap_or_default();
            edit(&mut entry);
            entry.server_url = Some(self.url.clone());
            let Ok(value) = serde_json::to_value(entry) else { return false };
            entries.insert(self.server.clone(), value);
            true
        })?;
        Ok(())
    }

    /// Reads the entry of this server, unless it is for another address: tokens are for the server that they were
    /// given for.
    fn entry_of(&self, entries: &Map<String, Value>) -> Option<Entry> {
        let entry = entries.get(&self.server).and_then(|entry| Entry::deserialize(entry).ok());
        entry.filter(|it| it.server_url.as_deref() == Some(self.url.as_str()))
    }

    fn credentials(&self, entry: Entry) -> Option<StoredCredentials> {
        let own = entry.client_info.map(|info| info.client_id);
        let client_id = own.or_else(|| self.configured.as_ref().map(|(id, _)| id.clone()))?;
        let now_s = clock::now_ms() / 1000;
        let scope = entry.tokens.as_ref().and_then(|tokens| tokens.scope.clone());
        let response = entry.tokens.map(|tokens| {
            let mut fields = json!({"access_token": tokens.access_token, "token_type": "bearer"});
            if let Some(refresh) = tokens.refresh_token {
                fields["refresh_token"] = refresh.into();
            }
            if let Some(expires) = tokens.expires_at {
                fields["expires_in"] = ((expires as i64) - now_s).max(0).into();
            }
            fields
        });
        let response = response.and_then(|fields| OAuthTokenResponse::deserialize(fields).ok());
        let scopes = scope.iter().flat_map(|scope| scope.split_whitespace()).map(str::to_owned).collect();
        let stored = StoredCredentials::new(client_id, response, scopes, u64::try_from(now_s).ok());
        Some(stored.with_issuer(entry.issuer))
    }
}

fn failed(error: io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        let store = self.clone();
        let read = move || Ok(store.read()?.and_then(|entry| store.credentials(entry)));
        blocking(read).await.map_err(failed)
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let store = self.clone();
        blocking(move || store.write(&credentials)).await.map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let store = self.clone();
        blocking(move || store.drop_tokens()).await.map_err(failed)
    }

    async fn on_refresh_token_rejected(&self, _: &StoredCredentials) -> Result<(), AuthError> {
        self.clear().await
    }

    /// Renewals of one server's token go one after another, also those of other processes.
    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let lock_file = lock_file(&self.files.own, &self.server);
        let file = blocking(move || credential_file::open_lock(&lock_file)).await.map_err(failed)?;
        let end = Instant::now() + LOCK_LIMIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(CredentialRefreshGuard::new(file))),
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < end => sleep(LOCK_LOOK).await,
                Err(error) => return Err(AuthError::CredentialStoreError(error.to_string())),
            }
        }
    }
}

fn lock_file(own: &Path, server: &str) -> PathBuf {
    let plain: String = server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    own.with_file_name(format!("mcp-login-{plain}.lock"))
}
