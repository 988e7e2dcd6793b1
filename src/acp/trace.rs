//! The wire trace: every line in both directions, appended to a file on request.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Mutex,
};

use windlass_base::lock::lock;

/// A trace file, or none.
pub struct Trace(Option<Mutex<File>>);

impl Trace {
    /// Appends to `path`; no path, no trace.
    pub fn open(path: Option<&Path>) -> io::Result<Self> {
        let file = path
            .map(|path| OpenOptions::new().create(true).append(true).mode(0o600).open(path))
            .transpose()?;
        Ok(Self(file.map(Mutex::new)))
    }

    /// Writes a line from the client.
    pub fn received(&self, line: &[u8]) {
        self.write("-> ", line.trim_ascii_end());
    }

    /// Writes a line to the client.
    pub fn sent(&self, line: &[u8]) {
        self.write("<- ", line);
    }

    fn write(&self, arrow: &str, line: &[u8]) {
        let Some(file) = &self.0 else { return };
        let mut text = Vec::with_capacity(line.len() + 4);
        text.extend_from_slice(arrow.as_bytes());
        text.extend_from_slice(line);
        text.push(b'\n');
        let written = lock(file).write_all(&text);
        if let Err(error) = written {
            tracing::warn!(%error, "the wire trace could not be written");
        }
    }
}
