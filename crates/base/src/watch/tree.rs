//! Tells which paths below a directory have changed since it was last asked: the system keeps the list, and nothing runs
//! meanwhile.

use std::{
    collections::{BTreeSet, HashMap},
    fs::{self, File},
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};

use super::changes::{Changes, Lost};

/// Events of one question, and moved directories; more of them are not worth to be told.
const MAX_EVENTS: usize = 20_000;
const MAX_MOVED: usize = 100;
/// Directories of one tree.
const MAX_DIRECTORIES: usize = 20_000;
/// Directories that one user may watch, with all programs; half of them are left to the others.
const LIMIT: &str = "/proc/sys/fs/inotify/max_user_watches";
const MOUNTS: &str = "/proc/self/mountinfo";

/// A watch of directories below a root. It sees what is done to their entries by way of these directories; not what is
/// written by another name of a file that has several, nor into its memory while a process has it mapped.
pub struct TreeWatch {
    inotify: Inotify,
    root: PathBuf,
    /// The root without links on the way.
    real_root: PathBuf,
    /// The device and the inode of the root.
    identity: (u64, u64),
    mounts: Mounts,
    max_directories: usize,
    /// Paths below the root.
    directories: HashMap<WatchDescriptor, Box<Path>>,
}

impl TreeWatch {
    /// Makes a watch without directories. Fails where the system tells no changes of this file system.
    pub fn new(root: &Path) -> io::Result<Self> {
        let real_root = root.canonicalize()?;
        let mounts = Mounts::read(&real_root)?;
        if !mounts.within.is_empty() {
            return Err(unsupported("another file system is mounted in it"));
        }
        if !mounts.is_local {
            return Err(unsupported("its file system does not tell of all changes"));
        }
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        let limit = fs::read_to_string(LIMIT).ok().and_then(|text| text.trim().parse().ok());
        Ok(Self {
            inotify,
            root: root.to_owned(),
            real_root,
            identity: identity(root)?,
            mounts,
            max_directories: limit.map_or(MAX_DIRECTORIES, |limit: usize| MAX_DIRECTORIES.min(limit / 2)),
            directories: HashMap::new(),
        })
    }

