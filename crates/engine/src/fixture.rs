//! Homes, directories and repositories with an engine, for tests of the engine and of the floors above it.

#![expect(clippy::unwrap_used, reason = "it stands in tests alone")]

use std::{
    collections::{BTreeMap, VecDeque},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use windlass_base::{
    process::{self, Spawn},
    queue::Queue,
};
use windlass_core::config::{Environment, paths::Paths};
use windlass_protocol::opencode::event::{Event, EventPayload};

use crate::{Engine, Workspace};

/// Returns an engine with these variables, and its home.
pub fn engine(variables: &[(&str, &str)]) -> (tempfile::TempDir, Engine) {
    let home = tempfile::tempdir().unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment = Environment { trusts_projects: true, home: home.path().to_owned(), variables };
    let paths = Paths::new(&environment);
    (home, Engine::new(environment, paths))
}

/// A directory in which an engine works.
pub struct Scene {
    _home: tempfile::TempDir,
    pub directory: PathBuf,
    pub engine: Engine,
}

impl Scene {
    /// Makes an empty directory, which is in no repository.
    pub fn empty() -> Self {
        let (home, engine) = engine(&[("PATH", "/usr/bin:/bin")]);
        let directory = home.path().canonicalize().unwrap().join("work");
        fs::create_dir(&directory).unwrap();
        Self { _home: home, directory, engine }
    }

    /// Makes a repository with these files in its first commit.
    pub async fn with_commit(files: &[(&str, &str)]) -> Self {
        let scene = Self::empty();
        for (name, content) in files {
            let file = scene.path(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
        }
        scene.git(&["init", "-q", "-b", "main"]).await;
        scene.git(&["add", "-A"]).await;
        scene.git(&["commit", "-qm", "first"]).await;
        scene
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub async fn git(&self, args: &[&str]) {
        let identity = ["-c", "user.name=u", "-c", "user.email=e"];
        let args: Vec<OsString> = identity.iter().chain(args).map(OsString::from).collect();
        let spawn = Spawn {
            program: "git".as_ref(),
            args: &args,
            directory: &self.directory,
            environment: &BTreeMap::new(),
            without: &[],
            stdin: false,
            is_parent: false,
        };
        process::output(&spawn, 1 << 20).await.unwrap();
    }

    pub async fn workspace(&self) -> Arc<Workspace> {
        self.engine.workspaces().workspace(Path::new(&self.directory)).await.unwrap()
    }
}

/// Waits for the next event of a service.
pub async fn next_service_event(events: &Queue<Arc<Event>>) -> EventPayload {
    loop {
        let mut batch = VecDeque::new();
        assert!(events.next_batch(&mut batch).await);
        let found = batch.into_iter().find(|it| matches!(it.payload, EventPayload::Service(_)));
        if let Some(event) = found {
            return event.payload.clone();
        }
    }
}
