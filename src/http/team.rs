//! The people of a server with accounts: the ways in, and the account that makes a request.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    extract::Query,
    http::{HeaderMap, HeaderName, StatusCode, Uri, header, request::Parts},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use windlass_accounts::{
    Account, Accounts, AccountsError, AuditEntry, Credential, Kind, NewCredential, Role, Scope, TOKEN_START,
    Visitor, as_visitor,
    login::{
        Logins,
        error::LoginError,
        gateway::{Gateway, GatewayVerifier},
        http::Http,
        provider::{Identity, Kind as ProviderKind, Provider},
    },
};
use windlass_base::{blocking::blocking, clock::now_ms, path::real};
use windlass_protocol::opencode::{
    id::SessionId,
    settings::{AccountsSettings, LoginProvider},
};

use super::{devices::Devices, drawn::Drawn, watching::Watching};

/// The time in which a browser stays logged in without a visit.
const COOKIE_LIFETIME: i64 = 14 * 24 * 3_600_000;
/// The age at which a cookie is replaced.
const COOKIE_AGE: i64 = 3_600_000;
/// The time in which the old one still holds, for requests that are on their way.
const OVERLAP: i64 = 60_000;
/// GitHub's own addresses.
const GITHUB: (&str, &str) = ("https://github.com", "https://api.github.com");

/// See the module's comment.
#[derive(Debug)]
pub struct Team {
    pub accounts: Accounts,
    pub logins: Logins,
    pub devices: Devices,
    pub drawn: Drawn,
    pub watching: Watching,
    /// The server's address as browsers have it.
    pub url: String,
    settings: AccountsSettings,
    gateway: Option<(HeaderName, GatewayVerifier)>,
}

/// The account behind a request.
#[derive(Debug, Clone)]
pub struct Caller {
    pub visitor: Visitor,
    /// The browser's secret, where it showed one.
    pub cookie: Option<(String, Credential)>,
    /// True if it showed a token, which no page elsewhere can make a browser send.
    pub is_by_token: bool,
}

/// The account that a request is made by, for its handler.
#[derive(Debug, Clone)]
pub struct Visiting(pub Arc<Visitor>);

/// A reason to let nobody in.
#[derive(Debug)]
pub enum NoCaller {
    /// Something was shown, and it does not hold.
    Wrong(String),
    /// The accounts cannot be read.
    Broken(String),
}

