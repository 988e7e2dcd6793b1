//! Replaces the content of several files, of all or of none.

use std::{
    fs,
    io::{self, ErrorKind, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use nix::libc;
use windlass_base::{
    ids,
    pinned::{self, Directory},
};

use super::keep::keep;
use crate::tool::FileStamp;

pub(super) const MOVED: &str = "it leads elsewhere than when permission was asked for it; try again";

/// A file's old and new content; `None` where there is no file.
pub(crate) struct Swap {
    /// The path as it was named.
    pub path: PathBuf,
    /// The file that was judged, with links followed. Links created there later are not followed.
    pub real: PathBuf,
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
    /// The file that a new file gets its permissions from.
    pub like: Option<PathBuf>,
}

/// The failure of writing a file.
pub(crate) struct Failure {
    pub path: PathBuf,
    pub error: io::Error,
}

/// Writes everything or, after a failure, leaves everything as it was. Blocks.
///
/// Returns the new stamps of the files.
pub(crate) fn swap_all(swaps: &[Swap]) -> Result<Vec<Option<FileStamp>>, Failure> {
    let failed = |swap: &Swap, error| {
        let error = if pinned::is_moved(&error) { io::Error::other(MOVED) } else { error };
        Failure { path: swap.path.clone(), error }
    };
    let mut made = MadeDirectories::default();
    let mut destinations = Vec::new();
    for swap in swaps {
        destinations.push(Destination::new(swap, &mut made).map_err(|error| failed(swap, error))?);
    }
    let mut staged = Vec::new();
    for destination in &destinations {
        staged.push(stage(destination).map_err(|error| failed(destination.swap, error))?);
    }
    let mut undo = Undo(Vec::new());
    for (idx, (destination, staged)) in destinations.iter().zip(staged).enumerate() {
        // No step can fail after the last one, so it needs no undo.
        let is_last = idx + 1 == swaps.len();
        undo.0.extend(commit(destination, staged, is_last).map_err(|error| failed(destination.swap, error))?);
    }
    undo.0.clear();
    made.keep();
    let stamp = |destination: &Destination<'_>| {
        let content = destination.swap.after.as_deref()?;
        Some(FileStamp::of(&fs::symlink_metadata(&destination.path).ok()?).with_content(content))
    };
    Ok(destinations.iter().map(stamp).collect())
}

/// A file in the directory that was judged.
struct Destination<'a> {
    swap: &'a Swap,
    /// A path through the descriptor of `_directory`.
    path: PathBuf,
    _directory: Directory,
}

impl<'a> Destination<'a> {
    fn new(swap: &'a Swap, made: &mut MadeDirectories) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (swap.real.parent(), swap.real.file_name()) else {
            return Err(ErrorKind::IsADirectory.into());
        };
        let directory = if swap.after.is_some() { made.make(parent)? } else { Directory::open(parent)? };
        Ok(Self { swap, path: directory.entry(name), _directory: directory })
    }
}

/// New content that is not in place yet.
enum Staged {
    /// Replaces the file by renaming: a reader sees the old or the new text, never a part.
    Rename(Temporary),
    /// Writes the file in place, because renaming over it would break a link or lose its owner.
    InPlace,
    Remove,
}

fn stage(destination: &Destination<'_>) -> io::Result<Staged> {
    let swap = destination.swap;
    let Some(content) = &swap.after else { return Ok(Staged::Remove) };
    let path = destination.path.as_path();
    let old = match fs::symlink_metadata(path) {
        Ok(old) if old.is_symlink() => return Err(io::Error::other(MOVED)),
        Ok(old) => Some(old),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    // Finds out now, and without harm, if the file may be written.
    let in_place = || open_to_write(path).map(|_| Staged::InPlace);
    if let Some(old) = &old {
        // Renaming over these files would break a link or bypass the file's own protection.
        let is_protected = old.permissions().readonly();
        if old.nlink() > 1 || is_protected {
            let staged = in_place()?;
            prove_room(path, content)?;
            return Ok(staged);
        }
    }
    let temporary = Temporary::beside(path);
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    if old.is_some() {
        // No other user may read it before it has the file's own mode.
        options.mode(0o600);
    }
    let opened = options.open(&temporary.0);
    let mut file = match (opened, &old) {
        (Ok(file), _) => file,
        // The directory may be read-only while the file is writable.
        (Err(_), Some(_)) => return in_place(),
        (Err(error), None) => return Err(error),
    };
    file.write_all(content)?;
    if let Some(old) = &old {
        if !keep(&file, old, path)? {
            return in_place();
        }
    } else if let Some(like) = &swap.like {
        file.set_permissions(fs::metadata(like)?.permissions())?;
    }
    Ok(Staged::Rename(temporary))
}

/// Fails if the content cannot be stored: a file that is written in place would be lost halfway.
fn prove_room(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = Temporary::beside(path);
    let opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary.0);
    match opened {
        Ok(mut file) => file.write_all(content),
        // A read-only directory proves nothing.
        Err(_) => Ok(()),
    }
}

