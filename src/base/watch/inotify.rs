//! Watches directories with inotify: no thread, one descriptor that is waited for like a socket.

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
    Followed, Target,
    plan::{Plan, Wanted},
};

/// Follows files and directories.
pub struct Watcher {
    inotify: AsyncFd<Descriptor>,
    watched: HashMap<WatchDescriptor, Wanted>,
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
        Ok(Self { inotify: inotify?, watched: HashMap::new() })
    }

    /// Follows exactly `targets` from here on, and says whether something of it may have changed since `since` that
    /// was not watched until now. Does blocking reads of directories.
    pub fn follow(&mut self, targets: &[Target], since: SystemTime) -> io::Result<Followed> {
        let mut watched: HashMap<WatchDescriptor, Wanted> = HashMap::new();
        let mut has_changed = false;
        let plan = Plan::new(targets);
        let mut is_whole = plan.overfull.is_empty();
        // A directory has one watch, also under two names: one for what is in it is to replace one for itself.
        let (itself, inside): (Vec<_>, Vec<_>) =
            plan.directories.into_iter().partition(|(_, wanted)| wanted.is_itself());
        for (directory, wanted) in itself.into_iter().chain(inside) {
            let Some(descriptor) = self.add(&directory, &wanted)? else {
                // One that may be searched and not listed has files that can be read and not watched.
                is_whole = is_whole && (wanted.is_itself() || !directory.join(".").exists());
                continue;
            };
            // The order matters: what changes from here on is an event.
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
            // One that the kernel has ended by itself is gone already.
            let _ = self.inotify.get_ref().0.rm_watch(descriptor);
        }
        Ok(Followed { has_changed, is_whole })
    }

    /// `None` when there is nothing to watch by now, or it may not be read.
    fn add(&self, directory: &Path, wanted: &Wanted) -> io::Result<Option<WatchDescriptor>> {
        let itself = AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_ONLYDIR;
        // No `IN_MODIFY`: a file that is being written is read when it has been, and a busy neighbour wakes nobody.
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

    /// Whether something that is followed may have changed since the last time.
    pub fn has_changed(&self) -> io::Result<bool> {
        // The system queues an event before the change that caused it returns, so what happened by now is there.
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
