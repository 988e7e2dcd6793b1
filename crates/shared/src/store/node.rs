//! This process as a node of the fleet: its row, the time until which its leases hold, and its life as others on this
//! machine can see it.
//!
//! A node's leases hold for as long as its row says, by the database's clock. The process itself counts from the moment
//! before it asked for more time, on a clock that no one sets and that goes on while the machine sleeps.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};
use windlass_base::ids;

/// Characters of a node's id.
const ID_CHARS: usize = 20;
/// The part of a lease that is left unused, for the time that a statement takes to be carried out: a tenth.
const MARGIN: u32 = 10;

/// A registered node.
#[derive(Debug)]
pub struct Node {
    pub id: String,
    /// On the clock of [`now`].
    pub valid_until: Duration,
    /// Milliseconds that the database's clock is ahead of this machine's.
    pub clock_ahead_ms: i64,
    /// Locked for as long as the process lives.
    _life: Option<File>,
}

impl Node {
    /// Makes a node with a new id that is not valid yet.
    pub fn new(directory: &Path) -> Self {
        let id = ids::random(ID_CHARS);
        let life = begin_life(directory, &id)
            .inspect_err(|error| tracing::debug!(%error, "others wait for this node's lease when it dies"));
        Self { id, valid_until: Duration::ZERO, clock_ahead_ms: 0, _life: life.ok() }
    }

    /// Notes that the database gave more time, for a question that was asked at `asked`.
    pub fn renew(&mut self, asked: Duration, lease: Duration, clock_ahead_ms: i64) {
        self.valid_until = valid_until(asked, lease);
        self.clock_ahead_ms = clock_ahead_ms;
    }

    pub fn is_valid(&self) -> bool {
        now() < self.valid_until
    }
}

/// Returns the time until which a lease holds that was asked for at a time.
pub fn valid_until(asked: Duration, lease: Duration) -> Duration {
    asked + lease - lease / MARGIN
}

/// Returns the time since the machine was started, its sleep included.
pub fn now() -> Duration {
    #[cfg(target_os = "linux")]
    let clock = ClockId::CLOCK_BOOTTIME;
    // There it goes on while the machine sleeps.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::CLOCK_MONOTONIC;
    clock_gettime(clock).map(Duration::from).unwrap_or_default()
}

/// Returns a name for this machine and store: processes with the same one can see each other's lives.
pub fn machine(directory: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // Containers of one machine share its boot.
    let mounts = fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    let place = fs::metadata(directory).map(|it| (it.dev(), it.ino())).unwrap_or_default();
    format!("{} {} {}:{}", boot.trim(), mounts.display(), place.0, place.1)
}

fn begin_life(directory: &Path, id: &str) -> io::Result<File> {
    let path = life(directory, id);
    DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(directory))?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.try_lock().map_err(io::Error::from)?;
    Ok(file)
}

/// Returns true if a process of this machine and store has ended.
pub fn has_ended(directory: &Path, id: &str) -> bool {
    let path = life(directory, id);
    // Without its file nobody can tell.
    let Ok(file) = OpenOptions::new().write(true).open(&path) else { return false };
    file.try_lock().is_ok()
}

/// Removes a node's file; everybody knows that the node has ended.
pub fn end_life(directory: &Path, id: &str) {
    let _ = fs::remove_file(life(directory, id));
}

fn life(directory: &Path, id: &str) -> PathBuf {
    // An id from the store is not to lead elsewhere.
    let name: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    directory.join("nodes").join(name)
}
