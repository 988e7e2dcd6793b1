//! Work in the background that nobody waits for; it ends with the engine.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The errands that are under way.
#[derive(Debug, Default)]
pub struct Errands {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Errands {
    /// Runs work that may be left half done.
    pub fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            // The end says nothing that anybody waits for.
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
        let errands = Errands::default();
        let held = Arc::new(());
        let kept = held.clone();
        errands.run(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
        let is_done = Arc::new(AtomicBool::new(false));
        let done = is_done.clone();
        errands.block(move || done.store(true, Ordering::Relaxed));
        errands.end().await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(is_done.load(Ordering::Relaxed));
    }
}
