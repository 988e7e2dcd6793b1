//! Opens an address in the user's browser, which belongs to the user's desktop and outlives us.
#![expect(
    clippy::disallowed_methods,
    reason = "a browser must not end with the process that opened a page in it"
)]

use std::{
    io,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use super::{SERVER_PASSWORD, search};

/// The system's program that opens an address.
const OPENER: &str = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };

/// Starts the program given in the background, so that a browser that it starts is no descendant of ours: our server
/// refuses processes that we have started.
const IN_BACKGROUND: &str = r#"command -v "$0" > /dev/null || exit 127
"$0" "$1" &"#;

/// Opens an address in the browser that the user has chosen for the desktop.
pub fn open(address: &str) -> io::Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", IN_BACKGROUND, OPENER, address]).envs(search::variable()).env_remove(SERVER_PASSWORD);
    command.process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The shell only looks the program up.
    if command.status()?.success() { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}
