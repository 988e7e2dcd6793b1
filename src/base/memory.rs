//! Gives memory that is not used any more back to the system.

/// Gives back what a large piece of work has freed.
///
/// The allocator keeps freed memory for later, in an arena per thread: what reading some hundred files needs for a
/// moment would be the daemon's for as long as it lives.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a foreign function; it takes no pointer and may be called at any time")]
pub fn give_back() {
    // SAFETY: it has no preconditions.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Other allocators give back by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
