//! The log's files: written by a thread of their own, rotated, shared by all processes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, SyncSender},
    },
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    unistd::{AccessFlags, access},
};
use tracing::Level;
use windlass_base::{clock, text};

/// A file of this size is put aside; there are two, and both together stay below 10 MB.
const MAX_FILE_BYTES: u64 = 9 << 19;
/// Lines that may wait for the disk.
const MAX_WAITING: usize = 4096;
/// Bytes that are written at once.
const BATCH_BYTES: usize = 64 << 10;
/// The time that the end of a process may wait for its last lines.
const FINISH_LIMIT: Duration = Duration::from_millis(200);

/// Returns the file that is written now.
pub fn current(directory: &Path) -> PathBuf {
    directory.join("windlass.log")
}

/// Returns the file that was written before.
pub fn rotated(directory: &Path) -> PathBuf {
    directory.join("windlass.1.log")
}

/// The log's file. Cloning it shares it.
///
/// Pushing never waits: lines that the disk does not take in time are counted and left out.
#[derive(Clone)]
pub struct LogFile(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    /// Made with the first line; `None` when no thread could be started.
    thread: OnceLock<Option<SyncSender<Job>>>,
    n_lost: Arc<AtomicU64>,
}

enum Job {
    Line(String),
    /// Drops the sender when everything before it has been written.
    Finish(SyncSender<()>),
}

impl LogFile {
    /// Makes and opens nothing before the first line.
    pub fn new(directory: PathBuf) -> Self {
        Self(Arc::new(Inner { directory, thread: OnceLock::new(), n_lost: Arc::default() }))
    }

    /// Notes a line.
    pub fn push(&self, line: String) {
        let Some(sender) = self.0.thread.get_or_init(|| self.start()) else { return };
        if sender.try_send(Job::Line(line)).is_err() {
            self.0.n_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a moment for the pushed lines to be written.
    pub fn finish(&self) {
        let Some(Some(sender)) = self.0.thread.get() else { return };
        let (ack, done) = mpsc::sync_channel(0);
        if sender.try_send(Job::Finish(ack)).is_ok() {
            // Both ways of not getting there mean that waiting is over.
            let _ = done.recv_timeout(FINISH_LIMIT);
        }
    }

    fn start(&self) -> Option<SyncSender<Job>> {
        let (sender, receiver) = mpsc::sync_channel(MAX_WAITING);
        let (directory, n_lost) = (self.0.directory.clone(), self.0.n_lost.clone());
        let thread = thread::Builder::new().name("log".to_owned()).stack_size(128 << 10);
        thread.spawn(move || write_all(&directory, &receiver, &n_lost)).ok().map(|_| sender)
    }
}

/// Writes the lines that come until the process ends.
fn write_all(directory: &Path, receiver: &Receiver<Job>, n_lost: &AtomicU64) {
    let mut output = Output { directory: directory.to_owned(), file: None };
    let mut has_failed = false;
    while let Ok(first) = receiver.recv() {
        let mut batch = String::new();
        let mut acks = Vec::new();
        let mut next = Some(first);
        while let Some(job) = next {
            match job {
                Job::Line(line) => batch.push_str(&line),
                Job::Finish(ack) => acks.push(ack),
            }
            next = if batch.len() < BATCH_BYTES { receiver.try_recv().ok() } else { None };
        }
        let n_left_out = n_lost.swap(0, Ordering::Relaxed);
        if n_left_out > 0 {
            let text = format!("{n_left_out} lines of the log were left out because the disk is slow");
            batch.push_str(&line(Level::WARN, &text));
        }
        if let Err(error) = output.append(batch.as_bytes())
            && !has_failed
            && !is_store_locked(directory)
        {
            has_failed = true;
            // Once: the next lines are tried again, and the work goes on in any case.
            let directory = output.directory.display();
            let is_full = error.kind() == io::ErrorKind::StorageFull;
            let remedy = if is_full { "free some space" } else { "make the directory writable" };
            let _ = writeln!(
                io::stderr(),
                "warning: the log cannot be written to {directory}: {}; {remedy}",
                text::without_number(&error.to_string())
            );
        }
    }
}

/// Returns true if the store beside the log cannot be written either, which a command tells where it matters to it.
fn is_store_locked(directory: &Path) -> bool {
    let Some(data) = directory.parent() else { return false };
    match access(&data.join("windlass.db"), AccessFlags::W_OK) {
        Ok(()) => false,
        Err(Errno::ENOENT) => access(data, AccessFlags::W_OK).is_err(),
        Err(_) => true,
    }
}

struct Output {
    directory: PathBuf,
    file: Option<File>,
}

impl Output {
    /// Appends whole lines with one write, so that those of several processes do not mix.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let path = current(&self.directory);
        let is_in_place = |file: &File| match (file.metadata(), fs::metadata(&path)) {
            (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
            (Ok(_) | Err(_), _) => false,
        };
        // Another process may have put the file aside.
        self.file = self.file.take().filter(is_in_place);
        let file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        let is_full = file.metadata()?.len() + lines.len() as u64 > MAX_FILE_BYTES;
        // Of several processes that want to rotate one does, and the others append once more to the old file.
        let file = if is_full && file.try_lock().is_ok() && is_in_place(&file) {
            fs::rename(&path, rotated(&self.directory))?;
            self.open()?
        } else {
            file
        };
        (&file).write_all(lines)?;
        self.file = Some(file);
        Ok(())
    }

    fn open(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        OpenOptions::new().append(true).create(true).mode(0o600).open(current(&self.directory))
    }
}

/// Returns a line of the file: time, level, process and text.
pub fn line(level: Level, text: &str) -> String {
    format!("{} {level:<5} {} {text}\n", clock::iso(clock::now_ms()), std::process::id())
}

#[cfg(test)]
mod tests;
