//! Resolution of paths, including paths that do not exist.

use std::{
    collections::{HashMap, VecDeque},
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Maximum number of links to follow, as on Linux.
const MAX_LINKS: usize = 40;

/// Resolves `path` against `base` and removes `.` and `..`.
pub fn absolute(base: &Path, path: impl AsRef<Path>) -> PathBuf {
    let mut done = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                done.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => done.push(component),
        }
    }
    done
}

/// Writes `to` wherever a text names the directory `from`, or something in it. A text may name the root anywhere, which stays.
pub fn in_other_directory(text: &str, from: &str, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // A name goes on before or behind: another directory's, whose name is longer.
    let goes_on = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.');
    while let Some(next) = rest.chars().next() {
        match rest.strip_prefix(from) {
            Some(behind) if from.len() > 1 && !behind.starts_with(goes_on) && !out.ends_with(goes_on) => {
                out.push_str(to);
                rest = behind;
            }
            _other => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
    }
    out
}

/// Resolves every symlink, even if the path or a link's target does not exist: writing there would create it.
pub fn real(path: &Path) -> PathBuf {
    Links::default().real(path)
}

/// Links as they are read once, for many paths with the same beginnings.
#[derive(Default)]
pub struct Links(HashMap<PathBuf, Entry>);

/// An entry of a directory, as far as links are followed.
#[derive(Clone)]
enum Entry {
    Link(PathBuf),
    /// There is nothing at its path, and so nothing below it.
    Missing,
    Other,
}

impl Links {
    /// Resolves a path as [`real`] does.
    pub fn real(&mut self, path: &Path) -> PathBuf {
        let mut done = PathBuf::from("/");
        let mut ahead: VecDeque<OsString> = path.components().map(|it| it.as_os_str().to_owned()).collect();
        let (mut n_links, mut is_missing) = (0, false);
        while let Some(name) = ahead.pop_front() {
            if name == "." {
                continue;
            }
            // The root is no link, and the target of one may begin there.
            if name == "/" {
                done = PathBuf::from("/");
                continue;
            }
            if name == ".." {
                done.pop();
                is_missing = false;
                continue;
            }
            let next = done.join(&name);
            match if is_missing { Entry::Missing } else { self.read(&next) } {
                Entry::Link(link) if n_links < MAX_LINKS => {
                    n_links += 1;
                    link.components().rev().for_each(|it| ahead.push_front(it.as_os_str().to_owned()));
                }
                Entry::Missing => (done, is_missing) = (next, true),
                Entry::Link(_) | Entry::Other => done = next,
            }
        }
        done
    }

    fn read(&mut self, path: &Path) -> Entry {
        let read = || match fs::read_link(path) {
            Ok(link) => Entry::Link(link),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Entry::Missing,
            Err(_) => Entry::Other,
        };
        self.0.entry(path.to_owned()).or_insert_with(read).clone()
    }
}

#[cfg(test)]
mod tests;
