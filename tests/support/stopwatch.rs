//! A stopwatch that excludes the time spent waiting for a busy processor.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Mutex,
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// Time between two looks at a process that may end. Its waits after the last one are lost.
const TICK: Duration = Duration::from_millis(20);

/// A stopwatch for one process. A time limit means nothing on a busy machine unless waits for the processor are
/// left out.
pub struct Stopwatch {
    begun: Instant,
    /// The main thread of the process, which does its work. Others may wait at the same time, or end.
    thread: PathBuf,
    /// The waits of both threads before the beginning.
    before: Duration,
    /// The last that was seen of the process, which takes its counts with it.
    waited: Mutex<Duration>,
}

impl Stopwatch {
    /// Starts watching the main thread of a process, and this one.
    pub fn start(pid: i32) -> Self {
        let thread = PathBuf::from(format!("/proc/{pid}/task/{pid}"));
        let waited = waited_of(&thread).unwrap_or_default();
        Self { begun: Instant::now(), thread, before: waited + waited_here(), waited: Mutex::new(waited) }
    }

    pub fn elapsed(&self) -> Duration {
        let mut waited = self.waited.lock().unwrap();
        if let Some(now) = waited_of(&self.thread) {
            *waited = now;
        }
        let waited = (*waited + waited_here()).saturating_sub(self.before);
        self.begun.elapsed().saturating_sub(waited)
    }

    /// Returns the result of a future, such as the end of the process; fails if it takes longer than `limit`.
    pub async fn within<T>(&self, limit: Duration, what: &str, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            match timeout(TICK, &mut future).await {
                Ok(output) => return output,
                Err(_) if self.elapsed() < limit => {}
                Err(_) => panic!("waited {limit:?} in vain for {what}"),
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
