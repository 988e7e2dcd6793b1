//! Copies on this machine of the files fetched by URL: a JSON file for each URL, which only this user can read.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_base::hash::fnv;

const MAX_PATH_BYTES: usize = 255;

/// A copy that knows the URL it was fetched from.
pub trait Cached: Serialize + DeserializeOwned {
    fn url(&self) -> &str;
}

/// Reason why a copy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("cannot be read: {0}; it is fetched again")]
    Unreadable(io::Error),
    #[error("is damaged; it is fetched again")]
    Damaged,
}

/// The usable entries of a server's list, and the problems of the last fetch, for the user to see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listing<T> {
    pub url: String,
    /// Earlier versions named them by their kind.
    #[serde(alias = "agents", alias = "skills")]
    pub entries: Vec<T>,
    pub problems: Vec<String>,
}

impl<T: Serialize + DeserializeOwned> Cached for Listing<T> {
    fn url(&self) -> &str {
        &self.url
    }
}

/// Returns a file name for a URL, without its extension.
pub fn name(url: &str) -> String {
    format!("{:016x}", fnv(url.as_bytes()))
}

/// Reads the copy for a URL; none if there is none. Blocking.
pub fn read<T: Cached>(file: &Path, url: &str) -> Result<Option<T>, CacheError> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(CacheError::Unreadable(error)),
    };
    let copy: T = serde_json::from_slice(&bytes).map_err(|_| CacheError::Damaged)?;
    // Two URLs may share a file.
    Ok(Some(copy).filter(|copy| copy.url() == url))
}

/// Like [`read`], for copies that are fetched again without a word to the user.
pub fn read_or_log<T: Cached>(file: &Path, url: &str) -> Option<T> {
    read(file, url).unwrap_or_else(|error| {
        tracing::warn!("{} {error}", file.display());
        None
    })
}

/// Writes a copy in one step. Blocking.
pub fn write<T: Cached>(file: &Path, copy: &T) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let draft: PathBuf = file.with_extension(format!("{}.new", std::process::id()));
    let mut output = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    output.write_all(&serde_json::to_vec(copy)?)?;
    fs::rename(&draft, file)
}

/// Returns the version that a server's list gives an entry.
pub fn version(entry: &Value) -> Option<String> {
    match entry.get("version")? {
        Value::Null => None,
        Value::String(version) => Some(version.clone()),
        version => Some(version.to_string()),
    }
}

/// Returns true if a path in a server's list stays below the directory it is joined to, on every system.
pub fn is_below(path: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_bad = |it: char| it.is_control() || matches!(it, '\\' | ':');
    path.len() <= MAX_PATH_BYTES && path.split('/').all(is_plain) && !path.contains(is_bad)
}
