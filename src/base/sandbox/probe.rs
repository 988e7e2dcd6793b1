//! Which boundary this machine can hold, found out by drawing one.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::{io::AsyncReadExt, sync::OnceCell};

use super::{Boundary, Level, Network};
use crate::base::process::Spawn;

/// Characters of a launcher's complaint.
const MAX_REASON: usize = 500;

static FOUND: OnceCell<Found> = OnceCell::const_new();
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// The level in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub level: Level,
    /// Why it is not a higher one.
    pub reason: Option<String>,
}

/// Lets boundaries be drawn from now on, for a program that can be its own launcher.
pub fn open() {
    IS_OPEN.store(true, Ordering::Relaxed);
}

/// Tries once what this machine can hold, and remembers it.
pub async fn level() -> &'static Found {
    FOUND.get_or_init(probe).await
}

async fn probe() -> Found {
    if !cfg!(target_os = "linux") || !IS_OPEN.load(Ordering::Relaxed) {
        let reason = Some("sandboxes are held on Linux only".to_owned());
        return Found { level: Level::None, reason };
    }
    let mut reason = None;
    for level in [Level::Full, Level::Landlock] {
        match attempt(level).await {
            Ok(()) => {
                tracing::info!(level = level.name(), reason, "commands can be sandboxed");
                return Found { level, reason };
            }
            Err(error) => reason = Some(reason.unwrap_or(error)),
        }
    }
    tracing::warn!(reason, "commands cannot be sandboxed on this machine");
    Found { level: Level::None, reason }
}

/// Has a launcher draw a boundary and run nothing in it.
async fn attempt(level: Level) -> Result<(), String> {
    let boundary = Boundary {
        level,
        network: Network::Allowed,
        writable: Vec::new(),
        protected: Vec::new(),
        hidden: Vec::new(),
        shown: Vec::new(),
        sockets: Vec::new(),
    };
    let spawn = Spawn {
        program: "".as_ref(),
        args: &[],
        directory: Path::new("/"),
        environment: &BTreeMap::new(),
        without: &[],
        stdin: false,
        is_parent: false,
    };
    let mut child = super::start(&spawn, &boundary, false).map_err(|error| error.to_string())?;
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MAX_REASON as u64).read_to_string(&mut said).await;
    }
    match child.wait().await {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => Err(said.trim().to_owned()),
    }
}
