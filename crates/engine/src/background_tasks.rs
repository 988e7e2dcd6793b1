//! Background tasks of the engine, such as refreshing caches; they end with it.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The tasks that are under way.
#[derive(Debug, Default)]
pub struct BackgroundTasks {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl BackgroundTasks {
    /// Runs work that may be left half done.
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            // A task that was stopped has no result to report.
            let _ = stop.run_until_cancelled(work).await;
        });
    }

    /// Runs short blocking work that is done whole.
    pub fn block(&self, work: impl FnOnce() + Send + 'static) {
        self.tasks.spawn_blocking(work);
    }

    /// Stops the work that may be left, and waits for the rest.
    pub async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    #[tokio::test]
    async fn at_the_end_work_that_waits_is_dropped_and_blocking_work_is_done() {
        let tasks = BackgroundTasks::default();
        let held = Arc::new(());
        let kept = held.clone();
        tasks.run(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        let is_done = Arc::new(AtomicBool::new(false));
        let done = is_done.clone();
        tasks.block(move || done.store(true, Ordering::Relaxed));
        tasks.end().await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(is_done.load(Ordering::Relaxed));
    }
}
