//! The store's upkeep: its check and repair.

use std::path::PathBuf;

use windlass_core::storage::{StorageError, check, repair};
pub use windlass_core::storage::{
    check::{StoreFinding, Verdict},
    repair::Repaired,
};

use crate::{Diagnostics, EngineError, EngineErrorKind};

impl Diagnostics<'_> {
    /// Returns the path of the store's file.
    pub fn store_path(self) -> PathBuf {
        self.engine.0.paths.database()
    }

    /// Checks the whole store; `None` if there is none yet.
    pub async fn check_store(self) -> Result<Option<Vec<StoreFinding>>, EngineError> {
        let path = self.store_path();
        blocking(move || check::check(&path)).await
    }

    /// Saves the readable part of the store into a new file, after a copy.
    pub async fn repair_store(self) -> Result<Repaired, EngineError> {
        let path = self.store_path();
        blocking(move || repair::repair(&path)).await
    }

    /// Gives the room of deleted sessions back to the disk. Returns false if another process has the store open.
    pub async fn shrink_store(self) -> Result<bool, EngineError> {
        Ok(self.engine.storage().shrink().await?)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, EngineError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| EngineError::new(EngineErrorKind::Internal, error.to_string()))?
        .map_err(EngineError::from)
}
