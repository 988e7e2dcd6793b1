//! Watches directories with inotify: no thread, one descriptor that is waited for like a socket.

use std::{
    collections::{HashMap, HashSet},
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::PathBuf,
    time::SystemTime,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor},
};
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    Target,
    plan::{MAX_DIRECTORIES, Plan, Wanted},
};

/// Follows files and directories.
pub struct Watcher {
    inotify: AsyncFd<Descriptor>,
    watched: HashMap<WatchDescriptor, Wanted>,
    /// Trees that are known to hold too much to follow.
    overfull: HashSet<PathBuf>,
}

impl Watcher {
    /// Follows nothing yet. Must be called within the runtime.
    #[expect(
        unsafe_code,
        reason = "registering a descriptor is unsafe; this one is owned by what registers it"
    )]
    pub fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        // SAFETY: `AsyncFd` owns the descriptor, which stays open and the same until it is dropped.
        let inotify = unsafe { AsyncFd::register_with_interest(Descriptor(inotify), Interest::READABLE) };
        Ok(Self { inotify: inotify?, watched: HashMap::new(), overfull: HashSet::new() })
    }

    /// Follows exactly `targets` from here on. True when something of it may have changed since `since` that was
    /// not watched until now. Does blocking reads of directories.
    pub fn follow(&mut self, targets: &[Target], since: SystemTime) -> io::Result<bool> {
        let mut watched: HashMap<WatchDescriptor, Wanted> = HashMap::new();
        let mut has_changed = false;
        let plan = Plan::new(targets);
        for root in plan.overfull {
            if self.overfull.insert(root.clone()) {
                tracing::warn!(
                    "{} holds more than {MAX_DIRECTORIES} directories; changes in the others are not noticed",
                    root.display()
                );
            }
        }
        for (directory, wanted) in plan.directories {
            let Some(descriptor) = self.add(&directory)? else { continue };
            // The order matters: what changes from here on is an event.
            let is_new = !self.watched.contains_key(&descriptor);
            has_changed = has_changed || is_new && wanted.may_have_changed(&directory, since);
            match watched.get_mut(&descriptor) {
                // The same directory under two names.
                Some(known) => known.extend(wanted),
                None => _ = watched.insert(descriptor, wanted),
            }
        }
        let before = std::mem::replace(&mut self.watched, watched);
        for descriptor in before.into_keys().filter(|it| !self.watched.contains_key(it)) {
            // One that the kernel has ended by itself is gone already.
            let _ = self.inotify.get_ref().0.rm_watch(descriptor);
        }
        Ok(has_changed)
    }

    /// `None` when there is nothing to watch by now, or it may not be read.
    fn add(&self, directory: &PathBuf) -> io::Result<Option<WatchDescriptor>> {
        // No `IN_MODIFY`: a file that is being written is read when it has been, and a busy neighbour wakes nobody.
        let mask = AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MOVE
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ONLYDIR;
        match self.inotify.get_ref().0.add_watch(directory, mask) {
            Ok(descriptor) => Ok(Some(descriptor)),
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends when something that is followed may have changed since the last time. Can be dropped at any point.
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
                // Nothing to read after all.
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

fn concerns(watched: &HashMap<WatchDescriptor, Wanted>, event: &InotifyEvent) -> bool {
    if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
        return true;
    }
    match (watched.get(&event.wd), &event.name) {
        (None, _) => false,
        (Some(wanted), Some(name)) => wanted.contains(name),
        // The directory itself: gone, moved, or readable now.
        (Some(_), None) => true,
    }
}
