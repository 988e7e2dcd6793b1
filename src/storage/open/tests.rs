//! Tests of the connections to the store.

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
