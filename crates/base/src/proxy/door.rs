//! Receives the listener that a launcher made inside a command's network.

use std::{
    io::{self, IoSliceMut},
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::UnixStream,
    },
};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, UnixAddr, recvmsg};
use tokio::io::Interest;

/// Returns the listener; none if the launcher ended without one.
pub async fn receive(door: UnixStream) -> io::Result<Option<OwnedFd>> {
    door.set_nonblocking(true)?;
    let door = tokio::net::UnixStream::from_std(door)?;
    loop {
        door.readable().await?;
        match door.try_io(Interest::READABLE, || take(&door)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            taken => return taken,
        }
    }
}

#[expect(unsafe_code, reason = "a descriptor that was received is a number until it is owned")]
fn take(door: &tokio::net::UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<UnixAddr>(door.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let received = message.cmsgs()?.find_map(|it| match it {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _other => None,
    });
    // SAFETY: the kernel has just given us this descriptor, which nothing else owns; there is room for one only.
    Ok(received.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) }))
}
