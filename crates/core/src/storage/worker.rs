//! A thread that owns one SQLite connection and runs jobs on it in order, several writes in one transaction.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use windlass_base::lock::lock;

use super::{StorageError, open, presence::Presence};

/// Maximum number of queued jobs before senders wait.
const QUEUE: usize = 256;
/// Maximum number of writes in one transaction.
const MAX_GROUP: usize = 64;

/// A lazily started thread. Cloning it shares it; the thread ends with the last clone.
#[derive(Clone)]
pub struct Worker {
    name: &'static str,
    path: PathBuf,
    /// Of the store, which ends with its last clone, not with this thread.
    presence: Weak<Presence>,
    open: Open,
    jobs: Arc<Mutex<Option<mpsc::Sender<Job>>>>,
    /// Set if the file turned out to be damaged. The next job opens it afresh, as it may have been moved away.
    is_damaged: Arc<AtomicBool>,
}

/// Opens the file for one kind of work.
pub type Open = fn(&Path) -> Result<Connection, StorageError>;

enum Job {
    Read(ReadJob),
    Write(WriteJob),
}

type ReadJob = Box<dyn FnOnce(Result<&mut Connection, StorageError>) + Send>;

/// Works inside the group's transaction and returns the function to call after the commit.
type WriteJob = Box<dyn FnOnce(Result<&Connection, StorageError>) -> Answer + Send>;

/// A function that takes the outcome of the commit.
type Answer = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

impl Worker {
    pub fn new(name: &'static str, path: PathBuf, presence: &Arc<Presence>, open: Open) -> Self {
        let presence = Arc::downgrade(presence);
        Self { name, path, presence, open, jobs: Arc::default(), is_damaged: Arc::default() }
    }

    /// Runs a job outside of a transaction.
    pub async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let (is_damaged, path) = (self.is_damaged.clone(), self.path.clone());
        let job = Job::Read(Box::new(move |connection| {
            let result = connection.and_then(job);
            note_damage(&result, &is_damaged);
            let result = result.map_err(|error| error.at(&path));
            // The receiver may be gone, and then the answer has no use.
            let _ = answer.send(result);
        }));
        self.send(job).await?;
        answered.await.map_err(|_| StorageError::Gone)?
    }

    /// Runs a job that writes; returns after the commit.
    pub async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let (answer, answered) = oneshot::channel();
        let (is_damaged, path) = (self.is_damaged.clone(), self.path.clone());
        let job = Job::Write(Box::new(move |connection| {
            let result = connection.and_then(|connection| in_savepoint(connection, job));
            note_damage(&result, &is_damaged);
            let result = result.map_err(|error| error.at(&path));
            Box::new(move |committed: Result<(), StorageError>| {
                let _ = answer.send(committed.and(result));
            })
        }));
        self.send(job).await?;
        answered.await.map_err(|_| StorageError::Gone)?
    }

    async fn send(&self, job: Job) -> Result<(), StorageError> {
        let jobs = self.started()?;
        jobs.send(job).await.map_err(|_| StorageError::Gone)
    }

    fn started(&self) -> Result<mpsc::Sender<Job>, StorageError> {
        let mut jobs = lock(&self.jobs);
        // A thread that has ended by a panic is replaced.
        if let Some(jobs) = jobs.as_ref().filter(|jobs| !jobs.is_closed()) {
            return Ok(jobs.clone());
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (path, presence, open) = (self.path.clone(), self.presence.clone(), self.open);
        let is_damaged = self.is_damaged.clone();
        let open = move |path: &Path| {
            presence.upgrade().map_or(Ok(()), |presence| presence.begin())?;
            open(path)
        };
        std::thread::Builder::new()
            .name(self.name.to_owned())
            .stack_size(512 * 1024)
            .spawn(move || run(&path, &open, &is_damaged, receiver))
            .map_err(|error| open::failed(&self.path, &error))?;
        *jobs = Some(sender.clone());
        Ok(sender)
    }
}

fn run(
    path: &Path,
    open: &dyn Fn(&Path) -> Result<Connection, StorageError>,
    is_damaged: &AtomicBool,
    mut jobs: mpsc::Receiver<Job>,
) {
    let mut connection = None;
    let (mut file, mut next) = (None, None);
    while let Some(job) = next.take().or_else(|| jobs.blocking_recv()) {
        // A file that was moved away or replaced takes no more changes: nobody would find them there.
        let is_other = connection.is_some() && file_id(path) != file;
        if is_damaged.swap(false, Ordering::Relaxed) || is_other {
            connection = None;
        }
        let was_open = connection.is_some();
        let opened = match &mut connection {
            Some(connection) => Ok(connection),
            // A store that could not be opened is tried again by the next job: the user may have repaired it.
            none => open(path).map(|opened| none.insert(opened)),
        };
        if !was_open && opened.is_ok() {
            file = file_id(path);
        }
        match (job, opened) {
            (Job::Read(job), opened) => job(opened),
            (Job::Write(job), Ok(connection)) => next = write_group(path, connection, job, &mut jobs),
            (Job::Write(job), Err(error)) => job(Err(error))(Ok(())),
        }
    }
}

/// Returns the identity of the file at a path.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn note_damage<T>(result: &Result<T, StorageError>, is_damaged: &AtomicBool) {
    if let Err(StorageError::Damaged(_)) = result {
        is_damaged.store(true, Ordering::Relaxed);
    }
}

/// Runs the writes that wait, in one transaction. Returns the job that comes behind them, if one was met.
fn write_group(
    path: &Path,
    connection: &Connection,
    first: WriteJob,
    jobs: &mut mpsc::Receiver<Job>,
) -> Option<Job> {
    // Prepared once: a transaction of the library's own would parse its statements for every delta.
    if let Err(error) = execute(connection, "BEGIN IMMEDIATE") {
        first(Err(error))(Ok(()));
        return None;
    }
    let mut next = None;
    let mut answers = vec![first(Ok(connection))];
    // A full disk may have ended the transaction: a later job would then be committed by itself.
    while answers.len() < MAX_GROUP && !connection.is_autocommit() {
        match jobs.try_recv() {
            Ok(Job::Write(job)) => answers.push(job(Ok(connection))),
            Ok(other @ Job::Read(_)) => {
                next = Some(other);
                break;
            }
            Err(_) => break,
        }
    }
    let committed = if connection.is_autocommit() {
        Err("a change at the same moment failed, and this one with it; repeat".to_owned())
    } else {
        execute(connection, "COMMIT").map_err(|error| error.at(path).to_string())
    };
    match committed {
        Ok(()) => answers.into_iter().for_each(|answer| answer(Ok(()))),
        Err(reason) => {
            // After a failed commit the transaction may have ended already.
            let _ = execute(connection, "ROLLBACK");
            for answer in answers {
                answer(Err(StorageError::Commit { reason: reason.clone() }));
            }
        }
    }
    next
}

fn execute(connection: &Connection, statement: &str) -> Result<(), StorageError> {
    connection.prepare_cached(statement)?.execute([])?;
    Ok(())
}

/// Runs a job in a savepoint, so that its failure does not undo the others of its group.
fn in_savepoint<T>(
    connection: &Connection,
    job: impl FnOnce(&Connection) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    execute(connection, "SAVEPOINT job")?;
    let result = job(connection);
    if result.is_err() {
        // A full disk may have undone the whole transaction; the first error is the one that matters.
        let _ = execute(connection, "ROLLBACK TO job");
        let _ = execute(connection, "RELEASE job");
        return result;
    }
    execute(connection, "RELEASE job")?;
    result
}

#[cfg(test)]
mod tests;
