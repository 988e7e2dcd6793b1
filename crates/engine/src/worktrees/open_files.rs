//! The files of a worktree that are in no commit, ignored ones too, as they are at one time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use windlass_base::blocking::blocking;

use crate::git::{Git, GitError};

/// Files that are looked at; a worktree with more is not compared.
const MAX_FILES: usize = 200_000;

/// See the module's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFiles {
    /// The list that git gives; an ignored directory is one entry.
    listed: Vec<u8>,
    seen: Seen,
}

/// The state of all that is listed, by which a change within a listed directory is seen too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    n_files: usize,
    n_bytes: u64,
    newest: Option<SystemTime>,
}

impl OpenFiles {
    pub async fn of(git: &Git) -> Result<Self, GitError> {
        let args = ["status", "--porcelain", "-z", "--ignored", "--untracked-files=all"];
        let listed = git.run(&args, &[]).await?;
        let root = git.worktree().to_owned();
        let paths: Vec<PathBuf> = listed
            .split(|byte| *byte == 0)
            .filter_map(|entry| entry.get(3..))
            .map(|path| root.join(String::from_utf8_lossy(path).as_ref()))
            .collect();
        let seen = blocking(move || {
            let mut seen = Seen::default();
            paths.iter().try_for_each(|path| seen.add(path)).map(|()| seen)
        });
        let seen = seen.await.map_err(|error| GitError(error.to_string()))?;
        Ok(Self { listed, seen })
    }

    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }
}

impl Seen {
    fn add(&mut self, path: &Path) -> io::Result<()> {
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            // A file that was deleted is in the list.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        self.n_files += 1;
        if self.n_files > MAX_FILES {
            return Err(io::Error::other(format!("more than {MAX_FILES} files are in no commit")));
        }
        self.newest = self.newest.max(metadata.modified().ok());
        if !metadata.is_dir() {
            self.n_bytes += metadata.len();
            return Ok(());
        }
        for entry in fs::read_dir(path)? {
            self.add(&entry?.path())?;
        }
        Ok(())
    }
}
