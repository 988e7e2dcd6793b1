//! Runs git so that it reads a project's data and obeys nothing of the project's: no program that its configuration
//! names runs, and no server is asked but a remote that the user's own settings name.
//!
//! The configuration of the user and of the system holds. That of a repository is never read: git works with a
//! repository of our own, or with a [`view::View`] of the project's.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    cause,
    process::{self, Spawn},
    program,
};

pub mod repository;
pub mod settings;
pub mod view;

/// Bytes that are kept of git's error output.
const MAX_ERROR: u64 = 4_000;

/// Variables by which git would work with another repository, or with settings for one.
const VARIABLES: [&str; 17] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_ATTR_SOURCE",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
];

/// Settings that hold over the user's own: those would run something of a project's or enter its submodules.
const SETTINGS: [&str; 7] = [
    "core.fsmonitor=false",
    // A relative directory is the project's.
    "core.hooksPath=/dev/null",
    "core.quotePath=false",
    "diff.submodule=short",
    "submodule.recurse=false",
    "safe.bareRepository=explicit",
    "worktree.useRelativePaths=false",
];

/// The git program, which is looked for in absolute directories of `PATH` alone: a relative one is the project's.
#[derive(Debug, Clone)]
pub struct Program(Arc<Found>);

#[derive(Debug)]
struct Found {
    search: String,
    file: OnceLock<PathBuf>,
}

impl Program {
    /// Makes one from the value of `PATH`; nothing is looked for yet.
    pub fn new(search: Option<&str>) -> Self {
        Self(Arc::new(Found { search: program::absolute_directories(search), file: OnceLock::new() }))
    }

    /// Returns the file, which is looked for until it was found once.
    fn file(&self) -> Result<&Path, GitError> {
        if let Some(file) = self.0.file.get() {
            return Ok(file);
        }
        let found = program::find_outside(Some(&self.0.search), Path::new("git"));
        let found =
            found.ok_or_else(|| GitError::Start("it is in no absolute directory of PATH".to_owned()))?;
        Ok(self.0.file.get_or_init(|| found))
    }
}

/// The reason for which git did not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    #[error("git cannot be run: {0}")]
    Start(String),
    #[error("git did not end within {} s", .0.as_secs())]
    Slow(Duration),
    /// It said so in its own words.
    #[error("{0}")]
    Refused(String),
}

/// The repository that git is to work with; it looks for none by itself.
#[derive(Debug, Clone, Copy)]
pub struct RepositoryPaths<'a> {
    pub git_dir: &'a Path,
    /// The directory with the objects, references and configuration, if another one.
    pub common_dir: Option<&'a Path>,
    pub worktree: &'a Path,
}

/// One run of git.
#[derive(Debug)]
pub struct Run<'a> {
    pub program: &'a Program,
    /// `None` only where git is to make a repository.
    pub repository: Option<RepositoryPaths<'a>>,
    pub directory: &'a Path,
    /// Settings over the user's own, beside those of every run.
    pub settings: &'a [&'a str],
    pub args: Vec<OsString>,
    /// The index to use instead of the repository's own.
    pub index: Option<&'a Path>,
    pub input: &'a [u8],
    pub limit: Duration,
    pub max_output: u64,
    /// True if filters of the user's own may run.
    pub is_parent: bool,
    /// True if the command may reach a remote, which the user's own settings have to name.
    pub is_online: bool,
}

impl Run<'_> {
    /// Runs git to its end, or until it has printed `max_output` bytes, and returns its output.
    pub async fn output(self) -> Result<Vec<u8>, GitError> {
        let start_failed = |error: io::Error| GitError::Start(cause::innermost(&error));
        let (environment, args) = (self.environment(), self.arguments());
        let without = VARIABLES.iter().filter(|it| !environment.contains_key(**it));
        let spawn = Spawn {
            program: self.program.file()?.as_os_str(),
            args: &args,
            directory: self.directory,
            environment: &environment,
            without: &without.map(|it| (*it).to_owned()).collect::<Vec<_>>(),
            stdin: !self.input.is_empty(),
            is_parent: self.is_parent,
        };
        let mut child = process::spawn(&spawn).map_err(start_failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command that ends early says why.
                let _ = stdin.write_all(self.input).await;
            }
        };
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        let read = async {
            if let Some(stdout) = stdout {
                stdout.take(self.max_output).read_to_end(&mut printed).await?;
            }
            Ok::<(), io::Error>(())
        };
        let listen = async {
            if let Some(mut stderr) = stderr {
                (&mut stderr).take(MAX_ERROR).read_to_end(&mut said).await?;
                tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
            }
            Ok::<(), io::Error>(())
        };
        let whole = async {
            let ((), read, listen) = tokio::join!(feed, read, listen);
            read.and(listen)?;
            child.wait().await
        };
        let Ok(status) = timeout(self.limit, whole).await else { return Err(GitError::Slow(self.limit)) };
        let is_cut = printed.len() as u64 == self.max_output;
        if status.map_err(start_failed)?.success() || is_cut {
            return Ok(printed);
        }
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("git gives no reason");
        Err(GitError::Refused(line.trim_start_matches("fatal: ").trim_start_matches("error: ").to_owned()))
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = BTreeMap::from(
            [
                ("LC_ALL", "C"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                // A repository without some of its objects would ask its server for them. Before git 2.39.4, only the
                // lack of servers in the configuration prevents that.
                ("GIT_NO_LAZY_FETCH", "1"),
                // This holds over every `protocol.*.allow`. A protocol that is a program's own could be any command.
                ("GIT_ALLOW_PROTOCOL", if self.is_online { "file:http:https:ssh" } else { "" }),
                // Filters of the user's own are looked for like git itself.
                ("PATH", self.program.0.search.as_str()),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        if self.is_online {
            // Nobody sits before it: without a login that is kept, it fails at once.
            let unasked = [("GIT_ASKPASS", ""), ("SSH_ASKPASS", ""), ("SSH_ASKPASS_REQUIRE", "never")];
            environment.extend(unasked.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let paths = [
            ("GIT_COMMON_DIR", self.repository.and_then(|it| it.common_dir)),
            ("GIT_INDEX_FILE", self.index),
        ];
        for (name, path) in paths {
            // These are files of ours, with paths that are text.
            environment.extend(path.map(|path| (name.to_owned(), path.display().to_string())));
        }
        environment
    }

    fn arguments(&self) -> Vec<OsString> {
        let option = |name: &str, path: &Path| {
            let mut option = name.as_bytes().to_vec();
            option.extend_from_slice(path.as_os_str().as_bytes());
            OsString::from_vec(option)
        };
        let mut all = Vec::new();
        if let Some(repository) = &self.repository {
            all.extend([
                option("--git-dir=", repository.git_dir),
                option("--work-tree=", repository.worktree),
            ]);
        }
        for setting in SETTINGS.iter().chain(self.settings) {
            all.extend(["-c".into(), OsString::from(setting)]);
        }
        all.extend_from_slice(&self.args);
        all
    }
}
