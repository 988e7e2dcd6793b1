//! Opens an address in the user's browser, which belongs to the user's desktop and outlives us.
#![expect(
    clippy::disallowed_methods,
    reason = "a browser must not end with the process that opened a page in it"
)]

use std::{io, process::Stdio};

use tokio::process::Command;

use super::{SERVER_PASSWORD, search};

/// The system's program that opens an address.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Opens an address in the browser that the user has chosen for the desktop.
pub fn open(address: &str) -> io::Result<()> {
    let mut command = Command::new(OPENER);
    command.arg(address).envs(search::variable()).env_remove(SERVER_PASSWORD).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The runtime waits for it, so that nothing is left of it in the table of processes.
    command.spawn().map(drop)
}
