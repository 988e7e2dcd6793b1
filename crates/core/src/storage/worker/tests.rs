//! Groups of writes: one that fails takes no other with it unknown.

use std::sync::{Arc, mpsc};

use super::Worker;
use crate::storage::{open, presence::Presence};

#[tokio::test]
async fn a_write_behind_one_that_ended_the_transaction_is_answered_as_it_went() {
    let directory = tempfile::tempdir().expect("made");
    let path = directory.path().join("windlass.db");
    let presence = Arc::new(Presence::new(path.clone()));
    let worker = Worker::new("test", path, &presence, open::to_write);
    let (queued, is_queued) = mpsc::channel();
    let first = worker.write(move |connection| {
        is_queued.recv().expect("told");
        // As SQLite does by itself on a full disk.
        connection.execute_batch("ROLLBACK")?;
        connection.execute_batch("no statement")?;
        Ok(())
    });
    let second = worker.write(|connection| {
        Ok(connection.execute("INSERT INTO project (worktree, id) VALUES ('/work', 'a')", [])?)
    });
    let (first, second, ()) = tokio::join!(first, second, async { queued.send(()).expect("awaited") });
    assert!(first.is_err());
    assert_eq!(second.expect("written"), 1);
}
