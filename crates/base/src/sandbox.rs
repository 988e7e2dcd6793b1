//! The boundary around a command: the limits of its writing, reading and reach, held by the kernel.
//!
//! With Landlock alone, a command restricts itself between its fork and its program. In the full level the daemon starts
//! this very program again as a launcher ([`COMMAND`]), which draws the boundary and starts the command in it. Nothing
//! here judges the text of a command.

use std::{ffi::OsString, io, os::fd::OwnedFd};

use self::launcher::{LAUNCHER, REPORTING, WITH_CHANNEL};
use super::process::{self, Child, Spawn};

mod arguments;
mod boundary;
mod early;
mod identity;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod launch;
mod launcher;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod network;
mod prepared;
mod probe;
#[cfg(target_os = "linux")]
mod restriction;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod sys;

pub use boundary::{Boundary, Level, Network, PROXY_PORT};
pub use launcher::{COMMAND, FAILED};
pub use probe::{Found, begin, is_known_full, level, open};

/// Starts a command within a boundary, as [`process::spawn`] does without one.
pub fn spawn(spawn: &Spawn<'_>, boundary: &Boundary) -> io::Result<Child> {
    spawn_with_channel(spawn, boundary, None)
}

/// Starts a command within a boundary, with one end of a channel as [`process::spawn_with_channel`] gives it.
pub fn spawn_with_channel(
    spawn: &Spawn<'_>,
    boundary: &Boundary,
    channel: Option<OwnedFd>,
) -> io::Result<Child> {
    #[cfg(target_os = "linux")]
    if !boundary.level.is_full() {
        return process::spawn_with_step(spawn, restriction::Restriction::of(boundary)?, channel);
    }
    // The processes of a namespace end with its launcher, and the launcher ends with us.
    let spawn = &Spawn { is_parent: false, ..*spawn };
    // A child with an input or a channel is a server; another one may never be started.
    let is_server = spawn.stdin || channel.is_some();
    if let Some(child) = (!is_server).then(|| prepared::start(spawn, boundary)).flatten() {
        return Ok(child);
    }
    let mut args: Vec<OsString> = vec![COMMAND.into(), REPORTING.into()];
    args.extend(channel.is_some().then(|| WITH_CHANNEL.into()));
    args.extend(arguments::encode(boundary, spawn.directory));
    args.push(spawn.program.to_owned());
    args.extend(spawn.args.iter().cloned());
    launcher::start(&Spawn { program: LAUNCHER.as_ref(), args: &args, ..*spawn }, boundary, channel)
}

/// Runs the launcher when the arguments ask for it: `program sandbox …`.
#[cfg(target_os = "linux")]
pub fn launch(mut arguments: impl Iterator<Item = OsString>) -> Option<std::process::ExitCode> {
    (arguments.nth(1)? == COMMAND).then(|| launch::run(arguments))
}

/// Returns `None`: this system has no launcher.
#[cfg(not(target_os = "linux"))]
pub fn launch(_: impl Iterator<Item = OsString>) -> Option<std::process::ExitCode> {
    None
}