    /// Watches a directory, by its path below the root: what happens to its entries from now on is told.
    /// Returns false if it is none, or gone.
    pub fn add(&mut self, directory: &Path) -> io::Result<bool> {
        if self.directories.len() >= self.max_directories {
            return Err(unsupported("it has too many directories to watch"));
        }
        let entries = AddWatchFlags::IN_MODIFY
            // A mapped file is told of when its last writer lets go of it.
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_MOVE;
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF;
        let how = AddWatchFlags::IN_ONLYDIR | AddWatchFlags::IN_DONT_FOLLOW;
        let is_root = directory.as_os_str().is_empty();
        let mask = if is_root { entries | itself | AddWatchFlags::IN_ONLYDIR } else { entries | how };
        match self.inotify.add_watch(&self.root.join(directory), mask) {
            Ok(descriptor) => match self.directories.insert(descriptor, directory.into()) {
                // It was moved, or stands at both paths behind a link; what was told of it is of the other one.
                Some(known) if *known != *directory => {
                    Err(io::Error::new(io::ErrorKind::Interrupted, "its directories are being moved"))
                }
                _ => Ok(true),
            },
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) if !is_root => Ok(false),
            Err(Errno::ENOSPC) => Err(unsupported("the user's watches are used up")),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns what has changed since the last call. Every change that was made before this call is in it: the system
    /// notes an event before the call returns that caused it.
    pub fn take(&mut self) -> Result<Changes, Lost> {
        let mut changes = Changes::default();
        let (mut n_events, mut n_moved) = (0, 0);
        let moved = AddWatchFlags::IN_ISDIR | AddWatchFlags::IN_MOVED_FROM;
        loop {
            match self.inotify.read_events() {
                Ok(events) => {
                    n_events += events.len();
                    n_moved += events.iter().filter(|event| event.mask.contains(moved)).count();
                    if n_events > MAX_EVENTS || n_moved > MAX_MOVED {
                        return Err(Lost::Events);
                    }
                    for event in events {
                        self.note(event, &mut changes)?;
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(Lost::Events),
            }
        }
        // Another directory may stand at the path of the root, or another file system over a part of it.
        if identity(&self.root).ok() != Some(self.identity) || self.mounts.have_changed(&self.real_root) {
            return Err(Lost::Root);
        }
        Ok(changes)
    }

    fn note(&mut self, event: InotifyEvent, changes: &mut Changes) -> Result<(), Lost> {
        let is = |flag| event.mask.contains(flag);
        if is(AddWatchFlags::IN_Q_OVERFLOW) {
            return Err(Lost::Events);
        }
        if is(AddWatchFlags::IN_UNMOUNT) {
            return Err(Lost::Root);
        }
        if is(AddWatchFlags::IN_IGNORED) {
            self.directories.remove(&event.wd);
            return Ok(());
        }
        // One of a directory that was moved away, and is no longer watched.
        let Some(directory) = self.directories.get(&event.wd) else { return Ok(()) };
        let Some(name) = &event.name else {
            if is(AddWatchFlags::IN_DELETE_SELF) || is(AddWatchFlags::IN_MOVE_SELF) {
                return Err(Lost::Root);
            }
            changes.entries.insert(directory.to_path_buf());
            return Ok(());
        };
        let path = directory.join(name);
        if !is(AddWatchFlags::IN_ISDIR) || is(AddWatchFlags::IN_ATTRIB) {
            if is(AddWatchFlags::IN_MODIFY) {
                changes.written.insert(path.clone());
            } else if !is(AddWatchFlags::IN_CLOSE_WRITE) {
                changes.written.remove(&path);
            }
            changes.entries.insert(path);
            return Ok(());
        }
        if is(AddWatchFlags::IN_MOVED_FROM) {
            self.forget(&path);
        }
        changes.directories.insert(path);
        Ok(())
    }

    /// Ends the watches of a directory that was moved, and of those in it: their paths are others now.
    fn forget(&mut self, moved: &Path) {
        let inotify = &self.inotify;
        self.directories.retain(|descriptor, path| {
            let is_moved = path.starts_with(moved);
            if is_moved {
                // The system may have ended the watch already.
                let _ = inotify.rm_watch(*descriptor);
            }
            !is_moved
        });
    }
}

fn unsupported(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

fn identity(root: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(root)?;
    Ok((found.dev(), found.ino()))
}

/// The file systems at and below a directory.
struct Mounts {
    /// It is readable, for a poll, when a file system has been mounted or unmounted.
    file: File,
    within: BTreeSet<String>,
    is_local: bool,
}

impl Mounts {
    fn read(root: &Path) -> io::Result<Self> {
        // Opened before it is read, so that no change is between.
        let file = File::open(MOUNTS)?;
        let (within, kind) = mounted(&fs::read_to_string(MOUNTS)?, root);
        let is_local = LOCAL.contains(&kind.as_str());
        Ok(Self { file, within, is_local })
    }

    fn have_changed(&self, root: &Path) -> bool {
        let mut asked = [PollFd::new(self.file.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut asked, PollTimeout::ZERO) {
            Ok(0) => false,
            // Most mounts of a machine are elsewhere.
            Ok(_) => fs::read_to_string(MOUNTS).map_or(true, |text| mounted(&text, root).0 != self.within),
            Err(_) => true,
        }
    }
}

/// File systems that only this system changes.
const LOCAL: [&str; 10] =
    ["bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "tmpfs", "xfs"];

/// Returns the mounts below a directory, and the kind of the file system that it is on (proc_pid_mountinfo(5)).
fn mounted(text: &str, root: &Path) -> (BTreeSet<String>, String) {
    let mut within = BTreeSet::new();
    let mut of_root = (0, String::new());
    for line in text.lines() {
        let Some((front, back)) = line.split_once(" - ") else { continue };
        let Some(point) = front.split(' ').nth(4).map(unescaped) else { continue };
        let kind = back.split(' ').next().unwrap_or_default();
        if point != root && point.starts_with(root) {
            within.insert(line.to_owned());
        }
        // Of two at one place the later one is seen.
        let depth = point.components().count();
        if root.starts_with(&point) && depth >= of_root.0 {
            of_root = (depth, kind.to_owned());
        }
    }
    (within, of_root.1)
}

/// Reads a path in which blanks and backslashes are octal numbers.
fn unescaped(text: &str) -> PathBuf {
    let mut path = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        path.push_str(before);
        let code = behind.get(..3).and_then(|code| u8::from_str_radix(code, 8).ok());
        match code {
            Some(code) => {
                path.push(char::from(code));
                rest = &behind[3..];
            }
            None => {
                path.push('\\');
                rest = behind;
            }
        }
    }
    path.push_str(rest);
    PathBuf::from(path)
}

#[cfg(test)]
mod tests;
