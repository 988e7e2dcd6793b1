//! The way of changes out of the store, to a log that several machines share.
//!
//! A change is stored first. It counts as stored, and is shown, once the log lets it.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;

use super::{StorageError, Write};

/// Takes changes that are stored, and ends once they may be shown.
pub type Log = Box<dyn Fn(Vec<Write>) -> BoxFuture<'static, Result<(), SharedError>> + Send + Sync>;

/// Reasons that the shared store does not take a session's changes, or does not give the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// Another process has taken the session over.
    #[error("the session {session} was taken over by {by}; go on with it there, or load it again")]
    Fenced { session: String, by: String },
    /// Another process works in the session and cannot be reached.
    #[error("the session {session} is open at {by}; close it there, or go on there")]
    Elsewhere { session: String, by: String },
    /// The session is another node's, which takes requests at an address.
    #[error("the session {session} is open at {by}; go on there: `windlass attach {address}`")]
    At { session: String, by: String, address: String },
    #[error("the shared store cannot be reached: {reason}; check `windlass.shared` and the database")]
    Unreachable { reason: String },
    #[error("the shared store refuses: {reason}")]
    Refused { reason: String },
    #[error("the shared store holds something of the session {session} that cannot be read: {reason}")]
    Unreadable { session: String, reason: String },
    #[error("`windlass.shared` cannot be used: {reason}")]
    Setting { reason: String },
    #[error(transparent)]
    Local(Arc<StorageErrorText>),
}

/// The sentence of a failure of the local store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StorageErrorText(String);

impl From<StorageError> for SharedError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Shared(error) => error,
            other => Self::Local(Arc::new(StorageErrorText(other.to_string()))),
        }
    }
}

/// The outlet of a store; it has none until a log is set. Cloning it shares it.
#[derive(Clone, Default)]
pub struct Outlet(Arc<OnceLock<(Log, bool)>>);

impl Outlet {
    /// Sends all later changes to a log, which is waited for before each is shown if `is_slow`. A second log is not taken.
    pub fn set(&self, log: Log, is_slow: bool) {
        if self.0.set((log, is_slow)).is_err() {
            tracing::error!("the store has a log already");
        }
    }

    pub fn is_open(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns true if a change has to wait for the log before it is shown.
    pub fn is_slow(&self) -> bool {
        self.0.get().is_some_and(|(_, is_slow)| *is_slow)
    }

    /// Hands changes over, and waits until they may be shown.
    pub async fn send(&self, writes: Vec<Write>) -> Result<(), StorageError> {
        match self.0.get() {
            Some((log, _)) if !writes.is_empty() => Ok(log(writes).await?),
            Some(_) | None => Ok(()),
        }
    }
}
