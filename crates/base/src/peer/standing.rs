//! The kernel's knowledge of a caller.

/// A caller as far as the kernel tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A process of this user that nothing holds.
    Own,
    /// A process that a windlass has started for a session, a plugin or a server of tools.
    Held,
    /// A process of another user.
    OtherUser,
    /// The other end is closed, or another one has taken its place.
    Gone,
    /// A process of this user in a sandbox or a container that this process is not in.
    Confined,
    /// A process of this user that hides its open files.
    Hidden,
    /// Nothing is known, or only that it is root's.
    Unknown,
}

/// The other end of a TCP connection, as it was when the connection was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherEnd {
    /// A socket of a process on this machine, by its user and its inode.
    Socket { user: u32, inode: u64 },
    /// Closed, or another connection has taken the place of this one.
    Gone,
    /// Not on this machine, or the system does not tell.
    Unknown,
}
