//! A throw-away home and git repository for one test.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;

use super::agent::DEADLINE;

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
        scratch.write("README.md", "# Scratch\n");
        scratch.write("a.txt", "one\ntwo\nthree\n");
        scratch.git(&["init", "-q", "-b", "main"]);
        scratch.git(&["add", "."]);
        scratch.git(&["commit", "-q", "-m", "first"]);
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

    fn git(&self, args: &[&str]) {
        let status = Command::new("git")
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.invalid"])
            .args(args)
            .current_dir(&self.work)
            .env("HOME", &self.home)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .status()
            .unwrap();
        assert!(status.success(), "git {args:?} failed");
    }
}
