//! Lines of the log as people see them, and files that are put aside while they are read.

use std::fs;

use super::{Entry, LogLevel, ReadPosition, logging};

#[test]
fn lines_are_taken_apart_and_chosen_by_level() {
    let line = "2026-11-22T10:20:37.123Z INFO  4711 a turn ended session=ses_1";
    let entry = Entry::of(line, LogLevel::Info).unwrap();
    assert_eq!(
        entry.json(),
        r#"{"time":"2026-11-22T10:20:37.123Z","level":"info","process":4711,"text":"a turn ended session=ses_1"}"#
    );
    let shown = entry.for_people("2000-01-01");
    assert!(
        shown.starts_with("2026-11-2") && shown.ends_with(" INFO  a turn ended session=ses_1"),
        "{shown}"
    );
    assert!(Entry::of(line, LogLevel::Warn).is_none());
    assert!(Entry::of(line, LogLevel::Debug).is_some());
    for foreign in ["", "x", "no log line", "2026-11-22T10:20:37.123Z INFO", "2026 \u{1f600}\u{1f600} x"] {
        assert!(Entry::of(foreign, LogLevel::Info).is_none(), "{foreign}");
        assert_eq!(Entry::of(foreign, LogLevel::Trace).unwrap().for_people("2000-01-01"), foreign);
    }
}

#[test]
fn a_file_that_is_put_aside_loses_no_line() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path();
    let (current, rotated) = (logging::current(directory), logging::rotated(directory));
    let mut position = ReadPosition::default();
    assert!(position.read_all(directory).unwrap().is_empty());
    fs::write(&rotated, "1\n").unwrap();
    fs::write(&current, "2\n3").unwrap();
    assert_eq!(position.read_all(directory).unwrap(), ["1", "2"]);
    fs::write(&current, "2\n3\n4\n").unwrap();
    fs::rename(&current, &rotated).unwrap();
    fs::write(&current, "5\n").unwrap();
    assert_eq!(position.read_more(directory).unwrap(), ["3", "4", "5"]);
    assert!(position.read_more(directory).unwrap().is_empty());
}
