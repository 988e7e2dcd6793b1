//! Locking that survives a panic of another holder: the data guarded here is consistent after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
