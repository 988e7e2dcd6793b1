//! Attempts to log in that clients look at: each with its end, once there is one.

use std::{path::PathBuf, sync::Mutex, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use windlass_base::{clock, lock::lock};

/// Time that an attempt may take.
pub const LIMIT: Duration = Duration::from_secs(15 * 60);
/// Attempts that are remembered.
const MAX_ATTEMPTS: usize = 64;

/// The attempts of this server, the oldest first.
#[derive(Default)]
pub struct Attempts(Mutex<Vec<Attempt>>);

/// End of an attempt, once there is one.
pub type End = Option<Result<(), String>>;

/// A login that was begun. Dropped, nobody waits for it any more.
pub struct Attempt {
    pub id: String,
    pub provider: String,
    pub created: i64,
    pub end: watch::Sender<End>,
    /// The directory of the plugin that waits for a code; none where the login ends by itself.
    pub code_for: Option<PathBuf>,
    /// Waits for the end.
    _task: Option<AbortOnDropHandle<()>>,
}

impl Attempt {
    /// Notes an attempt that begins now; `task` waits for its end.
    pub fn new(
        id: String,
        provider: String,
        end: watch::Sender<End>,
        code_for: Option<PathBuf>,
        task: Option<AbortOnDropHandle<()>>,
    ) -> Self {
        Self { id, provider, created: clock::now_ms(), end, code_for, _task: task }
    }

    /// Returns when it began, and when it is given up.
    pub fn times(&self) -> Value {
        json!({"created": self.created, "expires": self.expires()})
    }

    /// Returns when it is given up.
    pub fn expires(&self) -> i64 {
        self.created.saturating_add(i64::try_from(LIMIT.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Attempts {
    /// Looks at an attempt; none where it is not known.
    pub fn with<T>(&self, id: &str, look: impl FnOnce(&Attempt) -> T) -> Option<T> {
        lock(&self.0).iter().find(|it| it.id == id).map(look)
    }

    /// Adds an attempt; the oldest is forgotten where there are many.
    pub fn push(&self, attempt: Attempt) {
        let mut attempts = lock(&self.0);
        if attempts.len() >= MAX_ATTEMPTS {
            attempts.remove(0);
        }
        attempts.push(attempt);
    }

    /// Forgets an attempt, and returns it.
    pub fn remove(&self, id: &str) -> Option<Attempt> {
        let mut attempts = lock(&self.0);
        let index = attempts.iter().position(|it| it.id == id)?;
        Some(attempts.remove(index))
    }
}
