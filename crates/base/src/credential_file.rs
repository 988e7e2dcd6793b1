//! Files of credentials: JSON objects that only their owner may read, changed by one process at a time.

use std::{
    fs,
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use serde_json::{Map, Value};

/// Opens a file that is there to be locked.
pub fn open_lock(file: &Path) -> io::Result<fs::File> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(file.parent().unwrap_or(Path::new("/")))?;
    fs::OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(file)
}

/// Waits until no other process changes a file of credentials, which takes it no more than a moment.
fn lock(file: &Path) -> io::Result<fs::File> {
    let lock_file = file.with_extension("json.lock");
    let lock = open_lock(&lock_file).map_err(|err| named(&lock_file, "open", &err))?;
    lock.lock().map_err(|err| named(&lock_file, "lock", &err))?;
    Ok(lock)
}

/// Changes a file of credentials while no other process does. Nothing is written if `edit` returns false, which is
/// returned. Moves a broken file aside first.
pub fn change(file: &Path, edit: impl FnOnce(&mut Map<String, Value>) -> bool) -> io::Result<bool> {
    let _lock = lock(file)?;
    let mut entries = match read(file)? {
        Some(entries) => entries,
        None => {
            let aside = file.with_extension("json.broken");
            fs::rename(file, &aside).map_err(|err| named(file, "move aside", &err))?;
            Map::new()
        }
    };
    if !edit(&mut entries) {
        return Ok(false);
    }
    write(file, &entries)?;
    Ok(true)
}

/// Removes a file while no other process changes it.
pub fn remove(file: &Path) -> io::Result<()> {
    let _lock = lock(file)?;
    match fs::remove_file(file) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(named(file, "remove", &err)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads a file with all entries, including those of unknown kinds; `None` for a broken one.
pub fn read(file: &Path) -> io::Result<Option<Map<String, Value>>> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(serde_json::from_str(&text).ok()),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(Some(Map::new())),
        Err(err) => Err(named(file, "read", &err)),
    }
}

/// Replaces the file in one step. Only its owner may read it at any moment.
fn write(file: &Path, entries: &Map<String, Value>) -> io::Result<()> {
    let directory = file.parent().unwrap_or(Path::new("/"));
    let replace = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let draft = file.with_extension(format!("json.{}", std::process::id()));
        // A leftover of a killed process would keep its own mode.
        match fs::remove_file(&draft) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(err),
            Ok(()) | Err(_) => {}
        }
        let mut output = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        output.write_all(&serde_json::to_vec_pretty(entries)?)?;
        output.write_all(b"\n")?;
        output.sync_all()?;
        fs::rename(&draft, file)?;
        // A power cut must not bring back a token that has been replaced.
        fs::File::open(directory)?.sync_all()
    };
    replace().map_err(|err| named(file, "write", &err))
}

fn named(file: &Path, what: &str, err: &io::Error) -> io::Error {
    io::Error::new(err.kind(), format!("{what} {}: {err}", file.display()))
}
