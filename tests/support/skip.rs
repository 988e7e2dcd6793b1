//! Skips a test on a machine that lacks something, with a line that can be counted.

use std::{fs::File, io::Write, path::Path, process::Command};

use super::agent::binary;

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

/// Skips the test, or a part of it, where a program is missing.
pub fn lacks_program(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {name}")]).output();
    let is_missing = !found.is_ok_and(|it| it.status.success());
    if is_missing {
        skipped(&format!("there is no {name}"));
    }
    is_missing
}

/// Skips the test, or a part of it, where the kernel has no Landlock.
pub fn lacks_landlock() -> bool {
    let is_lacking = !has_landlock();
    if is_lacking {
        skipped("the kernel has no Landlock");
    }
    is_lacking
}

fn has_landlock() -> bool {
    let tried = Command::new(binary()).args(["sandbox", "landlock", "allow", "--", "/", "true"]).output();
    tried.is_ok_and(|it| it.status.success())
}

/// Returns true if Landlock keeps a process from the abstract sockets of others, as it does from Linux 6.12.
pub fn has_scopes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12)) && has_landlock()
}

/// Skips the test of an ordinary user: the daemon shows its descriptors to root alone.
pub fn sees_no_descriptors() -> bool {
    let is_ordinary = !nix::unistd::geteuid().is_root();
    if is_ordinary {
        skipped("the daemon shows its descriptors to root alone");
    }
    is_ordinary
}
