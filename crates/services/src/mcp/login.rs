//! Logins at remote servers by OAuth: begun with an address for the browser, completed by the code that it brings back.

use std::{sync::Arc, time::Duration};

use reqwest::Url;
use rmcp::transport::{
    AuthError, AuthorizationManager, AuthorizationSession,
    auth::{AuthClient, AuthorizationMetadata, AuthorizationRequest, CredentialStore, OAuthClientConfig},
};
use serde_json::{Map, Value};
use tokio::time::timeout;
use windlass_base::{
    blocking::blocking,
    browser_return::{BrowserReturn, NOBODY_CAME},
    cause,
    public_address::is_loopback,
    shown_url::without_secrets,
    text,
};
use windlass_protocol::opencode::config::{McpGrant, McpOauthClient};

use self::{authority::Authority, client_credentials::ClientCredentials, store::Store};
use super::{http::install_tls, streamable::BoundedClient};

mod authority;
mod client_credentials;
mod store;
mod token;

pub use self::store::LoginFiles;
pub(super) use self::token::{LoggedIn, renewals_ended};

/// The place that the browser comes back to unless the configuration names another one (facts: OpenCode §8).
const PORT: u16 = 19876;
const PATH: &str = "/mcp/oauth/callback";

/// Time for a server that wants a login to say which logins it knows.
const METADATA_LIMIT: Duration = Duration::from_secs(5);

/// The name under which servers list us.
const CLIENT_NAME: &str = "windlass";

/// Maximum bytes of others' own words that are shown.
const MAX_WORDS: usize = 300;

/// A login that failed. The words hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// The server knows no logins of this kind.
    #[error("MCP server {0} does not support OAuth")]
    Unsupported(String),
    /// The server takes known clients only.
    #[error("MCP server {server} registers no clients ({reason}); set `mcp.{server}.oauth.clientId`")]
    NeedsClientRegistration { server: String, reason: String },
    #[error("{0}")]
    Failed(String),
}

/// A remote server as far as logins depend on it.
#[derive(Debug, Clone)]
pub struct LoginPlace {
    pub server: String,
    pub url: String,
    pub client: McpOauthClient,
    pub files: LoginFiles,
    /// True if only the project names the server's address.
    pub is_foreign: bool,
}

/// Statements of a server on its logins.
struct Resolved {
    metadata: AuthorizationMetadata,
    /// False for the known places of a server of 2025-03-26, which states nothing.
    is_discovered: bool,
}

/// A login that waits for the browser.
pub struct Login {
    session: AuthorizationSession,
    back: BrowserReturn,
    state: String,
    store: Store,
}

impl LoginPlace {
    fn store(&self, client_secret: Option<String>) -> Store {
        let (files, server, url) = (self.files.clone(), self.server.clone(), self.url.clone());
        let configured = self.client.client_id.clone().map(|id| (id, self.client.client_secret.clone()));
        Store { files, server, url, configured, client_secret }
    }

    /// Returns true if a token is there, whether it still holds or not.
    pub async fn has_token(&self) -> Result<bool, LoginError> {
        let store = self.store(None);
        let unknown = |error| {
            LoginError::Failed(format!("the login at MCP server {} is not known: {error}", self.server))
        };
        blocking(move || store.has_token()).await.map_err(unknown)
    }

    /// Forgets the login; false if there was none of ours.
    pub async fn log_out(&self) -> std::io::Result<bool> {
        let store = self.store(None);
        // A renewal that is on its way would bring it back.
        let _guard = store.acquire_refresh_guard().await.map_err(std::io::Error::other)?;
        blocking(move || store.remove()).await
    }

    /// Says how the server answers without a token, and its statements on logins, a line for each.
    pub async fn probe(&self) -> Result<Vec<String>, LoginError> {
        let mut lines = vec![format!("address: {}", self.shown_url())];
        lines.push(format!("login: {}", if self.has_token().await? { "a token is kept" } else { "none" }));
        let authority = self.authority().await?;
        let manager = self.manager(authority.clone()).await?;
        match self.resolve(&authority, &manager).await {
            Ok(Some(Resolved { metadata, is_discovered: true })) => {
                let issuer = metadata.issuer.as_deref().unwrap_or("not named");
                let registers = metadata.registration_endpoint.as_deref().unwrap_or("known clients only");
                let said = [
                    ("issuer", issuer),
                    ("authorization", &metadata.authorization_endpoint),
                    ("tokens", &metadata.token_endpoint),
                    ("registration", registers),
                ];
                lines.extend(said.map(|(what, words)| format!("{what}: {}", shown(words))));
            }
            Ok(_) => lines.push("issuer: the server says nothing of logins".to_owned()),
            Err(error) => lines.push(format!("issuer: {error}")),
        }
        Ok(lines)
    }

