//! A throw-away home and git repository for one test.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;

use super::{agent::DEADLINE, outside::shared};

/// The files of the first commit.
const FILES: [(&str, &str); 2] = [("README.md", "# Scratch\n"), ("a.txt", "one\ntwo\nthree\n")];

/// Two directories that are removed with the last owner: `home`, and `work`, a git repository with one commit.
pub struct Scratch {
    root: TempDir,
    pub home: PathBuf,
    pub work: PathBuf,
}

impl Scratch {
    pub fn new() -> Arc<Self> {
        let root = tempfile::Builder::new().prefix("windlass-e2e-").tempdir().unwrap();
        // Paths on the wire are canonical, so the scratch root must be too.
        let path = root.path().canonicalize().unwrap();
        let (home, work) = (path.join("home"), path.join("work"));
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(&work).unwrap();
        let scratch = Self { root, home, work };
        for (name, text) in FILES {
            scratch.write(name, text);
        }
        copy(&prepared(), &scratch.work.join(".git"));
        Arc::new(scratch)
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Returns the absolute path of a file in the repository.
    pub fn path(&self, name: &str) -> String {
        self.work.join(name).to_str().unwrap().to_owned()
    }

    pub fn cwd(&self) -> &str {
        self.work.to_str().unwrap()
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.work.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.work.join(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.work.join(name).exists()
    }

    /// Waits until this file exists. The file system has no channel for it, hence the polling.
    pub async fn appears(&self, name: &str) {
        let appearing = async {
            while !self.exists(name) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(DEADLINE, appearing).await;
        assert!(waited.is_ok(), "waited in vain for the file {name}");
    }
}

/// Returns the `.git` of a repository with one commit, which holds [`FILES`]. Made by the first test, because three
/// processes of git for each would be a good part of all that the tests do.
fn prepared() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    FILES.hash(&mut hasher);
    let place = shared().join(format!("repository-{:x}", hasher.finish()));
    if !place.exists() {
        let new = tempfile::tempdir_in(shared()).unwrap();
        for (name, text) in FILES {
            std::fs::write(new.path().join(name), text).unwrap();
        }
        git(new.path(), &["init", "-q", "-b", "main"]);
        git(new.path(), &["add", "."]);
        git(new.path(), &["commit", "-q", "-m", "first"]);
        // Another test may have been first.
        let renamed = std::fs::rename(new.path().join(".git"), &place);
        assert!(renamed.is_ok() || place.exists(), "{renamed:?}");
    }
    place
}

fn git(directory: &Path, args: &[&str]) {
    let status = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"])
        .args(args)
        .current_dir(directory)
        .env("HOME", directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .status()
        .unwrap();
    assert!(status.success(), "git {args:?} failed");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
