//! Runs git with a repository of our own on the user's worktree.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::SnapshotError;
use crate::base::process::{self, Spawn};

/// Time limit for one command; the first snapshot of a large repository reads every file.
const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a command's output.
const MAX_OUTPUT: u64 = 128 << 20;
const MAX_ERROR: u64 = 2_000;

/// Variables by which git would work with another repository.
const VARIABLES: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
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
];

/// Settings that hold over the user's: contents stay as they are, and nothing of the repository is run.
const SETTINGS: [&str; 13] = [
    // Copies live for days; calls wait for them.
    "core.looseCompression=1",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.quotePath=false",
    "core.splitIndex=false",
    "gc.auto=0",
    "index.sparse=false",
    // Of the versions, this one is read without git.
    "index.version=2",
];

/// Attributes that hold over those of the worktree.
const ATTRIBUTES: &str = "* -text -crlf -eol -ident -filter -working-tree-encoding\n";

/// A repository of our own on the user's worktree.
#[derive(Debug, Clone)]
pub struct Git {
    directory: PathBuf,
    worktree: PathBuf,
}

/// The user's repository, as far as a snapshot needs it.
#[derive(Debug)]
pub struct Users {
    objects: PathBuf,
    exclude: PathBuf,
    format: String,
}

impl Users {
    /// Asks git about the repository of a worktree, which may be linked to another or be a submodule.
    pub async fn find(worktree: &Path) -> Result<Self, SnapshotError> {
        let args = [
            "rev-parse",
            "--path-format=absolute",
            "--git-path",
            "objects",
            "--git-path",
            "info/exclude",
            "--show-object-format",
        ];
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let printed = run(&args, worktree, &[], MAX_OUTPUT).await?;
        let mut lines = printed.split(|byte| *byte == b'\n');
        let mut next = || lines.next().filter(|line| !line.is_empty());
        let (Some(objects), Some(exclude), Some(format)) = (next(), next(), next()) else {
            return Err(SnapshotError::Git("it does not say where the repository is".to_owned()));
        };
        let path = |line: &[u8]| PathBuf::from(OsStr::from_bytes(line));
        let format = String::from_utf8_lossy(format).into_owned();
        Ok(Self { objects: path(objects), exclude: path(exclude), format })
    }
}

