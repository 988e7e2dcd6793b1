//! AWS's credentials and signatures: requests without a key are signed with the credentials that AWS's own programs
//! would use.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::Mutex,
};

use reqwest::Url;
use windlass_base::clock;
use windlass_core::config::Environment;

mod chain;
mod profiles;
mod service;
mod sign_in;
pub(crate) mod sigv4;
#[cfg(test)]
mod tests;

/// Time before their end at which credentials are fetched anew.
const MARGIN_MS: i64 = 5 * 60 * 1000;

/// The account that pays, and the place of its models.
pub struct Account {
    region: String,
    /// The profile that the configuration names.
    profile: Option<String>,
    /// AWS's own variables.
    variables: BTreeMap<String, String>,
    home: PathBuf,
    fetched: Mutex<Option<Credentials>>,
}

/// Keys of an account, mostly for a while.
#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    access_key_id: String,
    secret_access_key: String,
    session_token: Option<String>,
    /// Milliseconds since the epoch.
    expires_ms: Option<i64>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, …)", self.access_key_id)
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({}, {:?})", self.region, self.profile)
    }
}

impl PartialEq for Account {
    fn eq(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.region.clone(), it.profile.clone(), it.variables.clone(), it.home.clone());
        key(self) == key(other)
    }
}

/// The reason why a request is not signed: a sentence without a full stop.
#[derive(Debug, thiserror::Error)]
pub enum NotSigned {
    /// Credentials are missing, wrong or refused; the sentence names the way out.
    #[error("{0}")]
    Refused(String),
    /// A service of AWS does not answer, or is out of order: another try may do better.
    #[error("{0}")]
    Unavailable(String),
}

fn refused(sentence: impl Into<String>) -> NotSigned {
    NotSigned::Refused(sentence.into())
}

impl Account {
    /// Reads the settings of the environment under those of the configuration. Does blocking reads if a profile may
    /// name the region.
    pub fn new(environment: &Environment, region: Option<&str>, profile: Option<&str>) -> Account {
        let variables = environment
            .variables
            .iter()
            .filter(|(name, value)| name.starts_with("AWS_") && !value.is_empty());
        let mut account = Account {
            region: String::new(),
            profile: profile.map(str::to_owned),
            variables: variables.map(|(name, value)| (name.clone(), value.clone())).collect(),
            home: environment.home.clone(),
            fetched: Mutex::new(None),
        };
        let named = region.or(account.variable("AWS_REGION")).or(account.variable("AWS_DEFAULT_REGION"));
        let named = named.map(str::to_owned).or_else(|| account.profile_region());
        // It becomes a part of the host.
        let is_name = |region: &String| {
            !region.is_empty() && region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        account.region = named.filter(is_name).unwrap_or_else(|| "us-east-1".to_owned());
        account
    }

    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the domain of the region's services.
    pub fn domain(&self) -> &'static str {
        service::domain(&self.region)
    }

    /// Returns true if the environment says that there are credentials, though they may turn out to be of no use.
    pub fn has_credentials(&self) -> bool {
        let has = |name| self.variable(name).is_some();
        self.profile.is_some()
            || has("AWS_PROFILE")
            || (has("AWS_ACCESS_KEY_ID") && has("AWS_SECRET_ACCESS_KEY"))
            || has("AWS_WEB_IDENTITY_TOKEN_FILE")
            || has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            || has("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    }

    /// Returns the headers that sign a request. Fetches credentials where they are kept elsewhere.
    pub async fn sign(
        &self,
        client: &reqwest::Client,
        url: &str,
        body: &[u8],
    ) -> Result<Vec<(&'static str, String)>, NotSigned> {
        let url =
            Url::parse(url).map_err(|error| refused(format!("the address cannot be read ({error})")))?;
        let credentials = self.credentials(client).await?;
        let request = sigv4::Request { method: "POST", url: &url, headers: &[], body };
        // The two endpoints are services of their own.
        let is_mantle = url.host_str().is_some_and(|host| host.starts_with("bedrock-mantle."));
        let service = if is_mantle { "bedrock-mantle" } else { "bedrock" };
        let scope = sigv4::Scope { region: &self.region, service };
        Ok(sigv4::sign(&request, scope, &credentials, clock::now_ms()))
    }

    /// Forgets credentials that were refused, so that the next request fetches others.
    pub fn forget(&self) {
        if let Ok(mut fetched) = self.fetched.lock() {
            *fetched = None;
        }
    }

    async fn credentials(&self, client: &reqwest::Client) -> Result<Credentials, NotSigned> {
        let fetched = self.fetched.lock().ok().and_then(|fetched| fetched.clone());
        let is_fresh =
            |it: &Credentials| it.expires_ms.is_none_or(|expires| expires - MARGIN_MS > clock::now_ms());
        if let Some(credentials) = fetched.filter(is_fresh) {
            return Ok(credentials);
        }
        let credentials = chain::find(self, client).await?;
        if let Ok(mut fetched) = self.fetched.lock() {
            *fetched = Some(credentials.clone());
        }
        Ok(credentials)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    fn profile_region(&self) -> Option<String> {
        let profile = self.profile.as_deref().or(self.variable("AWS_PROFILE"))?;
        profiles::Profiles::read(self).find(profile)?.get("region").cloned()
    }

    /// Returns a file of AWS's, which a variable may place elsewhere.
    fn file(&self, variable: &str, name: &str) -> PathBuf {
        match self.variable(variable) {
            Some(path) => self.expand(path),
            None => self.home.join(".aws").join(name),
        }
    }

    fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => Path::new(path).to_owned(),
        }
    }
}
