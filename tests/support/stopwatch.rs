//! A stopwatch that excludes the time spent waiting for a busy processor.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A stopwatch for one process. A time limit means nothing on a busy machine unless waits for the processor are
/// left out.
pub struct Stopwatch {
    begun: Instant,
    pid: i32,
    waited: Duration,
}

impl Stopwatch {
    /// Starts watching the threads of a process, and this one.
    pub fn start(pid: i32) -> Self {
        Self { begun: Instant::now(), pid, waited: waited(pid) }
    }

    pub fn elapsed(&self) -> Duration {
        let waited = waited(self.pid).saturating_sub(self.waited);
        self.begun.elapsed().saturating_sub(waited)
    }
}

/// Returns the time that the threads of a process and this one were ready without running, since they began.
fn waited(pid: i32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let all = threads.map(|thread| thread.path()).chain([PathBuf::from("/proc/thread-self")]);
    all.filter_map(|thread| waited_of(&thread)).sum()
}

/// Returns the waiting time of a thread; `None` where the system does not count it.
fn waited_of(thread: &Path) -> Option<Duration> {
    let counts = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(counts.split_whitespace().nth(1)?.parse().ok()?))
}
