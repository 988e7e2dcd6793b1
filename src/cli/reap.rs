//! `windlass reap`, which only windlass starts: ends the children of a windlass that was killed.

use std::{ffi::OsString, process::ExitCode};

use windlass_base::process::{self, reaper};

/// Returns the id of the daemon that this process is the reaper of, by arguments that only the daemon gives.
pub fn daemon(mut arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let is_asked_for = arguments.nth(1)? == reaper::COMMAND;
    let daemon = arguments.next()?.into_string().ok()?;
    (is_asked_for && arguments.next().is_none()).then_some(daemon)
}

pub fn run(daemon: &str) -> ExitCode {
    process::hide();
    // The reaper holds no directory; its name and place matter to no other program.
    let _ = std::env::set_current_dir("/");
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_name(c"windlass-reaper");
    reaper::run(daemon, std::io::stdin().lock());
    ExitCode::SUCCESS
}
