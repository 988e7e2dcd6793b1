//! Skips a test on a machine that lacks something, with a line that can be counted.

use std::io::Write;

/// Prints why the test of this thread cannot run here: `skipped: NAME: reason`.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    // The harness keeps what the macros print to itself when a test succeeds.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Skips the test of an ordinary user: the daemon shows its descriptors to root alone.
pub fn sees_no_descriptors() -> bool {
    let is_ordinary = !nix::unistd::geteuid().is_root();
    if is_ordinary {
        skipped("the daemon shows its descriptors to root alone");
    }
    is_ordinary
}
