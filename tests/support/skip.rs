//! Skips a test on a machine that lacks something, with a line that can be counted.

use std::{fs::File, io::Write, path::Path};

/// Says why this thread's test cannot run here: `skipped: NAME: reason`, in the runner's directory if it names one.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {reason}\n", thread.name().unwrap_or("a test"));
    match std::env::var_os("WINDLASS_TEST_SKIPPED") {
        // A runner keeps a test's output to itself when it succeeds.
        Some(directory) => {
            let file = Path::new(&directory).join(std::process::id().to_string());
            let opened = File::options().create(true).append(true).open(file);
            opened.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
        }
        // So does the harness, with the macros' output.
        None => _ = std::io::stderr().write_all(line.as_bytes()),
    }
}

/// Skips the test of an ordinary user: the daemon shows its descriptors to root alone.
pub fn sees_no_descriptors() -> bool {
    let is_ordinary = !nix::unistd::geteuid().is_root();
    if is_ordinary {
        skipped("the daemon shows its descriptors to root alone");
    }
    is_ordinary
}
