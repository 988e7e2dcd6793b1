//! Runs git with a repository of our own on the user's worktree.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};

use windlass_base::git::{
    GitError, Program, RepositoryPaths, Run,
    repository::{self, Repository},
};

use super::SnapshotError;

/// Time limit for one command; the first snapshot of a large repository reads every file.
const LIMIT: Duration = Duration::from_secs(300);
/// Time limit for a command that reaches a remote.
const ONLINE_LIMIT: Duration = Duration::from_secs(120);
/// Bytes of a command's output.
const MAX_OUTPUT: u64 = 128 << 20;

/// Settings that hold over the user's: contents stay as they are.
const SETTINGS: [&str; 10] = [
    // Copies live for days; calls wait for them.
    "core.looseCompression=1",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.attributesFile=/dev/null",
    "core.fileMode=true",
    "core.symlinks=true",
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
    program: Program,
    directory: PathBuf,
    worktree: PathBuf,
}

/// The user's repository, as far as a snapshot needs it.
#[derive(Debug)]
struct Users {
    objects: PathBuf,
    exclude: Vec<u8>,
    format: String,
}

impl Users {
    /// Reads the repository of a worktree, which may be linked to another or be a submodule.
    fn read(worktree: &Path) -> io::Result<Self> {
        let repository = Repository::of(worktree)?;
        let exclude = match repository::read(&repository.common_dir.join("info/exclude")) {
            Ok(exclude) => exclude,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let objects = repository.common_dir.join("objects");
        Ok(Self { objects, exclude, format: repository.object_format() })
    }
}

impl Git {
    pub fn new(program: Program, directory: PathBuf, worktree: PathBuf) -> Self {
        Self { program, directory, worktree }
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
    pub fn prepare(&self, root: &Path) -> Result<(), SnapshotError> {
        let users = Users::read(&self.worktree).map_err(|error| {
            SnapshotError::Git(format!(
                "the repository of {} cannot be read: {error}",
                self.worktree.display()
            ))
        })?;
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
        let mut exclude = users.exclude;
        // A home directory may be a repository: our own files in it are no part of the work.
        let real = |path: &Path| path.canonicalize().unwrap_or(path.to_owned());
        let data = real(root.parent().unwrap_or(root));
        if let Ok(inside) = data.strip_prefix(real(&self.worktree)) {
            exclude.extend_from_slice(b"\n/");
            exclude.extend_from_slice(inside.as_os_str().as_bytes());
            exclude.extend_from_slice(b"/\n");
        }
        Ok(write("info/exclude", &exclude)?)
    }

    /// Runs a command and returns its output.
    pub async fn run(&self, args: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        self.with_input(args, &[]).await
    }

    /// Returns the reason for which a command on trees failed: one of them may have been removed.
    pub async fn reason(&self, error: SnapshotError, trees: &[&str]) -> SnapshotError {
        if matches!(error, SnapshotError::Git(_)) {
            for tree in trees {
                // A tree within may be the one that is gone.
                let whole = ["ls-tree", "-r", "-z", "--name-only", tree];
                if let Err(SnapshotError::Git(_)) = self.run(&whole).await {
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

    /// Runs a command and returns at most `max_output` bytes of its output.
    pub async fn bounded(
        &self,
        args: impl Iterator<Item = OsString>,
        input: &[u8],
        max_output: u64,
    ) -> Result<Vec<u8>, SnapshotError> {
        let literal = ["--literal-pathspecs".into()].into_iter();
        self.output(literal.chain(args), input, max_output).await
    }

    /// Runs a command that reaches a remote of the user's.
    pub async fn online(&self, args: &[&str]) -> Result<Vec<u8>, SnapshotError> {
        let run = Run { is_parent: true, is_online: true, limit: ONLINE_LIMIT, ..self.whole(&[]) };
        self.carry_out(Run { args: args.iter().map(OsString::from).collect(), ..run }).await
    }

    /// Runs a command on an index beside the repository's own.
    pub async fn on_index(
        &self,
        index: &Path,
        args: &[&str],
        input: &[u8],
    ) -> Result<Vec<u8>, SnapshotError> {
        let args = args.iter().map(OsString::from).collect();
        self.carry_out(Run { args, index: Some(index), ..self.whole(input) }).await
    }

    /// Returns those of some directories that are ignored themselves, not only all that they hold. Each begins with `./`,
    /// since this command knows no literal paths, and ends with `/` and a zero.
    pub async fn ignored(&self, directories: &[u8]) -> Result<Vec<u8>, SnapshotError> {
        let args = ["check-ignore", "-z", "--stdin"].map(OsString::from).into_iter();
        match self.output(args, directories, MAX_OUTPUT).await {
            // It ends with 1 where none is ignored.
            Err(SnapshotError::Git(_)) => Ok(Vec::new()),
            ignored => ignored,
        }
    }

    async fn output(
        &self,
        args: impl Iterator<Item = OsString>,
        input: &[u8],
        max_output: u64,
    ) -> Result<Vec<u8>, SnapshotError> {
        self.carry_out(Run { args: args.collect(), max_output, ..self.whole(input) }).await
    }

    fn whole<'a>(&'a self, input: &'a [u8]) -> Run<'a> {
        Run {
            program: &self.program,
            repository: Some(RepositoryPaths {
                git_dir: &self.directory,
                common_dir: None,
                worktree: &self.worktree,
            }),
            directory: &self.worktree,
            settings: &SETTINGS,
            args: Vec::new(),
            index: None,
            input,
            limit: LIMIT,
            max_output: MAX_OUTPUT,
            is_parent: false,
            is_online: false,
        }
    }

    async fn carry_out(&self, run: Run<'_>) -> Result<Vec<u8>, SnapshotError> {
        run.output().await.map_err(|error| match error {
            GitError::Slow(_) => SnapshotError::Slow,
            GitError::Start(_) | GitError::Refused(_) => SnapshotError::Git(error.to_string()),
        })
    }
}

/// Makes a directory that only its owner may read: it holds the contents of files.
pub fn make_private(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)
}
