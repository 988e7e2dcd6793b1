//! Logs people in at the providers of a company: by OpenID Connect, by GitHub, or by the token of a gateway.
//!
//! A login is an attempt that is known to one browser: `begin` sends the browser to the provider and gives it a key,
//! and `complete` takes the provider's answer from a browser with that key.

use std::{collections::HashSet, fmt};

use openidconnect::RedirectUrl;

use self::{
    attempts::Attempts,
    clock::Clock,
    error::{LoginError, shown},
    github::Github,
    http::Http,
    openid::OpenId,
    provider::{GATEWAY, Identity, Kind, Provider, Refreshed},
};

mod attempts;
mod clock;
pub mod error;
pub mod gateway;
mod github;
pub mod http;
mod kept;
mod openid;
mod person;
pub mod provider;
mod refusal;
#[cfg(test)]
mod tests;
mod token;

/// Maximum characters of a provider's id.
const MAX_ID: usize = 64;

/// A login that a browser is to go on with.
pub struct Begun {
    /// The address to which the browser is redirected.
    pub url: String,
    /// The value of a cookie (`HttpOnly`, `Secure`, `SameSite=Lax`, ten minutes) that only this browser gets.
    pub browser_key: String,
}

/// The query with which a provider sends the browser back.
#[derive(Default)]
pub struct Callback {
    pub code: Option<String>,
    pub state: Option<String>,
    pub iss: Option<String>,
    pub error: Option<String>,
    pub error_description: Option<String>,
}

/// The configured providers, their published facts, and the logins that are under way.
#[derive(Debug)]
pub struct Logins {
    sites: Vec<Site>,
    attempts: Attempts,
}

struct Site {
    id: String,
    name: String,
    way: Way,
}

enum Way {
    OpenId(Box<OpenId>),
    Github(Box<Github>),
}

impl Logins {
    /// Checks the settings of providers. No request is sent before the first login.
    pub fn new(providers: Vec<Provider>, http: Http) -> Result<Self, LoginError> {
        Self::with_clock(providers, http, Clock::default())
    }

    fn with_clock(providers: Vec<Provider>, http: Http, clock: Clock) -> Result<Self, LoginError> {
        let mut ids = HashSet::new();
        let mut sites = Vec::new();
        for provider in providers {
            let refused = |reason: String| LoginError::Settings { provider: shown(&provider.id), reason };
            check_id(&provider.id).map_err(refused)?;
            if !ids.insert(provider.id.clone()) {
                return Err(refused("two providers have this id; give one of them another".to_owned()));
            }
            if provider.client_id.is_empty() {
                return Err(refused("it has no client id; set the one that the provider gave".to_owned()));
            }
            let way = match &provider.kind {
                Kind::OpenId { issuer } => {
                    let openid = OpenId::new(&provider, issuer, http.clone(), clock.clone());
                    Way::OpenId(Box::new(openid.map_err(refused)?))
                }
                Kind::Github { site, api } => {
                    let github = Github::new(&provider, site, api, http.clone());
                    Way::Github(Box::new(github.map_err(refused)?))
                }
            };
            sites.push(Site { id: provider.id, name: provider.name, way });
        }
        Ok(Self { sites, attempts: Attempts::new(clock) })
    }

    /// Returns the ids and names of the providers, in the order of the configuration.
    pub fn providers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.sites.iter().map(|site| (site.id.as_str(), site.name.as_str()))
    }

    /// Begins a login. `redirect_uri` is this server's address for the answer, registered at the provider.
    pub async fn begin(&self, provider: &str, redirect_uri: &str) -> Result<Begun, LoginError> {
        let site = self.site(provider)?;
        let redirect_uri = RedirectUrl::new(redirect_uri.to_owned()).map_err(|_| LoginError::Settings {
            provider: site.name.clone(),
            reason: format!("\"{}\" is not an address to come back to", shown(redirect_uri)),
        })?;
        // A provider that is down must not push out attempts at others.
        if let Way::OpenId(openid) = &site.way {
            openid.prepare().await?;
        }
        let sent = self.attempts.begin(&site.id, redirect_uri.clone());
        let url = match &site.way {
            Way::OpenId(openid) => openid.authorize(&sent, redirect_uri).await?,
            Way::Github(github) => github.authorize(&sent, &redirect_uri)?,
        };
        Ok(Begun { url: url.into(), browser_key: sent.browser_key })
    }

    /// Completes a login with the answer that arrived at the address of `provider`, from a browser with that key.
    ///
    /// The attempt is used up, however this ends.
    pub async fn complete(
        &self,
        provider: &str,
        browser_key: Option<&str>,
        callback: Callback,
    ) -> Result<Identity, LoginError> {
        let site = self.site(provider)?;
        let Callback { code, state, iss, error, error_description } = callback;
        let attempt = self.attempts.take((&site.id, &site.name), state.as_deref(), browser_key)?;
        match &site.way {
            Way::OpenId(openid) => openid.check_issuer(iss.as_deref()).await?,
            Way::Github(github) => github.check_issuer(iss.as_deref())?,
        }
        if let Some(error) = error {
            return Err(refusal::of_callback(&site.name, &error, error_description.as_deref()));
        }
        let code = code.filter(|code| !code.is_empty()).ok_or_else(|| LoginError::Answer {
            provider: site.name.clone(),
            reason: "it has no code".to_owned(),
        })?;
        match &site.way {
            Way::OpenId(openid) => openid.exchange(&site.id, attempt, code).await,
            Way::Github(github) => github.exchange(&site.id, attempt, &code).await,
        }
    }

    /// Asks a provider whether the account `subject` is still good. [`LoginError::Refused`] says that it is not, and
    /// [`LoginError::Unreachable`] that the provider could not say.
    ///
    /// The new refresh token has to be stored before the next call: many providers take each only once.
    pub async fn refresh(
        &self,
        provider: &str,
        subject: &str,
        refresh_token: &str,
    ) -> Result<Refreshed, LoginError> {
        match &self.site(provider)?.way {
            Way::OpenId(openid) => openid.refresh(subject, refresh_token).await,
            Way::Github(github) => github.refresh(subject, refresh_token).await,
        }
    }

    /// Returns the address that ends the provider's own session and leads back to `back`, if the provider has one.
    ///
    /// It asks for the provider's metadata if that is not known yet, and returns `None` if there is no answer.
    pub async fn logout_url(&self, provider: &str, id_token: Option<&str>, back: &str) -> Option<String> {
        match &self.site(provider).ok()?.way {
            Way::OpenId(openid) => openid.logout_url(id_token, back).await,
            Way::Github(_) => None,
        }
    }

    fn site(&self, id: &str) -> Result<&Site, LoginError> {
        let site = self.sites.iter().find(|site| site.id == id);
        site.ok_or_else(|| LoginError::UnknownProvider { id: shown(id) })
    }
}

fn check_id(id: &str) -> Result<(), String> {
    let is_plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
    if id.is_empty() || id.len() > MAX_ID || !id.chars().all(is_plain) {
        return Err(format!("its id has to be 1 to {MAX_ID} small letters, digits, - and _"));
    }
    if id == GATEWAY {
        return Err(format!("\"{GATEWAY}\" is the id of the gateway; choose another"));
    }
    Ok(())
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Callback");
        shown.field("iss", &self.iss).field("error", &self.error).finish_non_exhaustive()
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}
