//! Returns unused memory to the system.

/// Returns the memory that a large piece of work has freed to the system.
///
/// The allocator keeps freed memory for later use, in an arena per thread. Without this call, the daemon would
/// keep for its lifetime the memory that reading some hundred files needs for a moment.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a foreign function; it takes no pointer and may be called at any time")]
pub fn give_back() {
    // SAFETY: it has no preconditions.
    unsafe { nix::libc::malloc_trim(0) };
}

/// Does nothing: other allocators return memory by themselves.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}
