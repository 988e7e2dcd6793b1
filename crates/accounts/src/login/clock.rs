//! The time of logins: steady for how long something is kept, and of the calendar for the times within tokens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use windlass_base::clock;

/// A clock that tests move on, instead of waiting.
#[derive(Debug, Clone, Default)]
pub(super) struct Clock {
    /// Seconds by which it is ahead of the machine's, which is 0 outside tests.
    ahead: Arc<AtomicU64>,
}

impl Clock {
    /// Returns a moment to measure from.
    pub(super) fn instant(&self) -> Instant {
        Instant::now() + Duration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    /// Returns the seconds since 1970.
    pub(super) fn unix(&self) -> i64 {
        clock::now_ms() / 1_000 + self.ahead.load(Ordering::Relaxed).cast_signed()
    }

    #[cfg(test)]
    pub(super) fn advance(&self, time: Duration) {
        self.ahead.fetch_add(time.as_secs(), Ordering::Relaxed);
    }
}
