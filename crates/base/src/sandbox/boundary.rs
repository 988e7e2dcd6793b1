//! A boundary as it is asked for, and the levels at which a machine can hold one.

use std::path::PathBuf;

/// The port of the proxy in a command's own network.
pub const PROXY_PORT: u16 = 3128;

/// Strength of the boundary that this machine supports.
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
    /// A loopback of its own, with a proxy on it that the daemon serves.
    Named,
}

impl Network {
    /// Returns true for a network of the command's own.
    pub fn is_own(self) -> bool {
        match self {
            Self::Loopback | Self::Named => true,
            Self::Allowed | Self::Denied => false,
        }
    }
}

/// Limits of a command. All paths are absolute and have their links followed.
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
    /// Paths below hidden directories that can be read.
    pub shown: Vec<PathBuf>,
    /// Unix sockets at or below these may be connected to.
    pub sockets: Vec<PathBuf>,
}
