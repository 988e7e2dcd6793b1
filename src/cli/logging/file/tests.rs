//! Rotation, several writers, and a directory that cannot be written.

use std::{fs, path::Path};

use super::{LogFile, MAX_FILE_BYTES, Output, current, rotated};

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[test]
fn two_files_stay_below_ten_megabytes_and_whole_lines_are_kept() {
    let scratch = tempfile::tempdir().unwrap();
    // As two processes do, each of which learns from the file alone that the other has rotated it.
    let output = || Output { directory: scratch.path().join("log"), file: None };
    let mut outputs = [output(), output()];
    let line = format!("{}\n", "x".repeat(99));
    let lines = line.repeat(500);
    for turn in 0..400 {
        outputs[turn % 2].append(lines.as_bytes()).unwrap();
    }
    let directory = scratch.path().join("log");
    let (current, rotated) = (current(&directory), rotated(&directory));
    assert!(size(&current) > 0 && size(&rotated) > MAX_FILE_BYTES / 2);
    assert!(size(&current) + size(&rotated) < 10_000_000);
    assert_eq!((size(&current) % 100, size(&rotated) % 100), (0, 0));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
    fs::remove_file(&current).unwrap();
    outputs[0].append(line.as_bytes()).unwrap();
    assert_eq!(size(&current), 100);
}

#[test]
fn what_was_pushed_is_there_when_it_is_finished() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("a/b");
    let log = LogFile::new(directory.clone());
    assert!(!directory.exists());
    log.finish();
    (0..100).for_each(|n| log.push(format!("line {n}\n")));
    log.finish();
    let text = fs::read_to_string(current(&directory)).unwrap();
    assert_eq!(text.lines().count(), 100);
    assert!(text.ends_with("line 99\n"));
}

#[test]
fn a_directory_that_cannot_be_made_fails_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("file"), "").unwrap();
    let log = LogFile::new(scratch.path().join("file/log"));
    (0..100).for_each(|n| log.push(format!("line {n}\n")));
    log.finish();
}
