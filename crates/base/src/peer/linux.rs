//! Reads `/proc` for the owner of a socket, and for the windlass or sandbox that holds a process.

use std::{
    collections::BTreeSet,
    fs, io,
    net::SocketAddr,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use nix::unistd::geteuid;

use super::standing::{OtherEnd, Standing};
use crate::{
    lock::lock,
    process::{
        child_table,
        tree::{CHILD_TAG, SEPARATOR},
    },
};

mod socket;

/// Callers that are looked at first: most clients connect more than once.
const MAX_RECENT: usize = 8;
/// Ancestors of a process that are followed; a chain that is longer is no ordinary one.
const MAX_ANCESTORS: usize = 4096;
/// Walks up the ancestors before a process counts as one that hides.
const MAX_WALKS: usize = 4;

/// Set once the kernel has told of a connection: some sandboxes have neither the question nor the table.
static TELLS: AtomicBool = AtomicBool::new(false);

static RECENT: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Asks for the other end of a connection that was just taken; `own_inode` is that of its socket.
///
/// A connection may be over by now, and a port be somebody else's: data sent before would count as theirs.
pub fn other_end(own_inode: u64, own: SocketAddr, other: SocketAddr) -> OtherEnd {
    let (client, server) = socket::ends(other, own);
    // Behind the question about the client, so that it was connected when that was answered.
    match server {
        Some(end) if end.inode == own_inode && end.is_connected() => TELLS.store(true, Ordering::Relaxed),
        None if !TELLS.load(Ordering::Relaxed) => return OtherEnd::Unknown,
        Some(_) | None => return OtherEnd::Gone,
    }
    match client {
        Some(end) if end.inode != 0 && end.is_connected() => {
            OtherEnd::Socket { user: end.user, inode: end.inode }
        }
        Some(_) => OtherEnd::Gone,
        None => OtherEnd::Unknown,
    }
}

/// Returns true if the other end of a connection is on this machine.
pub fn is_here(own: SocketAddr, other: SocketAddr) -> bool {
    let is_same = other.ip().to_canonical().is_loopback() || own.ip() == other.ip();
    is_same || socket::ends(other, own).0.is_some()
}

/// Returns true if a windlass of this user listens at an address of this machine, or a process that hides. Does
/// blocking reads.
pub fn may_be_windlass(address: SocketAddr) -> bool {
    match socket::listener(address) {
        Ok(Some(end)) => {
            of_user(end.user).is_none()
                && holder(end.user, end.inode).is_none_or(|pid| is_windlass(pid).unwrap_or(true))
        }
        // Forwarded by the kernel.
        Ok(None) => false,
        Err(_) => true,
    }
}

/// Returns true for this process, and for others that run this program or one of its name.
fn is_windlass(pid: i32) -> io::Result<bool> {
    let (file, own) = (fs::metadata(proc(pid, "exe"))?, fs::metadata("/proc/self/exe")?);
    let program = fs::read_link(proc(pid, "exe"))?;
    let is_named = program.file_name().is_some_and(|it| it.as_encoded_bytes().starts_with(b"windlass"));
    Ok(is_named || (file.dev(), file.ino()) == (own.dev(), own.ino()))
}

/// Judges the process that has a socket open. Does blocking reads.
pub fn of_socket(user: u32, inode: u64) -> Standing {
    of_user(user).unwrap_or_else(|| holder(user, inode).map_or(Standing::Hidden, of_pid))
}

/// Judges the process that connected to a Unix socket. Does blocking reads.
pub fn of_process(user: u32, pid: Option<i32>) -> Standing {
    let seen = || pid.filter(|pid| *pid > 0).map_or(Standing::Hidden, of_pid);
    of_user(user).unwrap_or_else(seen)
}

/// Judges a user; `None` for our own, because its processes differ.
fn of_user(user: u32) -> Option<Standing> {
    match (user, geteuid().as_raw()) {
        (user, own) if user == own => None,
        // It may be a forwarder of anybody's, and can read any secret.
        (0, _) => Some(Standing::Unknown),
        _ => Some(Standing::OtherUser),
    }
}

/// Finds the process of a user that has a socket open: callers of before first, then the youngest.
fn holder(user: u32, inode: u64) -> Option<i32> {
    let wanted = PathBuf::from(format!("socket:[{inode}]"));
    let recent = lock(&RECENT).clone();
    let found = recent.iter().copied().find(|pid| has_open(*pid, &wanted)).or_else(|| {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<i32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable_by_key(|pid| std::cmp::Reverse(*pid));
        let is_of_user = |pid: &i32| fs::metadata(proc(*pid, "")).is_ok_and(|it| it.uid() == user);
        pids.into_iter().filter(is_of_user).find(|pid| has_open(*pid, &wanted))
    })?;
    let mut recent = lock(&RECENT);
    recent.retain(|pid| *pid != found);
    recent.insert(0, found);
    recent.truncate(MAX_RECENT);
    Some(found)
}

fn proc(pid: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn has_open(pid: i32, wanted: &Path) -> bool {
    let descriptors = fs::read_dir(proc(pid, "fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|it| it == wanted))
}

/// Judges a process of our user.
fn of_pid(pid: i32) -> Standing {
    looked_at(pid).unwrap_or(Standing::Hidden)
}

fn looked_at(pid: i32) -> io::Result<Standing> {
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    // This process itself asks for others, such as servers that a project names.
    if pid == own || descends(pid, own)? {
        return Ok(Standing::Held);
    }
    let (own, marks) = (Marks::own()?, Marks::of(pid)?);
    Ok(if !marks.tags.is_subset(&own.tags) {
        Standing::Held
    } else if marks.is_within(&own) {
        Standing::Confined
    } else {
        Standing::Own
    })
}

/// Returns true if `ancestor` has started a process, as far as its parents still live. Fails if they end all the time.
fn descends(pid: i32, ancestor: i32) -> io::Result<bool> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for _ in 0..MAX_WALKS {
        match walk(pid, ancestor) {
            Ok(descends) => return Ok(descends),
            // A parent ended in between, so the process has another one now.
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn walk(pid: i32, ancestor: i32) -> io::Result<bool> {
    let mut current = pid;
    for _ in 0..MAX_ANCESTORS {
        let status = fs::read_to_string(proc(current, "status"))?;
        let Some(parent) = number(&status, "PPid:").and_then(|it| i32::try_from(it).ok()) else { break };
        if parent == ancestor {
            return Ok(true);
        }
        if parent <= 1 {
            break;
        }
        current = parent;
    }
    Ok(false)
}

/// Marks that a process inherits.
struct Marks {
    /// Tags of the children of a windlass, which a process can take off.
    tags: BTreeSet<String>,
    /// The namespaces of users and of processes, which a process cannot leave for one around them.
    namespaces: [PathBuf; 2],
    /// Filters of system calls, none of which a process can lift; those that root put on are not counted.
    filters: u64,
}

impl Marks {
    /// Reads the marks of this process, which may hide its variables from itself.
    fn own() -> io::Result<Self> {
        Self::with(i32::try_from(std::process::id()).unwrap_or_default(), &child_table::inherited())
    }

    fn of(pid: i32) -> io::Result<Self> {
        let environment = fs::read(proc(pid, "environ"))?;
        let mut variables = environment.split(|byte| *byte == 0).filter_map(|it| str::from_utf8(it).ok());
        let tags = variables.find_map(|it| it.strip_prefix(CHILD_TAG)?.strip_prefix('='));
        Self::with(pid, tags.unwrap_or_default())
    }

    fn with(pid: i32, tags: &str) -> io::Result<Self> {
        let tags = tags.split(SEPARATOR).filter(|tag| !tag.is_empty()).map(str::to_owned);
        let status = fs::read_to_string(proc(pid, "status"))?;
        let has_no_new_privileges = number(&status, "NoNewPrivs:").is_some_and(|it| it > 0);
        // Kernels before 5.9 have no number.
        let filters = number(&status, "Seccomp_filters:").or_else(|| number(&status, "Seccomp:"));
        Ok(Self {
            tags: tags.collect(),
            namespaces: [fs::read_link(proc(pid, "ns/user"))?, fs::read_link(proc(pid, "ns/pid"))?],
            filters: filters.filter(|_| has_no_new_privileges).unwrap_or_default(),
        })
    }

    /// Returns true if a process with these marks is in a sandbox that one with the others is not in.
    fn is_within(&self, other: &Self) -> bool {
        self.namespaces != other.namespaces || self.filters > other.filters
    }
}

fn number(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests;
