//! Named paths with their links followed, each looked at once.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// A named path, as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Named {
    /// It is there: its own path, with links followed.
    Real(PathBuf),
    /// Nothing has this name.
    Absent,
    /// It cannot be told: a link that leads nowhere, or a directory that is closed to us.
    Unclear,
}

/// A cache of followed links. A boundary names many paths below few directories, so each directory is looked at once.
#[derive(Default)]
pub(super) struct RealPaths {
    known: HashMap<PathBuf, Named>,
}

impl RealPaths {
    /// Follows the links of an absolute path. Does blocking reads.
    pub(super) fn of(&mut self, path: &Path) -> Named {
        if let Some(named) = self.known.get(path) {
            return named.clone();
        }
        let named = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => match self.of(parent) {
                Named::Real(directory) => look(directory.join(name)),
                other => other,
            },
            // The root, or a path that ends in `..`.
            _ => follow(path),
        };
        self.known.insert(path.to_owned(), named.clone());
        named
    }

    /// Returns the real path of a named one, if it exists.
    pub(super) fn existing(&mut self, path: &Path) -> Option<PathBuf> {
        match self.of(path) {
            Named::Real(path) => Some(path),
            Named::Absent | Named::Unclear => None,
        }
    }

    /// Returns the existing paths, with their links followed, each once.
    pub(super) fn all(&mut self, named: &[PathBuf]) -> Vec<PathBuf> {
        let real: BTreeSet<PathBuf> = named.iter().filter_map(|path| self.existing(path)).collect();
        real.into_iter().collect()
    }
}

/// Looks at a path in a directory that has no links.
fn look(path: PathBuf) -> Named {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => follow(&path),
        Ok(_) => Named::Real(path),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Named::Absent,
        Err(_) => Named::Unclear,
    }
}

fn follow(path: &Path) -> Named {
    fs::canonicalize(path).map_or(Named::Unclear, Named::Real)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_and_what_is_missing_is_told_from_what_cannot_be_told() {
        let temporary = tempfile::tempdir().expect("a directory");
        let root = fs::canonicalize(temporary.path()).expect("it is there");
        fs::create_dir_all(root.join("real/inner")).expect("directories");
        fs::write(root.join("real/file"), "").expect("a file");
        symlink("real", root.join("link")).expect("a link");
        symlink("nowhere", root.join("dangling")).expect("a link");
        let mut real = RealPaths::default();
        let cases = [
            ("real/file", Named::Real(root.join("real/file"))),
            ("link/file", Named::Real(root.join("real/file"))),
            ("link/inner", Named::Real(root.join("real/inner"))),
            ("link/inner/../file", Named::Real(root.join("real/file"))),
            ("link/missing", Named::Absent),
            ("missing/below", Named::Absent),
            ("real/file/below", Named::Absent),
            ("dangling", Named::Unclear),
            ("dangling/below", Named::Unclear),
        ];
        for (name, expected) in cases {
            assert_eq!(real.of(&root.join(name)), expected, "{name}");
            assert_eq!(real.of(&root.join(name)), expected, "{name}, once more");
        }
    }
}
