//! Errors of the engine for front ends.

use windlass_base::log;
use windlass_core::storage::{StorageError, outlet::SharedError};
use windlass_protocol::opencode::id::SessionId;
use windlass_provider::ProviderError;

/// A failure with a sentence for the user.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct EngineError {
    pub kind: EngineErrorKind,
    pub message: String,
}

/// Kinds of errors that a front end branches on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineErrorKind {
    /// No such session, or it is not open here.
    SessionNotFound(SessionId),
    /// The chosen session id is taken.
    SessionExists,
    /// The session is at work, and this has to wait until it is idle.
    SessionBusy,
    /// The prompt is for a turn that runs, and none does.
    NoTurn,
    /// The session has no such message or part.
    MessageNotFound,
    /// A parameter names something that does not exist.
    InvalidInput,
    /// The session is another node's of the fleet.
    OtherNode,
    /// The provider wants other credentials, or there are none.
    AuthRequired,
    /// The model that was named cannot be had, and a login would not help.
    ModelUnusable,
    /// The model did not give its answer in the form that was asked for, however often it tried again.
    StructuredOutput { retries: u32 },
    /// The conversation does not fit the model's context.
    ContextOverflow,
    /// The provider failed.
    Provider,
    /// The store failed; a session's memory may be ahead of it.
    Store,
    /// Our own fault.
    Internal,
}

impl EngineError {
    pub fn new(kind: EngineErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub fn session_not_found(id: &SessionId) -> Self {
        Self::new(EngineErrorKind::SessionNotFound(id.clone()), format!("no such session: {id}"))
    }
}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> Self {
        if let StorageError::Shared(error) = error {
            return error.into();
        }
        tracing::error!(target: log::SHOWN, %error, "the store failed");
        Self::new(EngineErrorKind::Store, error.to_string())
    }
}

impl From<SharedError> for EngineError {
    fn from(error: SharedError) -> Self {
        let kind = match error {
            SharedError::Fenced { .. } | SharedError::Elsewhere { .. } | SharedError::At { .. } => {
                EngineErrorKind::OtherNode
            }
            SharedError::Unreachable { .. }
            | SharedError::Refused { .. }
            | SharedError::Unreadable { .. }
            | SharedError::Setting { .. }
            | SharedError::Local(_) => EngineErrorKind::Store,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<&ProviderError> for EngineError {
    fn from(error: &ProviderError) -> Self {
        let kind = match error {
            ProviderError::Auth { .. } => EngineErrorKind::AuthRequired,
            ProviderError::Overflow { .. } => EngineErrorKind::ContextOverflow,
            ProviderError::RateLimited { .. }
            | ProviderError::Overloaded { .. }
            | ProviderError::Api { .. }
            | ProviderError::Transport { .. }
            | ProviderError::NotRunning { .. }
            | ProviderError::Silent { .. } => EngineErrorKind::Provider,
            ProviderError::Unsent { .. } => EngineErrorKind::Internal,
        };
        let way_out = match error {
            // Says by itself which key is wanted and where to put it, or which plugin failed.
            ProviderError::Auth { .. } | ProviderError::Unsent { .. } => "",
            ProviderError::RateLimited { .. } | ProviderError::Overloaded { .. } => {
                " Try again later, or choose another model."
            }
            ProviderError::Overflow { .. } => {
                " Type `/compact` to have the conversation summarised, begin a new session, or choose a model with \
                 a larger context."
            }
            ProviderError::Api { .. } => " Check the model and the provider's settings.",
            ProviderError::NotRunning { .. } => " Start it, or correct the provider's base URL.",
            ProviderError::Transport { .. } | ProviderError::Silent { .. } => {
                " Check the connection and the provider's base URL, and send the prompt again."
            }
        };
        let text = error.to_string();
        let is_ended = way_out.is_empty() || text.ends_with(['.', '!', '?', '…', ':']);
        Self::new(kind, format!("{text}{}{way_out}", if is_ended { "" } else { "." }))
    }
}
