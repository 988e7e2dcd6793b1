//! Watchers for systems without inotify: making one always fails.

use std::{convert::Infallible, io, path::Path, time::SystemTime};

use super::{
    changes::{Changes, Lost},
    target::{Followed, Target},
};

/// A watcher that cannot be made.
pub struct Watcher(Infallible);

impl Watcher {
    /// Always fails.
    pub fn new() -> io::Result<Self> {
        Err(unsupported())
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

/// A watch of a tree that cannot be made.
pub struct TreeWatch(Infallible);

impl TreeWatch {
    /// Always fails.
    pub fn new(_root: &Path) -> io::Result<Self> {
        Err(unsupported())
    }

    pub fn add(&mut self, _directory: &Path) -> io::Result<bool> {
        match self.0 {}
    }

    pub fn take(&mut self) -> Result<Changes, Lost> {
        match self.0 {}
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "files cannot be watched on this system")
}
