//! A launcher that draws its boundary ahead of time, while another command runs, and waits for the next one.
//!
//! There is one at most. It serves only a command with the same boundary and variables, and only while everything that
//! the boundary names is the same file as when it was drawn. An unused one ends after a few seconds.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, Metadata},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, SystemTime},
};

use super::{
    arguments,
    boundary::{Boundary, Level},
    launcher::{COMMAND, LAUNCHER, WAITING},
};
use crate::base::{
    lock::lock,
    process::{self, Child, Spawn},
};

/// The time that a launcher waits for a command.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a command that every empty pipe has room for.
const MAX_ORDER: usize = 4096;

static PREPARED: Mutex<Option<Prepared>> = Mutex::new(None);

struct Prepared {
    launcher: Child,
    key: Key,
}

/// The properties that a command must have in common with the launcher.
#[derive(PartialEq, Eq)]
struct Key {
    boundary: Boundary,
    environment: BTreeMap<String, String>,
    without: Vec<String>,
    is_parent: bool,
    files: Vec<Option<Identity>>,
    /// The Unix sockets that were bound; the full level closes them one by one.
    sockets: Vec<(PathBuf, Option<Identity>)>,
}

/// A file as a boundary holds it, and the entries of a directory.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    /// Given to another file as soon as this one is gone.
    inode: u64,
    /// None where the file system does not tell.
    created: Option<SystemTime>,
    /// Of files, and of directories whose entries are given to the command one by one.
    changed: Option<(i64, i64)>,
}

impl Key {
    fn new(spawn: &Spawn<'_>, boundary: &Boundary) -> Self {
        let Boundary { level, writable, protected, hidden, shown, sockets, .. } = boundary;
        let files = [writable, protected, hidden, shown, sockets].into_iter().flatten();
        let files = files.map(|path| Identity::of(path, false));
        // Landlock hides a path by giving everything beside it, and beside the directories above it.
        let above = hidden.iter().filter(|_| *level == Level::Landlock);
        let above = above.flat_map(|path| path.ancestors().skip(1)).map(|path| Identity::of(path, true));
        Self {
            boundary: boundary.clone(),
            environment: spawn.environment.clone(),
            without: spawn.without.to_vec(),
            is_parent: spawn.is_parent,
            files: files.chain(above).collect(),
            sockets: if level.is_full() { bound_sockets() } else { Vec::new() }
                .into_iter()
                .map(|path| {
                    let identity = Identity::of(&path, false);
                    (path, identity)
                })
                .collect(),
        }
    }
}

impl Identity {
    fn of(path: &Path, is_listed: bool) -> Option<Self> {
        let has_changed = |it: &Metadata| is_listed || !it.is_dir();
        let of = |it: Metadata| Self {
            device: it.dev(),
            inode: it.ino(),
            created: it.created().ok(),
            changed: has_changed(&it).then(|| (it.ctime(), it.ctime_nsec())),
        };
        fs::symlink_metadata(path).map(of).ok()
    }
}

#[cfg(target_os = "linux")]
use super::mounts::bound_sockets;

#[cfg(not(target_os = "linux"))]
fn bound_sockets() -> Vec<PathBuf> {
    Vec::new()
}

/// Starts the command in the launcher that waits, if it fits, and has another one prepared.
///
/// Returns none if the command has to be started afresh.
pub fn start(spawn: &Spawn<'_>, boundary: &Boundary) -> Option<Child> {
    let key = Key::new(spawn, boundary);
    let waiting = lock(&PREPARED).take().filter(|it| it.key == key);
    let started = waiting.and_then(|it| it.start(spawn).ok());
    if let Ok(launcher) = wait(spawn, boundary) {
        let group = launcher.group();
        *lock(&PREPARED) = Some(Prepared { launcher, key });
        tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            let mut prepared = lock(&PREPARED);
            prepared.take_if(|it| it.launcher.group() == group);
        });
    }
    started
}

/// Starts a launcher that draws the boundary and waits.
fn wait(spawn: &Spawn<'_>, boundary: &Boundary) -> io::Result<Child> {
    let mut args: Vec<OsString> = vec![COMMAND.into(), WAITING.into()];
    args.extend(arguments::encode(boundary, Path::new("/")));
    process::spawn(&Spawn { program: LAUNCHER.as_ref(), args: &args, stdin: true, ..*spawn })
}

impl Prepared {
    fn start(mut self, spawn: &Spawn<'_>) -> io::Result<Child> {
        let order = arguments::encode_command(spawn);
        if order.len() > MAX_ORDER {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let stdin = self.launcher.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // An empty pipe has room for all of it.
        let mut stdin = fs::File::from(stdin.into_owned_fd()?);
        stdin.write_all(&order)?;
        Ok(self.launcher)
    }
}
