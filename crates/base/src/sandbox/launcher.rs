//! The launcher as the daemon sees it: arguments, exit statuses, and its start.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
};

use super::boundary::{Boundary, Network};
use crate::process::{self, Child, Spawn};

/// The hidden command by which this program is a launcher.
pub const COMMAND: &str = "sandbox";

/// This very program, also when its file was replaced.
pub const LAUNCHER: &str = "/proc/self/exe";

/// The launcher's argument that asks for the level alone.
pub const PROBE: &str = "probe";

/// The launcher's argument that has it report the exit status, as [`process::REPORT`](crate::process::REPORT) says.
pub const REPORTING: &str = "report";

/// The launcher's argument that has it give the command the descriptor
/// [`process::CHANNEL`](crate::process::CHANNEL).
pub const WITH_CHANNEL: &str = "channel";

/// The launcher's argument that has it wait for the command, behind its boundary.
pub const WAITING: &str = "wait";

/// Stands before the reason in the complaint of a launcher that ran nothing.
pub const COMPLAINT: &str = "windlass: the sandbox could not be set up, and the command did not run: ";

/// Exit status of a launcher that could not draw the boundary, and so ran nothing.
pub const FAILED: u8 = 126;

/// Exit status of a probe that found the Landlock level; success is the full one.
pub const FOUND_LANDLOCK: u8 = 1;
/// Exit status of a probe that found no level.
pub const FOUND_NONE: u8 = 2;

/// Characters of a launcher's complaint.
pub const MAX_REASON: u64 = 500;

/// Starts a launcher, with a door where the daemon is to serve the command's network.
pub fn start(spawn: &Spawn<'_>, boundary: &Boundary, channel: Option<OwnedFd>) -> io::Result<Child> {
    if boundary.network != Network::Named {
        return process::spawn_reporting(spawn, channel, None);
    }
    let (ours, theirs) = UnixStream::pair()?;
    let mut child = process::spawn_reporting(spawn, channel, Some(theirs.into()))?;
    child.door = Some(ours);
    Ok(child)
}
