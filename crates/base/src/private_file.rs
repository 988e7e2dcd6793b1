//! Makes files that only the user can read.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// Makes a new file in a directory, which is made too if it is missing.
pub fn create(directory: &Path, name: &str) -> io::Result<(PathBuf, fs::File)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let path = directory.join(name);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((path, file))
}
