//! A document of a provider: fetched at first use, kept for an hour, and kept on while it cannot be fetched anew.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use windlass_base::lock::lock;

use super::{clock::Clock, error::LoginError};

/// Age from which a document is fetched anew.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// Minimum time between two attempts to replace a document.
const PAUSE: Duration = Duration::from_secs(10);

/// The document, and the one request for it that may be under way.
#[derive(Debug)]
pub(super) struct Kept<T> {
    clock: Clock,
    state: Mutex<State<T>>,
    /// Held by the caller that fetches.
    flight: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State<T> {
    held: Option<(Instant, Arc<T>)>,
    /// The time of the last attempt, and its failure.
    tried: Option<(Instant, Option<LoginError>)>,
}

impl<T> Kept<T> {
    pub(super) fn new(clock: Clock) -> Self {
        let state = Mutex::new(State { held: None, tried: None });
        Self { clock, state, flight: tokio::sync::Mutex::new(()) }
    }

    /// Returns the document. An old one is replaced, and serves on if that fails or another caller is at it.
    pub(super) async fn get(
        &self,
        fetch: impl AsyncFnOnce() -> Result<T, LoginError>,
    ) -> Result<Arc<T>, LoginError> {
        let began = self.clock.instant();
        let held = lock(&self.state).held.clone();
        let Some((since, old)) = held else { return self.first(began, fetch).await };
        if began.duration_since(since) < FRESH {
            return Ok(old);
        }
        let Ok(_flight) = self.flight.try_lock() else { return Ok(old) };
        if self.is_pause() {
            return Ok(old);
        }
        match self.fetch(fetch).await {
            Ok(new) => Ok(new),
            Err(error) => {
                tracing::warn!(%error, "a login provider's document was not renewed; the last one serves on");
                Ok(old)
            }
        }
    }

    /// Returns a document newer than `known`, or `known` itself if the last attempt was too short a time ago.
    pub(super) async fn newer(
        &self,
        known: Arc<T>,
        fetch: impl AsyncFnOnce() -> Result<T, LoginError>,
    ) -> Result<Arc<T>, LoginError> {
        let _flight = self.flight.lock().await;
        let held = lock(&self.state).held.clone();
        match held {
            Some((_, held)) if !Arc::ptr_eq(&held, &known) => Ok(held),
            Some(_) | None if self.is_pause() => Ok(known),
            Some(_) | None => self.fetch(fetch).await,
        }
    }

    async fn first(
        &self,
        began: Instant,
        fetch: impl AsyncFnOnce() -> Result<T, LoginError>,
    ) -> Result<Arc<T>, LoginError> {
        let _flight = self.flight.lock().await;
        {
            let state = lock(&self.state);
            match (&state.held, &state.tried) {
                (Some((_, held)), _) => return Ok(held.clone()),
                // Callers that waited for one attempt share its failure, or a dead provider would hold up each in turn.
                (None, Some((at, Some(error)))) if *at > began => return Err(error.clone()),
                (None, _) => {}
            }
        }
        self.fetch(fetch).await
    }

    fn is_pause(&self) -> bool {
        let now = self.clock.instant();
        lock(&self.state).tried.as_ref().is_some_and(|(at, _)| now.duration_since(*at) < PAUSE)
    }

    async fn fetch(&self, fetch: impl AsyncFnOnce() -> Result<T, LoginError>) -> Result<Arc<T>, LoginError> {
        let fetched = fetch().await.map(Arc::new);
        let now = self.clock.instant();
        let mut state = lock(&self.state);
        state.tried = Some((now, fetched.as_ref().err().cloned()));
        if let Ok(new) = &fetched {
            state.held = Some((now, new.clone()));
        }
        fetched
    }
}
