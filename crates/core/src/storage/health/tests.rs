//! Stores that are intact, damaged, missing and read-only.

use std::{fs, time::Duration};

use rusqlite::Connection;

use super::{Integrity, check};

const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_check_reads_the_whole_store_and_changes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("windlass.db");
    assert_eq!(check(&path, LIMIT).unwrap(), None);
    assert!(!path.exists());
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("CREATE TABLE a (b TEXT); INSERT INTO a VALUES (hex(zeroblob(50000)));")
        .unwrap();
    drop(connection);
    let health = check(&path, LIMIT).unwrap().unwrap();
    assert_eq!(health.integrity, Integrity::Whole);
    assert_eq!(health.bytes, fs::metadata(&path).unwrap().len());

    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    assert!(matches!(check(&path, LIMIT).unwrap().unwrap().integrity, Integrity::Damaged(_)));
    fs::write(&path, "no database at all, but a text that is long enough").unwrap();
    assert!(matches!(check(&path, LIMIT).unwrap().unwrap().integrity, Integrity::Damaged(_)));
}

#[test]
fn a_read_only_store_is_reported() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("windlass.db");
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE a (b TEXT)").unwrap();
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    assert_eq!(check(&path, LIMIT).unwrap().unwrap().integrity, Integrity::NotWritable);
}
