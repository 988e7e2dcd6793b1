//! Locking that survives a panic elsewhere: what the mutexes here guard is right after every statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one that a panicking holder left behind.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
