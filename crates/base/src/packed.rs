//! Texts that the binary holds compressed. A test makes each from the types that it describes.

use std::{
    fs,
    io::{Read, Write},
    path::Path,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// Returns a text of the binary.
pub fn text(packed: &'static [u8]) -> String {
    let mut text = String::new();
    // A part of the binary is as whole as the binary.
    let _ = GzDecoder::new(packed).read_to_string(&mut text);
    text
}

/// For tests: compares a text with the one in `file`, which the binary holds as `packed`; `UPDATE_EXPECT=1`
/// writes it where they differ.
///
/// # Panics
///
/// If they differ, or the file cannot be written.
#[expect(clippy::disallowed_methods, reason = "a switch of tests, not a setting")]
pub fn check(made: &str, packed: &'static [u8], file: &Path) {
    // Not byte by byte: another version of the library may compress to other bytes.
    if text(packed) == made {
        return;
    }
    let is_written = std::env::var("UPDATE_EXPECT").is_ok();
    assert!(is_written, "{} is not up to date; run with UPDATE_EXPECT=1 to write it", file.display());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(made.as_bytes()).and_then(|()| encoder.finish());
    let written = written.and_then(|bytes| fs::write(file, bytes));
    assert!(written.is_ok(), "{}: {written:?}", file.display());
}
