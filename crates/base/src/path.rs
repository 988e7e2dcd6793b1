//! Resolution of paths, including paths that do not exist.

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs,
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

/// Resolves every symlink, even if the path or a link's target does not exist: writing there would create it.
pub fn real(path: &Path) -> PathBuf {
    let mut done = PathBuf::from("/");
    let mut ahead: VecDeque<OsString> = path.components().map(|it| it.as_os_str().to_owned()).collect();
    let mut n_links = 0;
    while let Some(name) = ahead.pop_front() {
        if name == "." {
            continue;
        }
        if name == ".." {
            done.pop();
            continue;
        }
        let next = done.join(&name);
        match fs::read_link(&next) {
            Ok(link) if n_links < MAX_LINKS => {
                n_links += 1;
                link.components().rev().for_each(|it| ahead.push_front(it.as_os_str().to_owned()));
            }
            Ok(_) | Err(_) => done = next,
        }
    }
    done
}
