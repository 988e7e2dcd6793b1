//! Finds the boundary that this machine supports by drawing one.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{io::AsyncReadExt, sync::OnceCell};

use super::{
    boundary::Level,
    early::Early,
    launcher::{COMMAND, COMPLAINT, FOUND_LANDLOCK, FOUND_NONE, LAUNCHER, MAX_REASON, PROBE},
};
use crate::process::{self, Spawn};

static FOUND: OnceCell<Found> = OnceCell::const_new();
static IS_OPEN: AtomicBool = AtomicBool::new(false);
static EARLY: Mutex<Option<Early>> = Mutex::new(None);

/// The level in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub level: Level,
    /// Reason that it is not a higher one.
    pub reason: Option<String>,
}

/// Lets boundaries be drawn from now on, for a program that can be its own launcher.
pub fn open() {
    IS_OPEN.store(true, Ordering::Relaxed);
}

/// Begins to look for the level, for a program that is going to be asked for it at once.
///
/// Saves the start of a program where this one has a single thread; does nothing otherwise.
pub fn begin() {
    if let Ok(early) = Early::begin() {
        *EARLY.lock().unwrap_or_else(PoisonError::into_inner) = Some(early);
    }
}

/// Tries once which level this machine can hold, and remembers it.
pub async fn level() -> &'static Found {
    FOUND.get_or_init(probe).await
}

/// Returns true if this machine is known to hold the full level: false before anybody has asked for it.
pub fn is_known_full() -> bool {
    FOUND.get().is_some_and(|found| found.level.is_full())
}

async fn probe() -> Found {
    if !cfg!(target_os = "linux") || !IS_OPEN.load(Ordering::Relaxed) {
        let reason = Some("sandboxes are held on Linux only".to_owned());
        return Found { level: Level::None, reason };
    }
    let early = EARLY.lock().unwrap_or_else(PoisonError::into_inner).take();
    let result = match early {
        Some(early) => early.end().await,
        None => launched().await,
    };
    let (status, said) = result.unwrap_or_else(|error| (i32::from(FOUND_NONE), error.to_string()));
    let level = match u8::try_from(status) {
        Ok(0) => Level::Full,
        Ok(FOUND_LANDLOCK) => Level::Landlock,
        Ok(_) | Err(_) => Level::None,
    };
    // The strongest level's complaint comes first.
    let reason = said.lines().next().filter(|_| !level.is_full());
    let reason = reason.map(|line| line.strip_prefix(COMPLAINT).unwrap_or(line).to_owned());
    if level == Level::None {
        tracing::warn!(reason, "commands cannot be sandboxed on this machine");
    } else {
        tracing::info!(level = level.name(), reason, "commands can be sandboxed");
    }
    Found { level, reason }
}

/// Has a launcher find out, and returns its exit status and complaints.
async fn launched() -> io::Result<(i32, String)> {
    let args: [OsString; 2] = [COMMAND.into(), PROBE.into()];
    let spawn = Spawn {
        program: LAUNCHER.as_ref(),
        args: &args,
        directory: Path::new("/"),
        environment: &BTreeMap::new(),
        without: &[],
        stdin: false,
        is_parent: false,
    };
    let mut child = process::spawn(&spawn)?;
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MAX_REASON).read_to_string(&mut said).await?;
    }
    Ok((child.wait().await?.code().unwrap_or(i32::from(FOUND_NONE)), said))
}