    /// The address without the parts that may be a key.
    fn shown_url(&self) -> String {
        Url::parse(&self.url).map_or_else(|_| self.url.clone(), |url| without_secrets(&url))
    }

    /// Refuses an authority that is another than before, or is not spoken to in secret: a program's own secret goes there
    /// without a person seeing it.
    async fn check_authority(&self, metadata: &AuthorizationMetadata) -> Result<(), LoginError> {
        let endpoint = Url::parse(&metadata.token_endpoint).ok();
        let is_safe = |url: &Url| url.scheme() == "https" || is_loopback(url);
        if !endpoint.as_ref().is_some_and(is_safe) {
            return Err(self.failed(&AuthError::InternalError(format!(
                "tokens are given at {}, which is not https",
                shown(&metadata.token_endpoint)
            ))));
        }
        let issuer = metadata.issuer.clone().unwrap_or_else(|| metadata.token_endpoint.clone());
        let store = self.store(None);
        let known = blocking(move || store.pin_issuer(&issuer).map(|known| (known, issuer))).await;
        match known.map_err(|error| self.failed(&AuthError::InternalError(error.to_string())))? {
            (Some(known), issuer) => Err(self.failed(&AuthError::InternalError(format!(
                "the server names the authority {}, and it was {} before; `windlass mcp logout {}` lets the new one hold",
                shown(&issuer),
                shown(&known),
                self.server
            )))),
            (None, _) => Ok(()),
        }
    }

    /// Returns true if the client gets its tokens by itself.
    pub fn is_program(&self) -> bool {
        self.client.grant == Some(McpGrant::ClientCredentials)
    }

    /// Begins a login.
    pub async fn begin(&self) -> Result<Login, LoginError> {
        if self.is_program() {
            return Err(LoginError::Failed(format!(
                "MCP server {} needs no login by a person: `mcp.{0}.oauth.grant` has windlass log in as itself",
                self.server
            )));
        }
        let authority = self.authority().await?;
        let mut manager = self.manager(authority.clone()).await?;
        let Some(Resolved { metadata, .. }) = self.resolve(&authority, &manager).await? else {
            return Err(LoginError::Unsupported(self.server.clone()));
        };
        // An authority may take the address of a document that describes us for our id.
        let document = self.client.client_metadata_url.as_ref().filter(|_| takes_documents(&metadata));
        manager.set_metadata(metadata);
        let back = self.open_return().await?;
        let address = self.client.redirect_uri.clone().unwrap_or_else(|| back.address().to_owned());
        let scopes = self.scopes(&manager).await;
        let (id, secret) = match (&self.client.client_id, document) {
            (Some(id), _) => (id.clone(), self.client.client_secret.clone()),
            (None, Some(address)) => (address.clone(), None),
            (None, None) => self.register(&mut manager, &address, &scopes).await?,
        };
        manager.set_credential_store(self.store(secret.clone()));
        let mut request =
            AuthorizationRequest::new(address).with_preregistered_client(id).with_scopes(scopes);
        if let Some(secret) = secret {
            request = request.with_client_secret(secret);
        }
        let session = AuthorizationSession::new(manager, request).await;
        let session = session.map_err(|(_, error)| self.failed(&error))?;
        // The server names the page, and a browser opens more than pages of the web.
        let page = Url::parse(session.get_authorization_url()).ok();
        let page = page.filter(|page| ["https", "http"].contains(&page.scheme()));
        let state = page.and_then(|page| {
            let (_, state) = page.query_pairs().find(|(name, _)| name == "state")?;
            Some(state.into_owned())
        });
        let state = state
            .ok_or_else(|| LoginError::Failed(format!("MCP server {} has no login page", self.server)))?;
        Ok(Login { session, back, state, store: self.store(None) })
    }

    /// Finds the statements of the server on its logins, by way of its answer to a request without a token; `None` where it has
    /// none of this kind.
    async fn resolve(
        &self,
        authority: &Authority,
        manager: &AuthorizationManager,
    ) -> Result<Option<Resolved>, LoginError> {
        let server = self.address()?;
        let found = async {
            let challenge = authority.challenge(&server).await;
            (manager.resolve_metadata_from_challenge(challenge.header()).await, challenge)
        };
        let Ok((resolved, challenge)) = timeout(METADATA_LIMIT, found).await else {
            return Err(LoginError::Failed(format!(
                "MCP server {} said nothing of logins within {METADATA_LIMIT:?}; one of the older transport may need none",
                self.server
            )));
        };
        let resolved = resolved.map_err(|error| self.failed(&error))?;
        let is_discovered = resolved.source.is_discovered();
        // A server of 2025-03-26 that says nothing of metadata has its pages at known places.
        let is_there = is_discovered || challenge.is_of_known_places();
        Ok(is_there.then_some(Resolved { metadata: resolved.metadata, is_discovered }))
    }

