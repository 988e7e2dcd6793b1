//! Opens files and directories as they were judged: a symbolic link put in their place since is not followed.
//!
//! Paths here are absolute and have had their links followed, as by [`super::path::real`].

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use nix::libc;

/// A directory that stays the same one, even if the path it was opened by leads elsewhere later.
#[derive(Debug)]
pub struct Directory {
    file: File,
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "its descriptor leads there"))]
    path: PathBuf,
}

impl Directory {
    /// Opens a directory. Fails with `ELOOP` or `ENOTDIR` if the path has a symbolic link in it.
    pub fn open(real: &Path) -> io::Result<Self> {
        let file = open(real, libc::O_DIRECTORY)?;
        Ok(Self { file, path: real.to_owned() })
    }

    /// Opens a directory as [`Self::open`] does, after making the missing ones, and adds their paths to `made`,
    /// each within the directory above it.
    pub fn make(real: &Path, made: &mut Vec<(Self, PathBuf)>) -> io::Result<Self> {
        match Self::open(real) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let parent = Self::make(parent, made)?;
        let entry = parent.entry(name);
        match fs::create_dir(&entry) {
            Ok(()) => made.push((parent, entry)),
            // Another process made it first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::open(real)
    }

    /// Lists this very directory.
    pub fn entries(&self) -> io::Result<fs::ReadDir> {
        fs::read_dir(self.entry(OsStr::new("")))
    }

    /// Returns a path that leads to an entry of this very directory while it is open.
    pub fn entry(&self, name: &OsStr) -> PathBuf {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd;
            Path::new("/proc/self/fd").join(self.file.as_raw_fd().to_string()).join(name)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = &self.file;
            self.path.join(name)
        }
    }
}

/// Opens a file for reading, also a pipe, without waiting. Fails with `ELOOP` if the path has a symbolic link
/// in it.
pub fn open_file(real: &Path) -> io::Result<File> {
    open(real, libc::O_NONBLOCK)
}

/// Returns true if a symbolic link was put into a path that had none.
pub fn is_behind_link(real: &Path) -> bool {
    // The file itself is not opened, so that one that cannot be read counts as there.
    let (parent, name) = (real.parent(), real.file_name());
    let (Some(parent), Some(name)) = (parent, name) else { return false };
    match Directory::open(parent) {
        Ok(directory) => directory.entry(name).is_symlink(),
        // Instead of the directory there is a file, or nothing.
        Err(error) => is_moved(&error) || error.raw_os_error() == Some(libc::ENOTDIR),
    }
}

#[cfg(target_os = "linux")]
fn open(real: &Path, flags: i32) -> io::Result<File> {
    use nix::{
        errno::Errno,
        fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2},
    };
    let how = OpenHow::new()
        .flags(OFlag::from_bits_retain(flags) | OFlag::O_RDONLY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    match openat2(AT_FDCWD, real, how) {
        Ok(fd) => Ok(fd.into()),
        // A kernel before 5.6, or a filter that does not know the system call.
        Err(Errno::ENOSYS | Errno::EPERM) => open_and_compare(real, flags),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn open(real: &Path, flags: i32) -> io::Result<File> {
    open_and_compare(real, flags)
}

/// Opens a file and checks that the path still leads to it without a link.
fn open_and_compare(real: &Path, flags: i32) -> io::Result<File> {
    use std::os::unix::fs::MetadataExt;
    let file = OpenOptions::new().read(true).custom_flags(flags | libc::O_NOFOLLOW).open(real)?;
    let led_to = super::path::real(real);
    let (opened, now) = (file.metadata()?, fs::symlink_metadata(&led_to)?);
    let is_same = led_to == real && (opened.dev(), opened.ino()) == (now.dev(), now.ino());
    if is_same { Ok(file) } else { Err(io::Error::from_raw_os_error(libc::ELOOP)) }
}

/// Returns true if an error means that a symbolic link was found in a path that had none.
pub fn is_moved(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(test)]
mod tests {
    use std::{io::Read, os::unix::fs::symlink};

    use tempfile::TempDir;

    use super::*;
    use crate::path::real;

    fn scene() -> (TempDir, PathBuf) {
        let directory = TempDir::new().unwrap();
        let root = real(directory.path());
        fs::create_dir_all(root.join("in/sub")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("in/sub/f"), "inside").unwrap();
        fs::write(root.join("out/f"), "outside").unwrap();
        (directory, root)
    }

    #[test]
    fn an_entry_is_of_the_directory_that_was_opened_whatever_takes_its_place() {
        let (_directory, root) = scene();
        let pinned = Directory::open(&root.join("in/sub")).unwrap();
        fs::rename(root.join("in/sub"), root.join("in/moved")).unwrap();
        symlink(root.join("out"), root.join("in/sub")).unwrap();
        fs::write(pinned.entry("new".as_ref()), "x").unwrap();
        assert!(root.join("in/moved/new").exists() && !root.join("out/new").exists());
    }

    #[test]
    fn a_link_on_the_way_is_not_followed_by_either_way_of_opening() {
        let (_directory, root) = scene();
        symlink(root.join("out"), root.join("in/link")).unwrap();
        symlink(root.join("out/f"), root.join("in/file")).unwrap();
        for path in ["in/link/f", "in/file"] {
            for opened in [open_file(&root.join(path)), open_and_compare(&root.join(path), 0)] {
                assert!(is_moved(&opened.unwrap_err()), "{path}");
            }
        }
        assert!(Directory::open(&root.join("in/link")).is_err());
        let mut text = String::new();
        open_and_compare(&root.join("in/sub/f"), 0).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "inside");
    }

    #[test]
    fn missing_directories_are_made_one_by_one_and_named() {
        let (_directory, root) = scene();
        let mut made = Vec::new();
        let last = Directory::make(&root.join("in/a/b"), &mut made).unwrap();
        fs::write(last.entry("f".as_ref()), "").unwrap();
        assert!(root.join("in/a/b/f").exists());
        assert_eq!(made.len(), 2);
        fs::remove_file(root.join("in/a/b/f")).unwrap();
        for (_above, entry) in made.iter().rev() {
            fs::remove_dir(entry).unwrap();
        }
        assert!(!root.join("in/a").exists());
        symlink(root.join("out"), root.join("in/link")).unwrap();
        assert!(Directory::make(&root.join("in/link/new"), &mut Vec::new()).is_err());
        assert!(!root.join("out/new").exists());
    }
}
