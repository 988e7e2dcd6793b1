//! Provider keys as a user manages them: stored, listed, tried and removed in our own file.

use std::{io, path::Path, time::Duration};

use windlass_base::text::nearest;
use windlass_core::config::{Environment, Warning, paths::Paths};
use windlass_protocol::opencode::{config::AuthEntry, model_ref::ModelRef};
use windlass_provider::{
    ProviderError, Secret, auth,
    catalog::{self, Catalog},
    http,
    unusable::Reason,
};

use super::{Accounts, logins};
use crate::{EngineError, Loaded};

/// Stores a provider's key.
pub fn store(paths: &Paths, provider: &str, key: &str) -> io::Result<()> {
    auth::save(paths, provider, &AuthEntry::key(key))
}

/// Removes a provider's key; false when there was none.
pub fn remove(paths: &Paths, provider: &str) -> io::Result<bool> {
    auth::remove(paths, provider)
}

/// Returns every provider with a credential, ours and OpenCode's, and of which kind it is; with the sources
/// that cannot be used.
pub fn list(paths: &Paths, environment: &Environment) -> (Vec<(String, &'static str)>, Vec<Warning>) {
    let (credentials, faults) = auth::load(paths, environment);
    let warnings = faults.into_iter().map(|it| it.warning).collect();
    let kind = |entry: &AuthEntry| match entry {
        AuthEntry::Api { .. } => "key",
        AuthEntry::Oauth { .. } => "oauth",
        AuthEntry::Wellknown { .. } => "well-known",
    };
    (credentials.iter().map(|(provider, entry)| (provider.clone(), kind(entry))).collect(), warnings)
}

/// A provider that a key can be given for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub id: String,
    pub name: String,
    /// Models that can be used with a key.
    pub n_models: usize,
    /// One of them.
    pub best: Option<String>,
    /// A key is there already.
    pub has_key: bool,
}

/// A provider that is paid for or otherwise known by a key or a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The provider's name.
    pub name: String,
    /// True for a login, false for a key.
    pub is_login: bool,
}

/// Says how a provider took a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    Accepted,
    /// With the reason.
    Refused(String),
    /// The provider could not be asked, for this reason.
    Unknown(String),
}

/// Time that a provider may take to check a key.
const TRY_LIMIT: Duration = Duration::from_secs(10);

impl Accounts<'_> {
    /// Returns the well-known providers, those that can be used in a directory first.
    pub async fn offers(self, directory: &Path) -> Result<Vec<Offer>, EngineError> {
        let loaded = self.engine.workspaces().read_files(directory).await?;
        let mut ids = loaded.catalog.well_known();
        let known = loaded.catalog.known();
        for id in logins::providers() {
            if !ids.iter().any(|it| it == id) && known.iter().any(|it| it == id) {
                ids.push(id.to_owned());
            }
        }
        Ok(offers(&loaded, &ids))
    }

    /// Returns a provider by its id; `None` for one that is not known in the directory.
    pub async fn offer(self, directory: &Path, id: &str) -> Result<Option<Offer>, EngineError> {
        let loaded = self.engine.workspaces().read_files(directory).await?;
        let is_known = loaded.catalog.known().iter().any(|known| known == id);
        Ok(if is_known { offers(&loaded, &[id.to_owned()]).pop() } else { None })
    }

    /// Returns a provider with the models that can be used now.
    pub async fn usable(self, directory: &Path, id: &str) -> Result<Offer, EngineError> {
        let loaded = self.engine.workspaces().read_files(directory).await?;
        Ok(offer(&loaded, &loaded.catalog, id))
    }

    /// Returns the providers that can be used in a directory by a key or login, and true if another one can be used
    /// without.
    pub async fn list(self, directory: &Path) -> Result<(Vec<Account>, bool), EngineError> {
        let catalog = self.engine.workspaces().inspect_files(directory).await?.catalog;
        let (mut accounts, mut has_free) = (Vec::new(), false);
        for provider in catalog.providers.iter().filter(|provider| provider.id != catalog.demo().provider_id)
        {
            match catalog.any_of(&provider.id) {
                Some(model) if model.has_login || model.api_key.is_some() => {
                    accounts.push(Account { name: provider.name.clone(), is_login: model.has_login });
                }
                Some(_) => has_free = true,
                None => {}
            }
        }
        Ok((accounts, has_free))
    }

    /// Returns the fault in the name of a provider that is not known, and the way to add it.
    pub async fn unknown_provider(self, directory: &Path, id: &str) -> Result<String, EngineError> {
        let known = self.engine.workspaces().read_files(directory).await?.catalog.known();
        let near = nearest(id, known.iter().map(String::as_str)).map(str::to_owned);
        let similar: Vec<String> = near.into_iter().collect();
        let (provider, model) = (id.to_owned(), "MODEL".to_owned());
        Ok(Reason::UnknownProvider { provider, model, similar }.to_string())
    }

    /// Tries a key by one request that costs nothing.
    pub async fn try_key(self, directory: &Path, id: &str, key: &str) -> Result<Tried, EngineError> {
        let loaded = self.engine.workspaces().read_files(directory).await?;
        let Some(mut model) = with_keys(&loaded, &[id.to_owned()], key).any_of(id).cloned() else {
            let reason = loaded.catalog.get(&ModelRef {
                provider_id: id.to_owned(),
                model_id: String::new(),
                variant: None,
            });
            return Ok(Tried::Unknown(reason.err().map(|reason| reason.to_string()).unwrap_or_default()));
        };
        if model.is_foreign {
            let address = &model.base_url;
            let reason = format!("it is not sent to {address}, which only the project names");
            return Ok(Tried::Unknown(reason));
        }
        // A key of the configuration would be tried instead.
        model.api_key = Some(Secret(key.to_owned()));
        let host = model.base_url.clone();
        Ok(match http::probe(self.engine.http(), &model, TRY_LIMIT).await {
            Ok(200..300) => Tried::Accepted,
            Ok(status @ (401 | 403)) => Tried::Refused(format!("{host} answered {status}")),
            Ok(status) => Tried::Unknown(format!("{host} answered {status}")),
            Err(ProviderError::Auth { message }) => Tried::Refused(message),
            Err(error) => Tried::Unknown(error.to_string()),
        })
    }
}

/// Returns the offers that keys for these providers would give.
fn offers(loaded: &Loaded, ids: &[String]) -> Vec<Offer> {
    let keyed = with_keys(loaded, ids, "key");
    ids.iter().map(|id| offer(loaded, &keyed, id)).collect()
}

fn offer(loaded: &Loaded, keyed: &Catalog, id: &str) -> Offer {
    let entry = keyed.providers.iter().find(|entry| entry.id == *id);
    let models = entry.map(|entry| entry.models.as_slice()).unwrap_or_default();
    let now = loaded.catalog.any_of(id);
    Offer {
        id: id.to_owned(),
        name: entry.map_or(id, |entry| &entry.name).to_owned(),
        n_models: models.len(),
        best: models.first().map(|model| model.reference().to_string()),
        has_key: now.is_some_and(|model| model.api_key.is_some() || model.has_login),
    }
}

/// Returns the catalog as it would be with a key for these providers.
fn with_keys(loaded: &Loaded, ids: &[String], key: &str) -> Catalog {
    let entry = |id: &String| (id.clone(), AuthEntry::key(key));
    catalog::resolve(&loaded.config, &ids.iter().map(entry).collect()).0
}
