//! A user's keys at providers, logins by browser, code or plugin, and tokens of organisations.

pub mod keys;
pub mod logins;
pub mod plugin_logins;

use std::{path::PathBuf, sync::atomic::Ordering};

use windlass_base::{blocking::blocking, lock::lock};
use windlass_protocol::opencode::config::AuthEntry;
use windlass_provider::auth;

use crate::{Engine, EngineError, EngineErrorKind};

/// The user's keys and logins at providers.
#[derive(Clone, Copy)]
pub struct Accounts<'a> {
    engine: &'a Engine,
}

impl Engine {
    /// Returns the user's keys and logins at providers.
    pub fn accounts(&self) -> Accounts<'_> {
        Accounts { engine: self }
    }
}

impl Accounts<'_> {
    /// Stores a credential of a provider, and reads the configurations again.
    pub async fn store(self, provider: &str, entry: AuthEntry) -> Result<(), EngineError> {
        let (paths, provider) = (self.engine.paths().clone(), provider.to_owned());
        let stored = blocking(move || auth::save(&paths, &provider, &entry)).await;
        stored.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?;
        self.log_in().await
    }

    /// Removes a provider's key, and reads the configurations again.
    pub async fn remove(self, provider: &str) -> Result<(), EngineError> {
        let (paths, provider) = (self.engine.paths().clone(), provider.to_owned());
        let removed = blocking(move || keys::remove(&paths, &provider)).await;
        removed.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?;
        self.log_in().await
    }

    /// Uses stored keys again, as they are now.
    pub async fn log_in(self) -> Result<(), EngineError> {
        self.engine.0.use_stored_keys.store(true, Ordering::Relaxed);
        self.reload_workspaces().await
    }

    /// Forgets the keys that `windlass auth login` stored, and uses no stored key until [`Accounts::log_in`].
    pub async fn log_out(self) -> Result<(), EngineError> {
        self.engine.0.use_stored_keys.store(false, Ordering::Relaxed);
        let paths = self.engine.paths().clone();
        let cleared = blocking(move || auth::clear(&paths)).await;
        cleared.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?;
        self.reload_workspaces().await
    }

    /// Returns true if the user has logged out and not in again.
    pub fn is_logged_out(self) -> bool {
        !self.engine.0.use_stored_keys.load(Ordering::Relaxed)
    }

    async fn reload_workspaces(self) -> Result<(), EngineError> {
        let directories: Vec<PathBuf> = lock(&self.engine.0.workspaces).keys().cloned().collect();
        for directory in directories {
            if let Err(error) = self.engine.workspaces().workspace(&directory).await {
                tracing::warn!(%error, "the configuration of a directory was not read again");
            }
        }
        Ok(())
    }
}
