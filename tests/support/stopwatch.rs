//! How long something took, without the time it had to wait for a processor that others used.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// A limit on what an agent may take says nothing on a busy machine unless what is not the agent's is left out.
pub struct Stopwatch {
    begun: Instant,
    pid: i32,
    waited: Duration,
}

impl Stopwatch {
    /// Watches the threads of a process, and this one.
    pub fn start(pid: i32) -> Self {
        Self { begun: Instant::now(), pid, waited: waited(pid) }
    }

    pub fn elapsed(&self) -> Duration {
        let waited = waited(self.pid).saturating_sub(self.waited);
        self.begun.elapsed().saturating_sub(waited)
    }
}

/// How long the threads of a process and this one were ready to run and did not, since they began.
fn waited(pid: i32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let all = threads.map(|thread| thread.path()).chain([PathBuf::from("/proc/thread-self")]);
    all.filter_map(|thread| waited_of(&thread)).sum()
}

/// None where the system does not count it.
fn waited_of(thread: &Path) -> Option<Duration> {
    let counts = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(counts.split_whitespace().nth(1)?.parse().ok()?))
}
