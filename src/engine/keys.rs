//! Provider keys as a user manages them: stored, listed and removed in our own file, and whether they are used.

use std::{io, path::PathBuf, sync::atomic::Ordering};

use windlass_protocol::opencode::config::AuthEntry;

use super::{Engine, EngineError, EngineErrorKind};
use crate::{
    base::lock::lock,
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

impl Engine {
    /// Uses stored keys again, as they are now.
    pub async fn log_in(&self) -> Result<(), EngineError> {
        self.0.use_stored_keys.store(true, Ordering::Relaxed);
        self.reload_workspaces().await
    }

    /// Forgets the keys that `windlass auth login` stored, and uses no stored key until [`Engine::log_in`].
    pub async fn log_out(&self) -> Result<(), EngineError> {
        self.0.use_stored_keys.store(false, Ordering::Relaxed);
        let paths = self.0.paths.clone();
        let cleared = tokio::task::spawn_blocking(move || auth::clear(&paths)).await;
        match cleared {
            Ok(Ok(())) => self.reload_workspaces().await,
            Ok(Err(error)) => Err(EngineError::new(EngineErrorKind::Internal, error.to_string())),
            Err(error) => Err(EngineError::new(EngineErrorKind::Internal, error.to_string())),
        }
    }

    /// Whether the user has logged out and not in again.
    pub fn is_logged_out(&self) -> bool {
        !self.0.use_stored_keys.load(Ordering::Relaxed)
    }

    async fn reload_workspaces(&self) -> Result<(), EngineError> {
        let directories: Vec<PathBuf> = lock(&self.0.workspaces).keys().cloned().collect();
        for directory in directories {
            if let Err(error) = self.workspace(&directory).await {
                tracing::warn!(%error, "the configuration of a directory was not read again");
            }
        }
        Ok(())
    }
}