impl Team {
    /// Makes the team of a server.
    ///
    /// # Errors
    ///
    /// A setting is wrong, in words for its administrator.
    pub fn new(
        accounts: Accounts,
        url: String,
        settings: AccountsSettings,
        certificates: Option<PathBuf>,
    ) -> Result<Self, String> {
        let http = Http::new(certificates);
        let providers = settings.providers.iter().map(|(id, it)| provider(id, it)).collect();
        let logins = Logins::new(providers, http.clone()).map_err(|error| error.to_string())?;
        let gateway = match &settings.gateway {
            None => None,
            Some(it) => {
                let header = it.header.as_deref().unwrap_or("authorization");
                let header = HeaderName::from_bytes(header.as_bytes())
                    .map_err(|_| format!("`{header}` is no header's name."))?;
                let gateway = Gateway {
                    issuer: it.issuer.clone(),
                    audience: it.audience.clone(),
                    keys_url: it.keys.clone(),
                };
                Some((header, GatewayVerifier::new(gateway, http).map_err(|error| error.to_string())?))
            }
        };
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self {
            accounts,
            logins,
            devices: Devices::default(),
            drawn: Drawn::default(),
            watching: Watching::default(),
            url,
            settings,
            gateway,
        })
    }

    /// Returns the other accounts that hear of a session just now.
    pub fn watchers(&self, session: &SessionId) -> Vec<Account> {
        let owner = self.accounts.owner(session);
        let hears = |it: &Account| {
            Some(&it.id) != owner.as_ref()
                && self.watching.has(&it.id)
                && self.accounts.level(&as_visitor(it), session).is_some()
        };
        self.accounts.list().into_iter().filter(hears).collect()
    }

    /// Returns the most sessions of one account that work at once.
    pub fn max_working(&self) -> usize {
        self.settings.max_working.and_then(|it| usize::try_from(it).ok()).unwrap_or(usize::MAX)
    }

    /// Returns the dollars that the sessions of one account may cost in 24 hours.
    pub fn max_cost(&self) -> Option<f64> {
        self.settings.max_cost.map(f64::from)
    }

    /// Returns true if cookies are for encrypted connections alone.
    pub fn is_secure(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Finds the account that makes a request; none where nothing is shown.
    pub async fn caller(&self, request: &Parts) -> Result<Option<Caller>, NoCaller> {
        self.accounts.refresh().map_err(|error| NoCaller::Broken(error.to_string()))?;
        let headers = &request.headers;
        if let Some(secret) = token(headers).or_else(|| parameter(&request.uri)) {
            let known = self.accounts.visitor(&secret).filter(|(_, it)| it.kind == Kind::Token);
            let wrong = || {
                NoCaller::Wrong("The token is wrong, revoked, or has ended: make a new one at /account, or run `windlass login`.".to_owned())
            };
            return known
                .map(|(visitor, _)| Some(Caller { visitor, cookie: None, is_by_token: true }))
                .ok_or_else(wrong);
        }
        if let Some((header, gateway)) = &self.gateway
            && let Some(jwt) = headers.get(header).and_then(|value| value.to_str().ok())
        {
            let jwt = jwt.strip_prefix("Bearer ").unwrap_or(jwt);
            let identity = gateway.verify(jwt).await.map_err(|error| match status_of(&error) {
                StatusCode::BAD_GATEWAY => NoCaller::Broken(error.to_string()),
                _other => NoCaller::Wrong(error.to_string()),
            })?;
            let account = self.account_of_gateway(identity).await?;
            return Ok(Some(Caller { visitor: as_visitor(&account), cookie: None, is_by_token: false }));
        }
        let cookies = secrets(headers, &self.cookie_name(headers));
        let mut known =
            cookies.into_iter().filter_map(|secret| Some((self.accounts.visitor(&secret)?, secret)));
        let caller = known.find(|((_, it), _)| it.kind == Kind::Cookie);
        Ok(caller.map(|((visitor, credential), secret)| Caller {
            visitor,
            cookie: Some((secret, credential)),
            is_by_token: false,
        }))
    }

    async fn account_of_gateway(&self, identity: Identity) -> Result<Account, NoCaller> {
        if let Some(account) = self.accounts.of_person("gateway", &identity.subject) {
            return Ok(account);
        }
        if self.accounts.is_removed("gateway", &identity.subject) {
            return Err(NoCaller::Wrong("An administrator has removed this account.".to_owned()));
        }
        self.join("gateway", identity).await.map_err(|error| NoCaller::Broken(error.to_string()))
    }

    /// Returns the account of a person that a provider has logged in, or makes one where the settings say so.
    pub async fn enter(&self, identity: Identity) -> Result<Option<Account>, AccountsError> {
        let token = identity.refresh_token.clone();
        let Some(account) = self.account_of(identity).await? else { return Ok(None) };
        let (accounts, id) = (self.accounts.clone(), account.id.clone());
        blocking(move || accounts.renew_later(&id, token.as_deref())).await?;
        Ok(Some(account))
    }

    /// Asks a provider whether an account is still good there; one that is not loses its logins and tokens.
    pub async fn renew(&self, account: Account, token: &str) -> Result<(), AccountsError> {
        let renewed = self.logins.refresh(&account.provider, &account.subject, token).await;
        let accounts = self.accounts.clone();
        blocking(move || match renewed {
            Ok(renewed) => accounts.renew_later(&account.id, renewed.refresh_token.as_deref()),
            Err(error @ LoginError::Refused { .. }) => {
                accounts.revoke_all(&account.id)?;
                let entry = AuditEntry::new(None, "login ended", account.id.as_str());
                accounts.note(&AuditEntry { name: account.name, ..entry.with(&error.to_string()) })
            }
            Err(error) => {
                tracing::warn!(account = %account.id, %error, "a login is not renewed; it goes on");
                accounts.renew_later(&account.id, None)
            }
        })
        .await
    }

    async fn account_of(&self, identity: Identity) -> Result<Option<Account>, AccountsError> {
        let provider = identity.provider.clone();
        if let Some(account) = self.accounts.of_person(&provider, &identity.subject) {
            return Ok(Some(account));
        }
        if self.accounts.is_removed(&provider, &identity.subject) {
            return Ok(None);
        }
        let may_join = self.settings.providers.get(&provider).is_some_and(|it| {
            let domain =
                identity.email.as_deref().and_then(|email| email.rsplit_once('@')).map(|(_, domain)| domain);
            it.everybody
                || domain.is_some_and(|domain| it.domains.iter().any(|it| it.eq_ignore_ascii_case(domain)))
        });
        if may_join { self.join(&provider, identity).await.map(Some) } else { Ok(None) }
    }

    async fn join(&self, provider: &str, identity: Identity) -> Result<Account, AccountsError> {
        let (accounts, provider) = (self.accounts.clone(), provider.to_owned());
        let directories = real_directories(&self.settings.directories);
        blocking(move || {
            let Identity { subject, name, email, .. } = identity;
            let name = if name.trim().is_empty() { email.unwrap_or_else(|| subject.clone()) } else { name };
            let made = accounts.create(&provider, Some(&subject), &name, Role::Member, directories);
            let account = match made {
                // Another request of the same person was quicker.
                Err(AccountsError::Taken(_)) => {
                    accounts.refresh()?;
                    let known = accounts.of_person(&provider, &subject);
                    return known.ok_or(AccountsError::Taken(name));
                }
                made => made?,
            };
            accounts.note(&AuditEntry::new(None, "join", account.id.as_str()).with(&account.name))?;
            Ok(account)
        })
        .await
    }

    /// Makes the header that logs a browser in.
    pub async fn cookie(&self, account: &Account, headers: &HeaderMap) -> Result<String, AccountsError> {
        let (accounts, id) = (self.accounts.clone(), account.id.clone());
        let secret = blocking(move || accounts.issue(&id, browser())).await?;
        Ok(self.set_cookie(headers, &secret))
    }

    /// Replaces a cookie that is old, and returns the header with the new one.
    pub async fn rotated(&self, caller: &Caller, headers: &HeaderMap) -> Option<String> {
        let (secret, credential) = caller.cookie.clone()?;
        if now_ms() - credential.created < COOKIE_AGE || credential.ends - now_ms() <= OVERLAP {
            return None;
        }
        let accounts = self.accounts.clone();
        let new = blocking(move || accounts.rotate(&secret, browser(), now_ms() + OVERLAP)).await;
        let new = new.inspect_err(|error| tracing::warn!(%error, "a cookie stays as it is")).ok()??;
        Some(self.set_cookie(headers, &new))
    }

    /// Returns the header that makes a browser forget its cookie.
    pub fn no_cookie(&self, headers: &HeaderMap) -> String {
        self.cookie_header(headers, "", 0)
    }

    fn set_cookie(&self, headers: &HeaderMap, secret: &str) -> String {
        self.cookie_header(headers, secret, COOKIE_LIFETIME / 1000)
    }

    fn cookie_header(&self, headers: &HeaderMap, secret: &str, age: i64) -> String {
        let secure = if self.is_secure() { "; Secure" } else { "" };
        let name = self.cookie_name(headers);
        format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={age}{secure}")
    }

    /// Returns the cookie's name. The prefix keeps other hosts of the domain from setting it; ports share their cookies.
    fn cookie_name(&self, headers: &HeaderMap) -> String {
        if self.is_secure() {
            return "__Host-windlass_account".to_owned();
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        format!("windlass_account_{}", host.rsplit_once(':').map_or("", |(_, port)| port))
    }
}

/// Returns directories as requests name them: without links.
pub fn real_directories(given: &[String]) -> Vec<String> {
    given.iter().map(|it| real(Path::new(it)).display().to_string()).collect()
}

/// Returns the values of a cookie of this name. A browser may send several.
pub fn secrets(headers: &HeaderMap, name: &str) -> Vec<String> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    let pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned()).collect()
}

