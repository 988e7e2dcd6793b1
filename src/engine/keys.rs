//! Provider keys as a user manages them: stored, listed and removed in our own file.

use std::io;

use windlass_protocol::opencode::config::AuthEntry;

use crate::{
    config::{Environment, paths::Paths},
    provider::auth,
};

/// Stores a provider's key.
pub fn store(paths: &Paths, provider: &str, key: &str) -> io::Result<()> {
    auth::save(paths, provider, key)
}

/// Removes a provider's key; false when there was none.
pub fn remove(paths: &Paths, provider: &str) -> io::Result<bool> {
    auth::remove(paths, provider)
}

/// Every provider with a credential, ours and OpenCode's, and of which kind it is.
pub fn list(paths: &Paths, environment: &Environment) -> Vec<(String, &'static str)> {
    let (credentials, warnings) = auth::load(paths, environment);
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let kind = |entry: &AuthEntry| match entry {
        AuthEntry::Api { .. } => "key",
        AuthEntry::Oauth { .. } => "oauth",
        AuthEntry::Wellknown { .. } => "well-known",
    };
    credentials.iter().map(|(provider, entry)| (provider.clone(), kind(entry))).collect()
}
