//! Files that are read, and errors about the others.

use std::fs;

use super::{MAX_BYTES, read};

#[test]
fn only_a_regular_text_file_of_a_sensible_size_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "täxt").unwrap();
    assert_eq!(read(&file).unwrap(), "täxt");
    let long = usize::try_from(MAX_BYTES).unwrap();
    fs::write(&file, vec![b'x'; long]).unwrap();
    assert_eq!(read(&file).unwrap().len(), long);
    fs::write(&file, vec![b'x'; long + 1]).unwrap();
    assert_eq!(read(&file).unwrap_err().to_string(), "it is larger than 1 MiB");
    assert_eq!(read(directory.path()).unwrap_err().to_string(), "it is not a regular file");
    let missing = read(&directory.path().join("none")).unwrap_err();
    assert!(missing.is_missing() && missing.position().is_none());
}

#[test]
fn the_first_byte_that_is_no_text_is_named_by_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    for (bytes, position) in [
        (b"\xff".to_vec(), (1, 1)),
        (b"one\ntw\xc3\xb6 \xc3(".to_vec(), (2, 5)),
        ([b"x\n".repeat(5000), b"ab\xe2\x82".to_vec()].concat(), (5001, 3)),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = read(&file).unwrap_err();
        assert_eq!(
            (error.position(), error.to_string().as_str()),
            (Some(position), "it is not text in UTF-8")
        );
    }
}
