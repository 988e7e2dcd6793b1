//! Users of a store know of each other.

use super::alone;
use crate::storage::{
    Storage, StorageError,
    repair::repair,
    tests::{session, store},
};

const N_TRIES: usize = 5_000;

#[tokio::test]
async fn a_store_that_somebody_has_open_is_neither_repaired_nor_shrunk() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    assert!(storage.create_session(session("/work", 1)).await.expect("stored"));
    let other = Storage::new(path.clone());
    assert!(other.create_session(session("/work", 2)).await.expect("stored"));
    assert!(!other.shrink().await.expect("left alone"));
    drop(storage);
    // A child that another test has forked holds the lock too, until it runs its program.
    let mut is_shrunk = false;
    for _ in 0..N_TRIES {
        is_shrunk = is_shrunk || other.shrink().await.expect("shrunk");
    }
    assert!(is_shrunk);
    assert!(matches!(repair(&path), Err(StorageError::InUse { .. })));
    drop(other);
    assert!((0..N_TRIES).any(|_| repair(&path).is_ok()));
}

#[tokio::test]
async fn a_process_that_starts_during_a_repair_writes_nothing() {
    let (directory, storage) = store();
    let path = directory.path().join("windlass.db");
    let repairing = alone(&path).expect("locked").expect("alone");
    let error = storage.create_session(session("/work", 1)).await.expect_err("in repair");
    let told =
        format!("the store {} is being repaired; repeat when `windlass db repair` has ended", path.display());
    assert_eq!(error.to_string(), told);
    assert!(!path.exists());
    drop(repairing);
    assert!(storage.create_session(session("/work", 1)).await.expect("stored"));
}
