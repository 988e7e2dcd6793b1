//! Locks on single sessions of a store, between processes: shared while a process has a session in memory, exclusive while
//! one changes it behind the others' backs.
//!
//! Each session is one byte of a lock file beside the store; the system releases it with the end of the process.

use std::{
    collections::HashMap,
    fs::{DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};
use windlass_base::{hash, lock::lock};
use windlass_protocol::opencode::id::SessionId;

/// The locks of this process.
#[derive(Clone)]
pub struct SessionLocks {
    path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Opened by the first lock; `None` where no file can be made or locked, and no session is locked.
    file: Option<Option<File>>,
    /// The number of guards of each byte.
    held: HashMap<i64, usize>,
}

/// A shared lock on a session, released when dropped.
pub struct SessionLock {
    locks: SessionLocks,
    byte: i64,
}

/// An exclusive lock on a session that this process holds anyway; dropped, it is shared again.
pub struct SoleUse<'a>(&'a SessionLock);

impl SessionLocks {
    /// Makes the locks of a store; nothing is read or written yet.
    pub fn new(store: &std::path::Path) -> Self {
        Self { path: store.with_extension("db-sessions"), state: Arc::default() }
    }

    /// Locks a session together with all others that have it in memory; waits while one of them has it alone.
    pub async fn share(&self, id: &SessionId) -> SessionLock {
        let guard = SessionLock { locks: self.clone(), byte: byte(id) };
        let is_held = {
            let mut state = lock(&self.state);
            *state.held.entry(guard.byte).or_default() += 1;
            state.set(&self.path, guard.byte, libc::F_RDLCK)
        };
        if !is_held {
            let (locks, byte) = (self.clone(), guard.byte);
            // The other process holds it for as long as it restores files.
            let waited = tokio::task::spawn_blocking(move || locks.wait(byte)).await;
            if let Err(error) = waited.map_err(io::Error::other).flatten() {
                tracing::error!(session = %id, %error, "a session in use elsewhere was not waited for");
            }
        }
        guard
    }

    /// Waits for the shared lock of a byte. Blocks.
    fn wait(&self, byte: i64) -> io::Result<()> {
        let file = match lock(&self.state).file.as_ref().and_then(Option::as_ref) {
            Some(file) => file.try_clone()?,
            // Without a file nothing is locked.
            None => return Ok(()),
        };
        loop {
            match fcntl(&file, FcntlArg::F_OFD_SETLKW(&range(byte, libc::F_RDLCK))) {
                Ok(_) => return Ok(()),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl SessionLock {
    /// Takes the session alone; `None` if another process has it in memory.
    pub fn alone(&self) -> Option<SoleUse<'_>> {
        let mut state = lock(&self.locks.state);
        state.set(&self.locks.path, self.byte, libc::F_WRLCK).then(|| SoleUse(self))
    }
}

impl Drop for SoleUse<'_> {
    fn drop(&mut self) {
        let SessionLock { locks, byte } = self.0;
        lock(&locks.state).set(&locks.path, *byte, libc::F_RDLCK);
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        let mut state = lock(&self.locks.state);
        let n_guards = state.held.entry(self.byte).or_default();
        *n_guards = n_guards.saturating_sub(1);
        if *n_guards == 0 {
            state.held.remove(&self.byte);
            state.set(&self.locks.path, self.byte, libc::F_UNLCK);
        }
    }
}

impl State {
    /// Sets the lock of a byte. Returns false if another process holds it; where there are no locks, all are free.
    fn set(&mut self, path: &std::path::Path, byte: i64, kind: i32) -> bool {
        let file = self.file.get_or_insert_with(|| {
            let directory = path.parent()?;
            DirBuilder::new().recursive(true).mode(0o700).create(directory).ok()?;
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(path).ok()
        });
        let Some(file) = file else { return true };
        match fcntl(&*file, FcntlArg::F_OFD_SETLK(&range(byte, kind))) {
            Ok(_) => true,
            Err(error) => !matches!(error, Errno::EAGAIN | Errno::EACCES),
        }
    }
}

fn byte(id: &SessionId) -> i64 {
    // The offset of a lock is a positive number.
    i64::try_from(hash::fnv(id.as_str().as_bytes()) >> 2).unwrap_or_default()
}

fn range(byte: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests;
