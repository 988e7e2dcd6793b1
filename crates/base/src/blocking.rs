//! Runs file work beside the runtime.

/// Runs work that blocks. A panic in it goes on here, so that no failure looks like an empty result.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime ends, and with it the task that waits.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}
