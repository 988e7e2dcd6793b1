//! Makes the listener of the proxy in a command's own network, and hands it over to the daemon.

use std::{
    io::{self, IoSlice},
    net::{Ipv4Addr, TcpListener},
    os::fd::{AsRawFd, OwnedFd},
};

use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};

use super::boundary::PROXY_PORT;

/// Listens where the command's programs look for the proxy. The daemon accepts, and this process keeps nothing.
pub fn hand_over(door: OwnedFd) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    let descriptors = [listener.as_raw_fd()];
    let message = [ControlMessage::ScmRights(&descriptors)];
    // A message of no bytes carries nothing.
    let parts = [IoSlice::new(&[0])];
    sendmsg::<UnixAddr>(door.as_raw_fd(), &parts, &message, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}
