//! The places of providers' keys, in the order of the lookup.

use std::path::PathBuf;

use windlass_core::config::{Config, Environment, paths::Paths};
use windlass_protocol::opencode::config::{AuthEntry, ProviderConfig};

use super::{build, source};
use crate::auth;

/// A key that was found, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub provider: String,
    /// `key`, `oauth` or `well-known`.
    pub kind: &'static str,
    pub source: KeySource,
    /// False for a key that an earlier one overrides.
    pub is_used: bool,
}

/// The place of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// `provider.<id>.options.apiKey`.
    Configuration,
    /// A file of credentials, or the variable that replaces it.
    File(PathBuf),
    Variable(String),
}

/// Finds every provider's keys. Does blocking reads.
pub fn find(config: &Config, environment: &Environment, paths: &Paths) -> Vec<Found> {
    // The warnings are among those of the configuration.
    let (stored, _) = auth::stored_credentials(paths, environment);
    let mut providers: Vec<&str> = config.providers.keys().map(String::as_str).collect();
    let listed = source::load(environment, paths, &mut Vec::new()).providers();
    let others = listed.iter().map(|listed| listed.id.as_str());
    let others = others.chain(stored.iter().map(|(_, provider, _)| provider.as_str()));
    for provider in others {
        if !providers.contains(&provider) {
            providers.push(provider);
        }
    }
    let mut found: Vec<Found> = Vec::new();
    for provider in providers {
        let mut push = |kind: &'static str, source: KeySource| {
            let is_used =
                kind != "key" || !found.iter().any(|it| it.provider == provider && it.kind == "key");
            found.push(Found { provider: provider.to_owned(), kind, source, is_used });
        };
        let configured = config.providers.get(provider);
        if configured.is_some_and(|it| it.options.api_key.as_ref().is_some_and(|key| !key.is_empty())) {
            push("key", KeySource::Configuration);
        }
        for (file, _, entry) in stored.iter().filter(|(_, id, _)| id == provider) {
            let kind = match entry {
                AuthEntry::Api { .. } => "key",
                AuthEntry::Oauth { .. } => "oauth",
                AuthEntry::Wellknown { .. } => "well-known",
            };
            push(kind, KeySource::File(file.clone()));
        }
        let listed = listed.iter().find(|listed| listed.id == provider);
        let mut seen: Vec<String> = Vec::new();
        for name in build::key_variables(provider, listed, configured.unwrap_or(&ProviderConfig::default())) {
            if environment.get(&name).is_some() && !seen.contains(&name) {
                push("key", KeySource::Variable(name.clone()));
                seen.push(name);
            }
        }
    }
    found
}
