//! Shared and sole locks on sessions.
#![allow(clippy::expect_used, reason = "tests")]

use windlass_base::ids;

use super::*;

#[tokio::test]
async fn a_session_is_taken_alone_only_while_nobody_else_has_it() {
    let directory = tempfile::tempdir().expect("made");
    let store = directory.path().join("windlass.db");
    // Each opens the file for itself, as two processes do.
    let (locks, others) = (SessionLocks::new(&store), SessionLocks::new(&store));
    let (id, other_id) = (ids::session(), ids::session());
    let own = locks.share(&id).await;
    assert!(own.alone().is_some());
    let elsewhere = others.share(&other_id).await;
    assert!(own.alone().is_some(), "another session is not this one");
    let theirs = (others.share(&id).await, others.share(&id).await);
    assert!(own.alone().is_none());
    drop(theirs.0);
    assert!(own.alone().is_none(), "they have it twice");
    drop(theirs.1);
    let sole = own.alone().expect("free");
    let waiting = tokio::spawn({
        let (others, id) = (others.clone(), id.clone());
        async move { others.share(&id).await }
    });
    drop(sole);
    let theirs = waiting.await.expect("shared");
    assert!(own.alone().is_none());
    drop((own, elsewhere));
    assert!(theirs.alone().is_some());
}
