//! Reads a user's text file of a sensible size.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use nix::libc;

use super::refusal::Refusal;

/// A larger configuration, definition or skill is a mistake.
pub const MAX_BYTES: u64 = 1024 * 1024;

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than 1 MiB")]
    TooLarge,
    #[error("it is not text in UTF-8")]
    NotUtf8 {
        /// Line of the first byte that belongs to no character, from 1.
        line: usize,
        /// In characters, 1-based.
        column: usize,
    },
    /// Others can write it, or it is behind a link that leaves its project.
    #[error(transparent)]
    Refused(Box<Refusal>),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Unreadable {
    /// Returns true if there is no file.
    pub fn is_missing(&self) -> bool {
        matches!(self, Unreadable::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Returns the line and the column, 1-based, of the fault in the file.
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Unreadable::NotUtf8 { line, column } => Some((*line, *column)),
            Unreadable::NotAFile | Unreadable::TooLarge | Unreadable::Refused(_) | Unreadable::Io(_) => None,
        }
    }
}

/// Returns the text of a regular file of at most 1 MiB. Blocks, but never on a pipe.
pub fn read(path: &Path) -> Result<String, Unreadable> {
    read_opened(open(path)?)
}

/// Opens a regular file for reading. Blocks, but never on a pipe.
pub fn open(path: &Path) -> Result<File, Unreadable> {
    // Reading a device might never end, and opening some of them does something.
    if !fs::metadata(path)?.is_file() {
        return Err(Unreadable::NotAFile);
    }
    // A pipe may have been put in its place since.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(Unreadable::NotAFile) }
}

/// Returns the text of an open file of at most 1 MiB. Blocks.
pub fn read_opened(file: File) -> Result<String, Unreadable> {
    let n_bytes = file.metadata()?.len();
    if n_bytes > MAX_BYTES {
        return Err(Unreadable::TooLarge);
    }
    let mut bytes = Vec::with_capacity(n_bytes as usize + 1);
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Unreadable::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| {
        let (valid, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let before = String::from_utf8_lossy(valid);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Unreadable::NotUtf8 {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    })
}

#[cfg(test)]
mod tests;
