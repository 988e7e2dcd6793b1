//! The boundary around a command: what it may write, read and reach, held by the kernel.
//!
//! The daemon starts this very program again as a launcher ([`COMMAND`]), which draws the boundary around itself and
//! then becomes, or starts, the command. Nothing here judges the text of a command.

use std::{ffi::OsString, io, path::PathBuf};

use super::process::{self, Child, Spawn};

mod arguments;
mod early;
#[cfg(target_os = "linux")]
mod launch;
#[cfg(target_os = "linux")]
mod mounts;
mod probe;
#[cfg(target_os = "linux")]
mod restrict;
#[cfg(target_os = "linux")]
mod seccomp;
#[cfg(target_os = "linux")]
mod sys;

pub use probe::{Found, begin, level, open};

/// The hidden command by which this program is a launcher.
pub const COMMAND: &str = "sandbox";

/// This very program, also when its file was replaced.
const LAUNCHER: &str = "/proc/self/exe";

/// The launcher's argument that asks for the level alone.
const PROBE: &str = "probe";

/// Stands before the reason in the complaint of a launcher that ran nothing.
const COMPLAINT: &str = "windlass: the sandbox could not be set up, and the command did not run: ";

/// Exit status of a launcher that could not draw the boundary, and so ran nothing.
pub const FAILED: u8 = 126;

/// How much of a boundary this machine can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Namespaces, read-only mounts, Landlock where there is one, and seccomp.
    Full,
    /// Landlock and seccomp: files inside a writable directory cannot be protected.
    Landlock,
    /// Nothing can be enforced.
    None,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
            Self::None => "none",
        }
    }

    pub fn is_full(self) -> bool {
        self == Self::Full
    }
}

/// The network a command sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    Allowed,
    Denied,
    /// A loopback of its own, which nobody outside can reach.
    Loopback,
}

/// What a command may do to the machine. All paths are absolute and have their links followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boundary {
    /// Never [`Level::None`] when something is started.
    pub level: Level,
    pub network: Network,
    /// Files and directories that may be written, with all that is below.
    pub writable: Vec<PathBuf>,
    /// Files and directories among them that may not.
    pub protected: Vec<PathBuf>,
    /// Files and directories that cannot be read.
    pub hidden: Vec<PathBuf>,
    /// What can be read below hidden directories.
    pub shown: Vec<PathBuf>,
    /// Unix sockets at or below these may be connected to.
    pub sockets: Vec<PathBuf>,
}

/// Starts a command within a boundary, as [`process::spawn`] does without one.
pub fn spawn(spawn: &Spawn<'_>, boundary: &Boundary) -> io::Result<Child> {
    let mut args: Vec<OsString> = vec![COMMAND.into()];
    args.extend(arguments::encode(boundary, spawn.directory));
    args.push(spawn.program.to_owned());
    args.extend(spawn.args.iter().cloned());
    process::spawn(&Spawn {
        program: LAUNCHER.as_ref(),
        args: &args,
        // What a process namespace holds ends with its launcher, and that with us.
        is_parent: spawn.is_parent && boundary.level != Level::Full,
        ..*spawn
    })
}

/// Runs the launcher when the arguments ask for it: `program sandbox …`.
#[cfg(target_os = "linux")]
pub fn launch(mut arguments: impl Iterator<Item = OsString>) -> Option<std::process::ExitCode> {
    (arguments.nth(1)? == COMMAND).then(|| launch::run(arguments))
}

/// There is no launcher here.
#[cfg(not(target_os = "linux"))]
pub fn launch(_: impl Iterator<Item = OsString>) -> Option<std::process::ExitCode> {
    None
}
