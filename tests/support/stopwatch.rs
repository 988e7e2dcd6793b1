//! A stopwatch that excludes the time spent waiting for a busy processor.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
    pin::pin,
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// Time between two looks at a process that may end. What it waits after the last one is lost.
const TICK: Duration = Duration::from_millis(5);

/// A stopwatch for one process. A time limit means nothing on a busy machine unless waits for the processor are
/// left out.
pub struct Stopwatch {
    begun: Instant,
    /// The main thread of the process, which does its work. Others may wait at the same time, or end.
    thread: PathBuf,
    /// The waits of both threads before the beginning.
    before: Duration,
    /// The last that was seen of the process, which takes its counts with it.
    waited: Cell<Duration>,
}

impl Stopwatch {
    /// Starts watching the main thread of a process, and this one.
    pub fn start(pid: i32) -> Self {
        let thread = PathBuf::from(format!("/proc/{pid}/task/{pid}"));
        let waited = waited_of(&thread).unwrap_or_default();
        Self { begun: Instant::now(), thread, before: waited + waited_here(), waited: Cell::new(waited) }
    }

    pub fn elapsed(&self) -> Duration {
        if let Some(waited) = waited_of(&self.thread) {
            self.waited.set(waited);
        }
        let waited = (self.waited.get() + waited_here()).saturating_sub(self.before);
        self.begun.elapsed().saturating_sub(waited)
    }

    /// Returns the result of a future, such as the end of the process; fails if it takes longer than `limit`.
    pub async fn within<T>(&self, limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            match timeout(TICK, &mut future).await {
                Ok(output) => return output,
                Err(_) if self.elapsed() < limit => {}
                Err(_) => panic!("{what} takes longer than {limit:?}"),
            }
        }
    }
}

fn waited_here() -> Duration {
    waited_of(Path::new("/proc/thread-self")).unwrap_or_default()
}

/// Returns the time that a thread was ready without running; `None` where the system does not count it, and for a
/// process that has ended.
fn waited_of(thread: &Path) -> Option<Duration> {
    let counts = std::fs::read_to_string(thread.join("schedstat")).ok()?;
    Some(Duration::from_nanos(counts.split_whitespace().nth(1)?.parse().ok()?))
}