impl Git {
    pub fn new(directory: PathBuf, worktree: PathBuf) -> Self {
        Self { directory, worktree }
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn index(&self) -> PathBuf {
        self.directory.join("index")
    }

    /// Returns the bytes of the name of an object.
    pub fn hash_size(&self) -> io::Result<usize> {
        let config = fs::read_to_string(self.directory.join("config"))?;
        Ok(if config.contains("objectformat = sha256") { 32 } else { 20 })
    }

    /// Returns true if the repository is there.
    pub fn is_prepared(&self) -> bool {
        self.directory.join("HEAD").exists()
    }

    /// Makes the repository, or brings it in step with the user's.
    pub fn prepare(&self, users: &Users, root: &Path, worktree: &Path) -> io::Result<()> {
        for name in ["objects/info", "objects/pack", "refs/heads", "info"] {
            make_private(&self.directory.join(name))?;
        }
        let write = |name: &str, content: &[u8]| fs::write(self.directory.join(name), content);
        let mut config =
            "[core]\n\trepositoryformatversion = 1\n\tfilemode = true\n\tbare = false\n".to_owned();
        config.push_str(&format!("[extensions]\n\tobjectformat = {}\n", users.format));
        write("config", config.as_bytes())?;
        write("HEAD", b"ref: refs/heads/main\n")?;
        write("info/attributes", ATTRIBUTES.as_bytes())?;
        // A file that is committed as it is needs no copy.
        let mut alternates = users.objects.as_os_str().as_bytes().to_vec();
        alternates.push(b'\n');
        write("objects/info/alternates", &alternates)?;
        let mut exclude = match fs::read(&users.exclude) {
            Ok(exclude) => exclude,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A home directory may be a repository: our own files in it are no part of the work.
        let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
        let data = real(root.parent().unwrap_or(root));
        if let Ok(inside) = data.strip_prefix(real(worktree)) {
            exclude.extend_from_slice(b"\n/");
            exclude.extend_from_slice(inside.as_os_str().as_bytes());
            exclude.extend_from_slice(b"/\n");
        }
        write("info/exclude", &exclude)
    }

    /// Runs a command and returns what it prints.
    pub async fn run(&self, args: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        self.with_input(args, &[]).await
    }

    /// Returns the reason for which a command on trees failed: one of them may have been removed.
    pub async fn reason(&self, error: SnapshotError, trees: &[&str]) -> SnapshotError {
        if matches!(error, SnapshotError::Git(_)) {
            for tree in trees {
                if let Err(SnapshotError::Git(_)) = self.run(&["cat-file", "-e", tree]).await {
                    return SnapshotError::Gone;
                }
            }
        }
        error
    }

    /// Like [`Git::run`], for a command that prints one line.
    pub async fn line(&self, args: &[&str]) -> Result<String, SnapshotError> {
        let printed = self.run(args).await?;
        Ok(String::from_utf8_lossy(&printed).trim().to_owned())
    }

    /// Runs a command that reads `input`.
    pub async fn with_input(&self, args: &[&str], input: &[u8]) -> Result<Vec<u8>, SnapshotError> {
        self.bounded(args.iter().map(OsString::from), input, MAX_OUTPUT).await
    }

    /// Runs a command on paths, which git takes as they are.
    pub async fn on_paths(&self, args: &[&str], paths: &[&Path]) -> Result<Vec<u8>, SnapshotError> {
        let paths = paths.iter().map(OsString::from);
        self.bounded(args.iter().map(OsString::from).chain(paths), &[], MAX_OUTPUT).await
    }

    /// Runs a command and returns at most `max_output` bytes of what it prints.
    pub async fn bounded(
        &self,
        args: impl Iterator<Item = OsString>,
        input: &[u8],
        max_output: u64,
    ) -> Result<Vec<u8>, SnapshotError> {
        let literal = ["--literal-pathspecs".into()].into_iter();
        run(&self.arguments(literal.chain(args)), &self.worktree, input, max_output).await
    }

    /// Returns those of some directories that are ignored themselves, not only all that they hold. Each begins with `./`,
    /// since this command knows no literal paths, and ends with `/` and a zero.
    pub async fn ignored(&self, directories: &[u8]) -> Result<Vec<u8>, SnapshotError> {
        let args = ["check-ignore", "-z", "--stdin"].map(OsString::from).into_iter();
        match run(&self.arguments(args), &self.worktree, directories, MAX_OUTPUT).await {
            // It ends with 1 where none is ignored.
            Err(SnapshotError::Git(_)) => Ok(Vec::new()),
            ignored => ignored,
        }
    }

    fn arguments(&self, args: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let option = |name: &str, path: &Path| {
            let mut option = name.as_bytes().to_vec();
            option.extend_from_slice(path.as_os_str().as_bytes());
            OsString::from_vec(option)
        };
        let mut all = vec![option("--git-dir=", &self.directory), option("--work-tree=", &self.worktree)];
        for setting in SETTINGS {
            all.extend(["-c".into(), setting.into()]);
        }
        all.extend(args);
        all
    }
}

/// Runs git to its end.
async fn run(
    args: &[OsString],
    directory: &Path,
    input: &[u8],
    max_output: u64,
) -> Result<Vec<u8>, SnapshotError> {
    let failed = |error: io::Error| SnapshotError::Git(crate::base::cause::innermost(&error));
    let environment = BTreeMap::from([
        ("LC_ALL".to_owned(), "C".to_owned()),
        ("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()),
        ("GIT_OPTIONAL_LOCKS".to_owned(), "0".to_owned()),
        // A repository without some of its objects would ask its server for them.
        ("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned()),
    ]);
    let spawn = Spawn {
        program: OsStr::new("git"),
        args,
        directory,
        environment: &environment,
        without: &VARIABLES.map(str::to_owned),
        stdin: !input.is_empty(),
        is_parent: false,
    };
    let mut child = process::spawn(&spawn).map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            // A command that ends early says why.
            let _ = stdin.write_all(input).await;
        }
    };
    let mut printed = Vec::new();
    let read = async {
        if let Some(stdout) = stdout {
            stdout.take(max_output).read_to_end(&mut printed).await?;
        }
        Ok::<(), io::Error>(())
    };
    let mut said = Vec::new();
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
    let status = match timeout(LIMIT, whole).await {
        Ok(status) => status.map_err(failed)?,
        Err(_) => return Err(SnapshotError::Slow),
    };
    let is_cut = printed.len() as u64 == max_output;
    if !status.success() && !is_cut {
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gives no reason");
        return Err(SnapshotError::Git(line.trim().to_owned()));
    }
    Ok(printed)
}

/// Makes a directory that only its owner may read: it holds the contents of files.
pub fn make_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