    /// Returns the scopes to ask for: the configured ones, or those that the server names, beside those that a call has
    /// wanted since.
    async fn scopes(&self, manager: &AuthorizationManager) -> Vec<String> {
        let configured = self.client.scope.iter().flat_map(|scope| scope.split_whitespace());
        let mut scopes: Vec<String> = configured.map(str::to_owned).collect();
        if scopes.is_empty() {
            scopes = manager.select_initial_scopes(&[]).await;
        }
        let store = self.store(None);
        let wanted = blocking(move || store.wanted_scopes()).await;
        for scope in wanted {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        scopes
    }

    /// Has the server know us; returns our id and its secret.
    async fn register(
        &self,
        manager: &mut AuthorizationManager,
        address: &str,
        scopes: &[String],
    ) -> Result<(String, Option<String>), LoginError> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let registered = manager.register_client(CLIENT_NAME, address, &scopes).await;
        let registered = registered.map_err(|error| LoginError::NeedsClientRegistration {
            server: self.server.clone(),
            reason: words(&error),
        })?;
        Ok((registered.client_id, registered.client_secret))
    }

    async fn open_return(&self) -> Result<BrowserReturn, LoginError> {
        let named = self.client.redirect_uri.as_deref().and_then(|address| Url::parse(address).ok());
        let path = named.as_ref().map_or(PATH, Url::path);
        let port = self.client.callback_port.or(named.as_ref().and_then(Url::port_or_known_default));
        let host = named.as_ref().and_then(Url::host_str).unwrap_or("127.0.0.1");
        let opened = match BrowserReturn::open(host, port.unwrap_or(PORT), path).await {
            // A client that is registered now may come back to any port.
            Err(_)
                if port.is_none()
                    && self.client.client_id.is_none()
                    && self.client.client_metadata_url.is_none() =>
            {
                BrowserReturn::open(host, 0, path).await
            }
            opened => opened,
        };
        opened.map_err(|error| {
            LoginError::Failed(format!(
                "{error}; end the program that uses it, or set `mcp.{}.oauth.callbackPort`",
                self.server
            ))
        })
    }

    async fn authority(&self) -> Result<Arc<Authority>, LoginError> {
        let server = self.address()?;
        let is_foreign = self.is_foreign;
        // It reads the system's certificates.
        let made = blocking(move || {
            install_tls();
            Authority::new(&server, is_foreign)
        });
        let authority = made.await;
        authority
            .map(Arc::new)
            .map_err(|error| self.failed(&AuthError::InternalError(cause::innermost(&error))))
    }

    fn address(&self) -> Result<Url, LoginError> {
        Url::parse(&self.url).map_err(|error| self.failed(&AuthError::InternalError(error.to_string())))
    }

    async fn manager(&self, authority: Arc<Authority>) -> Result<AuthorizationManager, LoginError> {
        let manager = AuthorizationManager::new_with_oauth_http_client(self.address()?, authority).await;
        manager.map_err(|error| self.failed(&error))
    }

    /// Returns the way out where the server takes known clients only, and we are none.
    pub(super) async fn missing_client(&self) -> Option<String> {
        let store = self.store(None);
        if self.client.client_id.is_some() || blocking(move || store.client()).await.is_some() {
            return None;
        }
        let authority = self.authority().await.ok()?;
        let manager = self.manager(authority.clone()).await.ok()?;
        let Resolved { metadata, is_discovered } = self.resolve(&authority, &manager).await.ok()??;
        let has_document = self.client.client_metadata_url.is_some() && takes_documents(&metadata);
        let registers_nobody = is_discovered && metadata.registration_endpoint.is_none() && !has_document;
        let (server, reason) = (self.server.clone(), "it takes known clients only".to_owned());
        registers_nobody.then(|| LoginError::NeedsClientRegistration { server, reason }.to_string())
    }

    fn failed(&self, error: &AuthError) -> LoginError {
        // Its address may hold a key.
        let reason = words(error).replace(&self.url, &self.shown_url());
        LoginError::Failed(format!("the login at MCP server {} failed: {reason}", self.server))
    }

