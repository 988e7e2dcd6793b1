//! A launcher of the full level that draws its boundary ahead of time and waits for the next command.
//!
//! It is started a little after a command, out of the way of a short one. There is one at most. It serves only a command
//! with the same boundary and variables, and only while everything that the boundary names is the same file as when it
//! was drawn. An unused one ends after a few seconds.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use nix::unistd::Pid;

use super::{
    arguments,
    boundary::Boundary,
    identity::{Identity, of_paths},
    launcher::{self, COMMAND, LAUNCHER, REPORTING, WAITING},
};
use crate::{
    lock::lock,
    process::{Child, Spawn},
};

/// The time from the start of a command to that of the next launcher: a short command has ended by then, and the model is
/// asked again.
const LATER: Duration = Duration::from_millis(30);

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
struct Key {
    boundary: Boundary,
    environment: BTreeMap<String, String>,
    without: Vec<String>,
    files: Vec<Option<Identity>>,
    /// The Unix sockets that were bound, which are closed one by one.
    sockets: Vec<(PathBuf, Option<Identity>)>,
}

impl Key {
    fn new(boundary: Boundary, environment: BTreeMap<String, String>, without: Vec<String>) -> Self {
        let (files, sockets) = (files(&boundary), sockets());
        Self { boundary, environment, without, files, sockets }
    }

    /// Returns true if a command has everything in common with this.
    fn fits(&self, spawn: &Spawn<'_>, boundary: &Boundary) -> bool {
        self.boundary == *boundary
            && self.environment == *spawn.environment
            && self.without == spawn.without
            && self.files == files(boundary)
            && self.sockets == sockets()
    }
}

fn files(boundary: &Boundary) -> Vec<Option<Identity>> {
    let Boundary { writable, protected, hidden, shown, sockets, .. } = boundary;
    of_paths([writable, protected, hidden, shown, sockets].into_iter().flatten()).collect()
}

fn sockets() -> Vec<(PathBuf, Option<Identity>)> {
    let with_identity = |path: PathBuf| {
        let identity = Identity::of(&path);
        (path, identity)
    };
    bound_sockets().into_iter().map(with_identity).collect()
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
    let waiting = lock(&PREPARED).take();
    let started = waiting.filter(|it| it.key.fits(spawn, boundary)).and_then(|it| it.start(spawn).ok());
    // Copied while the command starts.
    let (boundary, directory) = (boundary.clone(), spawn.directory.to_owned());
    let (environment, without) = (spawn.environment.clone(), spawn.without.to_vec());
    tokio::spawn(async move {
        tokio::time::sleep(LATER).await;
        if lock(&PREPARED).is_some() {
            return;
        }
        let Ok(group) = prepare(boundary, environment, without, &directory) else { return };
        tokio::time::sleep(PATIENCE).await;
        let mut prepared = lock(&PREPARED);
        prepared.take_if(|it| it.launcher.group() == group);
    });
    started
}

/// Has a launcher wait for such a command, and returns its process group.
fn prepare(
    boundary: Boundary,
    environment: BTreeMap<String, String>,
    without: Vec<String>,
    directory: &Path,
) -> io::Result<Pid> {
    // The files may be others than those of the last command.
    let key = Key::new(boundary, environment, without);
    let spawn = Spawn {
        program: LAUNCHER.as_ref(),
        args: &[],
        directory,
        environment: &key.environment,
        without: &key.without,
        stdin: true,
        is_parent: false,
    };
    let launcher = wait(&spawn, &key.boundary)?;
    let group = launcher.group();
    *lock(&PREPARED) = Some(Prepared { launcher, key });
    Ok(group)
}

/// Starts a launcher that draws the boundary and waits.
fn wait(spawn: &Spawn<'_>, boundary: &Boundary) -> io::Result<Child> {
    let mut args: Vec<OsString> = vec![COMMAND.into(), WAITING.into(), REPORTING.into()];
    args.extend(arguments::encode(boundary, Path::new("/")));
    launcher::start(&Spawn { args: &args, ..*spawn }, boundary, None)
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
