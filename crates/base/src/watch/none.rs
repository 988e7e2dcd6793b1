//! Watcher for systems without inotify: making one always fails.

use std::{convert::Infallible, io, time::SystemTime};

use super::target::{Followed, Target};

/// A watcher that cannot be made.
pub struct Watcher(Infallible);

impl Watcher {
    /// Always fails.
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "files cannot be watched on this system"))
    }

    pub fn follow(&mut self, _targets: &[Target], _since: SystemTime) -> io::Result<Followed> {
        match self.0 {}
    }

    pub fn has_changed(&self) -> io::Result<bool> {
        match self.0 {}
    }

    pub async fn changed(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
