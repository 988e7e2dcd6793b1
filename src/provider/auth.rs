//! Keys by provider: reads OpenCode's `auth.json`, reads ours over it, and writes ours (facts: OpenCode §7.2).

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_protocol::opencode::config::AuthEntry;

use crate::config::{Environment, Warning, paths::Paths};

/// Credentials by provider id.
pub type Credentials = BTreeMap<String, AuthEntry>;

/// A provider's credential, and the file or variable that holds it.
pub type Place = (PathBuf, String, AuthEntry);

/// Reads every known credential: OpenCode's, with ours over them, or instead of both `OPENCODE_AUTH_CONTENT`.
/// Does blocking reads.
pub fn load(paths: &Paths, environment: &Environment) -> (Credentials, Vec<Warning>) {
    let (places, warnings) = places(paths, environment);
    // The first of the lookup is the last to be put in.
    let credentials = places.into_iter().rev().map(|(_, provider, entry)| (provider, entry));
    (credentials.collect(), warnings)
}

/// Returns every credential in the order of the lookup, and the sources that cannot be used. Does blocking
/// reads.
pub fn places(paths: &Paths, environment: &Environment) -> (Vec<Place>, Vec<Warning>) {
    const VARIABLE: &str = "OPENCODE_AUTH_CONTENT";
    let (mut places, mut warnings) = (Vec::new(), Vec::new());
    if let Some(text) = environment.get(VARIABLE) {
        decode(Path::new(VARIABLE), text, &mut places, &mut warnings);
        return (places, warnings);
    }
    for file in [paths.auth(), paths.opencode_auth()] {
        match fs::read_to_string(&file) {
            Ok(text) => decode(&file, &text, &mut places, &mut warnings),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => warnings.push(warning(&file, format!("cannot be read: {err}"))),
        }
    }
    (places, warnings)
}

/// Stores a key. Moves a broken file aside first.
pub fn save(paths: &Paths, provider: &str, key: &str) -> io::Result<()> {
    let mut entries = read_own(paths)?;
    entries.insert(provider.to_owned(), json!({ "type": "api", "key": key }));
    write(&paths.auth(), &entries)
}

/// Removes a provider's key; returns false if our file did not have one.
pub fn remove(paths: &Paths, provider: &str) -> io::Result<bool> {
    let mut entries = read_own(paths)?;
    if entries.shift_remove(provider).is_none() {
        return Ok(false);
    }
    write(&paths.auth(), &entries)?;
    Ok(true)
}

/// Removes all keys in our file.
pub fn clear(paths: &Paths) -> io::Result<()> {
    match fs::remove_file(paths.auth()) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(named(&paths.auth(), "remove", &err)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn decode(source: &Path, text: &str, places: &mut Vec<Place>, warnings: &mut Vec<Warning>) {
    let entries: Map<String, Value> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(err) => {
            // The parser's message may quote the text, and the text is secret.
            let message = "is not a JSON object of credentials; it is ignored".to_owned();
            // The parser reports an end of the text in the middle as column 0 of its last line.
            let (line, column) = (Some(err.line().max(1)), Some(err.column().max(1)));
            warnings.push(Warning { line, column, ..warning(source, message) });
            return;
        }
    };
    for (provider, value) in entries {
        match AuthEntry::deserialize(&value) {
            Ok(entry) => {
                // OpenCode's older versions wrote ids with a slash at the end.
                let id = provider.trim_end_matches('/');
                places.retain(|(file, other, _)| file != source || other != id);
                places.push((source.to_owned(), id.to_owned(), entry));
            }
            Err(_) => {
                warnings.push(warning(source, format!("the entry of `{provider}` is not a credential")));
            }
        }
    }
}

/// Reads our file with all entries, including those of unknown kinds.
fn read_own(paths: &Paths) -> io::Result<Map<String, Value>> {
    let file = paths.auth();
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Map::new()),
        Err(err) => return Err(named(&file, "read", &err)),
    };
    match serde_json::from_str(&text) {
        Ok(entries) => Ok(entries),
        Err(_) => {
            let aside = file.with_extension("json.broken");
            fs::rename(&file, &aside).map_err(|err| named(&file, "move aside", &err))?;
            Ok(Map::new())
        }
    }
}

/// Replaces the file in one step. Only its owner may read it at any moment.
fn write(file: &Path, entries: &Map<String, Value>) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let replace = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let draft = directory.join(format!("auth.json.{}", std::process::id()));
        // A leftover of a killed process would keep its own mode.
        match fs::remove_file(&draft) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            Ok(()) | Err(_) => {}
        }
        let mut output = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        output.write_all(&serde_json::to_vec_pretty(entries)?)?;
        output.write_all(b"\n")?;
        output.sync_all()?;
        fs::rename(&draft, file)
    };
    replace().map_err(|err| named(file, "write", &err))
}

fn named(file: &Path, what: &str, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{what} {}: {err}", file.display()))
}

fn warning(source: &Path, message: String) -> Warning {
    Warning { source: source.display().to_string(), line: None, column: None, message }
}

#[cfg(test)]
mod tests;
