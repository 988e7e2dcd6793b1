//! Signs in the answers to requests that a remote server is lost: it is down, or takes our login no more.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rmcp::{ServiceError, transport::streamable_http_client::StreamableHttpError};
use tokio_util::sync::CancellationToken;

use super::ServersLease;

/// The loss of a connection, which nothing but its requests shows. Cloning it shares it.
#[derive(Debug, Clone, Default)]
pub(super) struct Loss {
    seen: CancellationToken,
    wants_login: Arc<AtomicBool>,
}

impl Loss {
    /// Looks at the reason that a request was not answered.
    pub(super) fn note(&self, error: &ServiceError) {
        if wants_login(error) && !wants_scope(error) {
            self.wants_login.store(true, Ordering::Relaxed);
            self.seen.cancel();
        } else if let ServiceError::TransportSend(error) = error
            && let Some(StreamableHttpError::Client(error)) = error.error.downcast_ref::<HttpError>()
            && error.is_connect()
        {
            self.seen.cancel();
        }
    }

    /// Waits for the loss; true if the server wants a login.
    pub(super) async fn seen(&self) -> bool {
        self.seen.cancelled().await;
        self.wants_login.load(Ordering::Relaxed)
    }
}

impl ServersLease {
    /// Returns the servers that lost their tools because their login has ended.
    pub fn with_lost_login(&self) -> Vec<&str> {
        let slots = self.slots.values().map(|leased| &leased.slot);
        slots.filter(|slot| slot.lock().has_lost_login).map(|slot| slot.spec.name.as_str()).collect()
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// Returns true if a request needs a login that allows more: the others go on.
pub(super) fn wants_scope(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(error.error.downcast_ref::<HttpError>(), Some(StreamableHttpError::InsufficientScope(_)))
}

/// Returns true if a request was refused for want of a login.
pub(super) fn wants_login(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(
        error.error.downcast_ref::<HttpError>(),
        Some(
            StreamableHttpError::AuthRequired(_)
                | StreamableHttpError::InsufficientScope(_)
                | StreamableHttpError::Auth(_)
        )
    )
}