fn open_to_write(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW).open(path)
}

/// Writes over a file. Blocks that are allocated already cannot run out of space.
fn overwrite(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = open_to_write(path)?;
    let permissions = file.metadata()?.permissions();
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    if file.metadata()?.permissions() != permissions {
        // A write clears setuid and setgid. A user that may not restore them loses them rightly.
        let _ = file.set_permissions(permissions);
    }
    Ok(())
}

fn commit(destination: &Destination<'_>, staged: Staged, is_last: bool) -> io::Result<Option<Restore>> {
    let (swap, real) = (destination.swap, destination.path.as_path());
    match staged {
        Staged::InPlace => {
            let written = overwrite(real, swap.after.as_deref().unwrap_or_default());
            let before = swap.before.clone().unwrap_or_default();
            if let Err(error) = written {
                // A part of it may be written.
                Restore::Rewrite { real: real.to_owned(), before }.run();
                return Err(error);
            }
            Ok(Some(Restore::Rewrite { real: real.to_owned(), before }))
        }
        Staged::Rename(temporary) => {
            let restore = match &swap.before {
                None => Restore::Remove { real: real.to_owned() },
                Some(_) if is_last => Restore::None,
                Some(before) => {
                    let backup = Temporary::beside(real);
                    match fs::hard_link(real, &backup.0) {
                        Ok(()) => Restore::Rename { backup, real: real.to_owned() },
                        // Some file systems have no hard links.
                        Err(_) => Restore::Rewrite { real: real.to_owned(), before: before.clone() },
                    }
                }
            };
            fs::rename(&temporary.0, real)?;
            Ok(Some(restore))
        }
        Staged::Remove if is_last => fs::remove_file(real).map(|()| None),
        Staged::Remove => {
            let backup = Temporary::beside(real);
            fs::rename(real, &backup.0)?;
            Ok(Some(Restore::Rename { backup, real: real.to_owned() }))
        }
    }
}

/// The way to restore one file.
enum Restore {
    None,
    Rename { backup: Temporary, real: PathBuf },
    Rewrite { real: PathBuf, before: Vec<u8> },
    Remove { real: PathBuf },
}

impl Restore {
    fn run(self) {
        let (real, done) = match self {
            Self::None => return,
            Self::Rename { backup, real } => {
                let done = fs::rename(&backup.0, &real);
                if done.is_err() {
                    // The only copy of the file must stay.
                    std::mem::forget(backup);
                }
                (real, done)
            }
            Self::Rewrite { real, before } => {
                let done = overwrite(&real, &before);
                (real, done)
            }
            Self::Remove { real } => {
                let done = fs::remove_file(&real);
                (real, done)
            }
        };
        if let Err(error) = done {
            tracing::error!(path = %real.display(), %error, "a file could not be put back");
        }
    }
}

/// Restores the files on drop, the newest change first, unless the list was emptied.
struct Undo(Vec<Restore>);

impl Drop for Undo {
    fn drop(&mut self) {
        while let Some(restore) = self.0.pop() {
            restore.run();
        }
    }
}

/// New directories, each with its parent, which are removed on drop unless they are kept.
#[derive(Default)]
pub(super) struct MadeDirectories(Vec<(Directory, PathBuf)>);

impl MadeDirectories {
    /// Makes a directory that is missing.
    pub(super) fn make(&mut self, real: &Path) -> io::Result<Directory> {
        Directory::make(real, &mut self.0)
    }

    pub(super) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        while let Some((_above, path)) = self.0.pop() {
            // Fails if another process has put files into it.
            let _ = fs::remove_dir(path);
        }
    }
}

/// A file that is removed on drop unless it was renamed away.
struct Temporary(PathBuf);

impl Temporary {
    fn beside(path: &Path) -> Self {
        let parent = path.parent().unwrap_or(Path::new("/"));
        Self(parent.join(format!(".windlass-{}.tmp", ids::random(12))))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests;