    /// Returns a client that sends the token of the login and renews it; `None` where there is no login.
    pub(super) async fn client(&self, http: BoundedClient) -> Result<Option<LoggedIn>, LoginError> {
        if !self.is_program() && !self.has_token().await? {
            return Ok(None);
        }
        let authority = self.authority().await?;
        let mut manager = self.manager(authority.clone()).await?;
        let resolved = self.resolve(&authority, &manager).await?;
        if self.is_program() {
            let resolved = resolved.filter(|it| it.is_discovered);
            let metadata = resolved.ok_or_else(|| LoginError::Unsupported(self.server.clone()))?.metadata;
            self.check_authority(&metadata).await?;
            manager.set_metadata(metadata.clone());
            let scopes = self.scopes(&manager).await;
            let resource = self.address()?.to_string();
            let own = ClientCredentials::new(authority, self.client.clone(), resource, metadata, scopes);
            own.token().await.map_err(|reason| self.failed(&AuthError::InternalError(reason)))?;
            return Ok(Some(LoggedIn::of_program(AuthClient::new(http, manager), self.store(None), own)));
        }
        let store = self.store(None);
        // Tokens go to the authority that has given them, and to no place that is only guessed.
        if !resolved.as_ref().is_some_and(|it| it.is_discovered) && blocking(move || store.has_issuer()).await
        {
            return Err(LoginError::Failed(format!(
                "MCP server {} does not say any more who gives its tokens; log in again with `windlass mcp auth {0}`",
                self.server
            )));
        }
        if let Some(resolved) = resolved {
            manager.set_metadata(resolved.metadata);
        }
        manager.set_credential_store(self.store(None));
        if !manager.initialize_from_store().await.map_err(|error| self.failed(&error))? {
            return Ok(None);
        }
        let store = self.store(None);
        if let Some((id, Some(secret))) = blocking(move || store.client()).await {
            let config = OAuthClientConfig::new(id, "http://localhost").with_client_secret(secret);
            manager.configure_client(config).map_err(|error| self.failed(&error))?;
        }
        Ok(Some(LoggedIn::new(AuthClient::new(http, manager), self.store(None))))
    }
}

impl Login {
    /// The page for the user's browser.
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// The mark by which the browser's return is known.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Waits for the browser; returns the fields that it brings, if it comes.
    pub async fn returned(&self) -> Option<Map<String, Value>> {
        self.back.wait(&self.state).await
    }

    /// Keeps the token that the fields of the browser lead to.
    pub async fn take(&self, brought: Option<Map<String, Value>>) -> Result<(), LoginError> {
        let brought = brought.ok_or_else(|| LoginError::Failed(NOBODY_CAME.to_owned()))?;
        let text = |name: &str| brought.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        match text("code") {
            Some(code) => self.exchange(code, text("iss")).await,
            None => {
                let reason = text("error_description")
                    .or(text("error"))
                    .unwrap_or("the browser came back without a code");
                Err(LoginError::Failed(format!(
                    "the login was not granted: {}",
                    shown(reason.trim_end_matches('.'))
                )))
            }
        }
    }

    /// Exchanges a code that came by another way.
    pub async fn complete(&self, code: &str) -> Result<(), LoginError> {
        self.exchange(code, None).await
    }

    async fn exchange(&self, code: &str, issuer: Option<&str>) -> Result<(), LoginError> {
        let not_granted =
            |error: &AuthError| LoginError::Failed(format!("the login was not granted: {}", words(error)));
        // A renewal of an older token would overwrite this one.
        let _guard = self.store.acquire_refresh_guard().await.map_err(|error| not_granted(&error))?;
        let exchanged = self.session.handle_callback_with_issuer(code, &self.state, issuer).await;
        exchanged.map_err(|error| not_granted(&error))?;
        // The scopes that calls wanted before were asked for now.
        let store = self.store.clone();
        blocking(move || store.forget_wanted_scopes())
            .await
            .map_err(|error| LoginError::Failed(error.to_string()))
    }
}

/// Returns true if an authority takes the address of a document for a client's id.
fn takes_documents(metadata: &AuthorizationMetadata) -> bool {
    metadata.additional_fields.get("client_id_metadata_document_supported") == Some(&Value::Bool(true))
}

/// Returns the innermost reason, on one line.
fn words(error: &AuthError) -> String {
    let innermost = cause::innermost(error);
    shown(&if innermost.is_empty() { error.to_string() } else { innermost })
}

/// A server's own words as they can be shown.
fn shown(theirs: &str) -> String {
    text::visible_line(text::head(theirs.trim(), MAX_WORDS)).into_owned()
}