/// Returns the status for a login that failed.
pub fn status_of(error: &LoginError) -> StatusCode {
    match error {
        LoginError::Unreachable { .. } | LoginError::Answer { .. } => StatusCode::BAD_GATEWAY,
        LoginError::UnknownProvider { .. } => StatusCode::NOT_FOUND,
        LoginError::Settings { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        LoginError::UnknownAttempt { .. }
        | LoginError::OtherBrowser { .. }
        | LoginError::OtherProvider { .. }
        | LoginError::OtherIssuer { .. }
        | LoginError::Denied { .. }
        | LoginError::Refused { .. }
        | LoginError::Client { .. }
        | LoginError::Token { .. } => StatusCode::FORBIDDEN,
    }
}

fn browser() -> NewCredential {
    let ends = now_ms() + COOKIE_LIFETIME;
    NewCredential { kind: Kind::Cookie, name: "browser".to_owned(), scope: Scope::Admin, ends }
}

fn provider(id: &str, settings: &LoginProvider) -> Provider {
    let or = |own: &Option<String>, usual: &str| own.clone().unwrap_or_else(|| usual.to_owned());
    let kind = match &settings.issuer {
        Some(issuer) => ProviderKind::OpenId { issuer: issuer.clone() },
        None => ProviderKind::Github { site: or(&settings.site, GITHUB.0), api: or(&settings.api, GITHUB.1) },
    };
    Provider {
        id: id.to_owned(),
        name: or(&settings.name, id),
        kind,
        client_id: settings.client_id.clone(),
        client_secret: settings.client_secret.clone(),
        scopes: settings.scopes.clone(),
    }
}

/// Returns the token in the header of a request: as it is, or as the password of clients that know no tokens.
fn token(headers: &HeaderMap) -> Option<String> {
    let (scheme, value) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" if value.trim().starts_with(TOKEN_START) => Some(value.trim().to_owned()),
        "basic" => password(value.trim()),
        _other => None,
    }
}

/// Returns the token in the address of requests that cannot set a header.
fn parameter(uri: &Uri) -> Option<String> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(uri).ok()?;
    let (_, value) = query.0.into_iter().find(|(name, _)| name == "auth_token")?;
    if value.starts_with(TOKEN_START) { Some(value) } else { password(&value) }
}

fn password(encoded: &str) -> Option<String> {
    let decoded = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned()).filter(|it| !it.is_empty())
}
