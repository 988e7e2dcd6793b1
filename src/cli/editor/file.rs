//! Changes a file of another program in one step, and keeps a copy beside it.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

/// A settings file is smaller.
const MAX_BYTES: u64 = 4 << 20;

/// Change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The file has the entry already.
    None,
    Made {
        /// Copy of the previous file, if there was one.
        copy: Option<PathBuf>,
    },
}

/// Returns the text of a file; an error when there is none, or when it is not a text.
pub fn read(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(io::Error::other("it is larger than 4 MB"));
    }
    fs::read_to_string(path)
}

/// Replaces a file's text by the one that `edit` makes of it: at once, or not at all.
pub fn change(path: &Path, edit: impl FnOnce(&str) -> Result<String, String>) -> Result<Change, String> {
    let before = match read(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => None,
        Err(error) => return Err(format!("it cannot be read: {error}")),
    };
    let after = edit(before.as_deref().unwrap_or_default())?;
    if before.as_deref() == Some(after.as_str()) {
        return Ok(Change::None);
    }
    replace(path, before.as_deref(), &after).map_err(|error| format!("it cannot be written: {error}"))
}

fn replace(path: &Path, before: Option<&str>, after: &str) -> io::Result<Change> {
    // Settings are often links into a repository of dot files, which stay links.
    let target = if before.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let directory = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory)?;
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beside = |end: &str| directory.join(format!("{name}.{end}"));
    let copy = match before {
        Some(_) => {
            let copy = beside("before-windlass");
            // A later change must not take the place of the file as it was before the first.
            if !copy.exists() {
                fs::copy(&target, &copy)?;
            }
            Some(copy)
        }
        None => None,
    };
    let draft = beside(&format!("{}.new", process::id()));
    let written = (|| {
        let mut file = fs::File::create(&draft)?;
        if before.is_some() {
            file.set_permissions(fs::metadata(&target)?.permissions())?;
        }
        file.write_all(after.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &target)
    })();
    if let Err(error) = written {
        // The draft is of no use to anybody.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    Ok(Change::Made { copy })
}
