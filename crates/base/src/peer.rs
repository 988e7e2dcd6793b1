//! Finds out about the process at the other end of a connection: its user, and if this program or a sandbox holds it.

mod standing;

pub use standing::{OtherEnd, Standing};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{is_here, may_be_windlass, of_process, of_socket, other_end};
#[cfg(target_os = "linux")]
pub use linux::{is_here, may_be_windlass, of_process, of_socket, other_end};

#[cfg(target_os = "linux")]
mod linux;

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::net::SocketAddr;

    use nix::unistd::geteuid;

    use super::standing::{OtherEnd, Standing};

    /// Returns nothing: this system does not tell.
    pub fn other_end(_: u64, _: SocketAddr, _: SocketAddr) -> OtherEnd {
        OtherEnd::Unknown
    }

    /// Returns true for an address of this machine, as far as its own end tells.
    pub fn is_here(own: SocketAddr, other: SocketAddr) -> bool {
        other.ip().is_loopback() || own.ip() == other.ip()
    }

    /// Returns true: this system does not tell.
    pub fn may_be_windlass(_: SocketAddr) -> bool {
        true
    }

    /// Judges nothing: this system does not tell the owner of a socket.
    pub fn of_socket(_: u32, _: u64) -> Standing {
        Standing::Unknown
    }

    /// Judges the process that connected to a Unix socket by its user.
    pub fn of_process(user: u32, _: Option<i32>) -> Standing {
        match user {
            user if user == geteuid().as_raw() => Standing::Own,
            0 => Standing::Unknown,
            _ => Standing::OtherUser,
        }
    }
}
