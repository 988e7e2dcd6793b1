//! Watches directories with inotify: no thread, and one descriptor that is awaited like a socket.

use std::{
    collections::HashMap,
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::Path,
    time::SystemTime,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    plan::{Plan, Wanted},
    target::{Followed, Target},
};

/// A watcher of files and directories.
pub struct Watcher {
    inotify: AsyncFd<Descriptor>,
    watched: HashMap<WatchDescriptor, Wanted>,
}

impl Watcher {
    /// Makes a watcher without targets. Must be called within the runtime.
    #[expect(
        unsafe_code,
        reason = "registering a descriptor is unsafe; this one is owned by what registers it"
    )]
    pub fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        // SAFETY: `AsyncFd` owns the descriptor, which stays open and the same until it is dropped.
        let inotify = unsafe { AsyncFd::register_with_interest(Descriptor(inotify), Interest::READABLE) };
        Ok(Self { inotify: inotify?, watched: HashMap::new() })
    }

    /// Watches exactly `targets` from now on, and reports if a part of them that was not watched until now may
    /// have changed since `since`. Does blocking reads of directories.
    pub fn follow(&mut self, targets: &[Target], since: SystemTime) -> io::Result<Followed> {
        let mut watched: HashMap<WatchDescriptor, Wanted> = HashMap::new();
        let mut has_changed = false;
        let plan = Plan::new(targets);
        let mut is_whole = plan.overfull.is_empty();
        // A directory has one watch, even under two names: a watch of its entries must replace one of the
        // directory itself.
        let (itself, inside): (Vec<_>, Vec<_>) =
            plan.directories.into_iter().partition(|(_, wanted)| wanted.is_itself());
        for (directory, wanted) in itself.into_iter().chain(inside) {
            let Some(descriptor) = self.add(&directory, &wanted)? else {
                // It was there when the plan was made. No watch tells of its end, and none waits for it to come back.
                has_changed = has_changed || is_gone(&directory);
                // The files of a directory that may be searched but not listed can be read but not watched.
                is_whole = is_whole && (wanted.is_itself() || !directory.join(".").exists());
                continue;
            };
            // The order matters: changes from here on are events.
            let is_new = !self.watched.get(&descriptor).is_some_and(|before| before.covers(&wanted));
            has_changed = has_changed || is_new && wanted.may_have_changed(&directory, since);
            match watched.get_mut(&descriptor) {
                // The same directory under two names.
                Some(known) => known.extend(wanted),
                None => _ = watched.insert(descriptor, wanted),
            }
        }
        let before = std::mem::replace(&mut self.watched, watched);
        for descriptor in before.into_keys().filter(|it| !self.watched.contains_key(it)) {
            // The kernel may have removed the watch already.
            let _ = self.inotify.get_ref().0.rm_watch(descriptor);
        }
        Ok(Followed { has_changed, is_whole })
    }

    /// Adds a watch; `None` if the directory is gone by now or may not be read.
    fn add(&self, directory: &Path, wanted: &Wanted) -> io::Result<Option<WatchDescriptor>> {
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ONLYDIR;
        // Without `IN_MODIFY`: a file is read when its writer closes it, and a file that is written all the
        // time causes no wakeups.
        let inside = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE;
        let mask = if wanted.is_itself() { itself } else { itself | inside };
        match self.inotify.get_ref().0.add_watch(directory, mask) {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns true if a target may have changed since the last call.
    pub fn has_changed(&self) -> io::Result<bool> {
        // The system queues an event before the change that caused it returns, so every change until now has
        // its event.
        let mut has_changed = false;
        loop {
            match self.inotify.get_ref().0.read_events() {
                Ok(events) => has_changed |= events.iter().any(|event| concerns(&self.watched, event)),
                Err(Errno::EAGAIN) => return Ok(has_changed),
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until a target may have changed since the last call. Can be dropped at any point.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let read = ready.try_io(|inotify| inotify.get_ref().0.read_events().map_err(io::Error::from));
            match read {
                Ok(Ok(events)) => {
                    if events.iter().any(|event| concerns(&self.watched, event)) {
                        return Ok(());
                    }
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                // Spurious readiness: there is nothing to read.
                Err(_) => {}
            }
        }
    }
}

struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

fn is_gone(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn concerns(watched: &HashMap<WatchDescriptor, Wanted>, event: &InotifyEvent) -> bool {
    if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
        return true;
    }
    match (watched.get(&event.wd), &event.name) {
        (None, _) => false,
        (Some(wanted), Some(name)) => wanted.contains(name),
        // An event of the directory itself: it is gone, moved, or readable now.
        (Some(_), None) => true,
    }
}
