//! Tests of the connections to the store.

use std::{sync::Barrier, thread};

use rusqlite::StatementStatus;

use super::{to_read, to_write};

#[test]
fn a_statement_is_prepared_once_for_all_values() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("windlass.db");
    for connection in [to_write(&path).unwrap(), to_read(&path).unwrap()] {
        let mut statement =
            connection.prepare("SELECT data FROM part WHERE message_id = ?1 ORDER BY id").unwrap();
        for id in ["msg_1", "msg_2", "msg_3"] {
            assert!(statement.query([id]).unwrap().next().unwrap().is_none());
        }
        assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
    }
}

#[test]
fn everybody_who_opens_a_new_store_at_once_gets_it() {
    const N_OPENING: usize = 6;
    for _ in 0..25 {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("windlass.db");
        let barrier = Barrier::new(N_OPENING);
        thread::scope(|scope| {
            for _ in 0..N_OPENING {
                scope.spawn(|| {
                    barrier.wait();
                    to_write(&path).map(drop).unwrap();
                });
            }
        });
    }
}
