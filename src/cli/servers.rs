//! This user's tokens at servers with accounts.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    path::Path,
};

use reqwest::Url;
use serde::{Deserialize, Serialize};
use windlass_base::{ids, private_file};
use windlass_core::config::paths::Paths;

const NAME_CHARS: usize = 12;

/// The tokens by the addresses of their servers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Servers(pub BTreeMap<String, Login>);

#[derive(Debug, Serialize, Deserialize)]
pub struct Login {
    pub token: String,
}

impl Servers {
    /// Reads the file; without one there are none.
    pub fn read(file: &Path) -> Result<Self, String> {
        match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                format!("{} cannot be read: {error}. Move it away and log in again.", file.display())
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{} cannot be read: {error}.", file.display())),
        }
    }

    /// Writes the file for this user alone.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("{} cannot be written: {error}.", file.display());
        let directory = file.parent().unwrap_or(Path::new("/"));
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.into()))?;
        let (new, mut opened) =
            private_file::create(directory, &format!("servers.{}", ids::random(NAME_CHARS)))
                .map_err(failed)?;
        opened
            .write_all(&text)
            .and_then(|()| opened.sync_all())
            .and_then(|()| fs::rename(&new, file))
            .map_err(failed)
    }
}

/// Returns the token by which this user is logged in at a server.
pub fn token(paths: &Paths, url: &Url) -> Option<String> {
    let servers = Servers::read(&paths.servers()).ok()?;
    servers.0.get(&origin(url)).map(|login| login.token.clone())
}

/// Returns a server's address as the file has it.
pub fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}
