//! Puts files back as they are in trees, byte by byte, and leaves everything alone that no snapshot holds.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ffi::OsStr,
    fs,
    io::{self, Write},
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use super::{
    SnapshotError,
    git::Git,
    listing::split,
    modes::{self, Modes},
    temporary,
};

/// Paths that one command is given.
const PATHS_AT_ONCE: usize = 500;
/// Bytes of contents that are read at once.
const BATCH: u64 = 32 << 20;
/// Permissions without those to run a file.
const NO_EXEC: u32 = 0o666;

/// The tree in which a file is looked up; a file that is not in it is removed.
pub type Target = String;

/// The result of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that are now as wanted, and were not before.
    pub changed: Vec<PathBuf>,
    /// Files that were left as they are, because no snapshot holds their present content.
    pub skipped: Vec<PathBuf>,
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    object: String,
    n_bytes: u64,
    /// Its permissions, if the tree has them.
    mode: Option<u32>,
}

impl Entry {
    fn has_content_of(&self, other: &Self) -> bool {
        self.object == other.object && self.kind.is_link() == other.kind.is_link()
    }

    fn is_as(&self, other: &Self) -> bool {
        let is_mode_known = self.mode.is_some() && other.mode.is_some();
        self.has_content_of(other) && self.kind == other.kind && (self.mode == other.mode || !is_mode_known)
    }
}

/// A file to be brought back.
#[derive(Debug, Clone)]
struct Wanted {
    path: PathBuf,
    entry: Entry,
    /// The file that is there now, if a snapshot holds it.
    present: Option<Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Program,
    Link,
}

impl Kind {
    fn is_link(self) -> bool {
        self == Self::Link
    }
}

/// See [`super::Snapshots::restore`].
pub async fn restore(
    git: &Git,
    worktree: &Path,
    targets: BTreeMap<PathBuf, Target>,
    now: &str,
) -> Result<Restored, SnapshotError> {
    let mut by_tree: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (path, tree) in &targets {
        by_tree.entry(tree).or_default().push(path);
    }
    let trees: Vec<&str> = by_tree.keys().copied().chain([now]).collect();
    let mut modes = modes::of_trees(git, &trees).await?;
    let modes_now = modes.pop().flatten();
    let mut wanted: HashMap<PathBuf, Entry> = HashMap::new();
    let mut directories: HashMap<PathBuf, u32> = HashMap::new();
    for ((tree, paths), modes) in by_tree.iter().zip(modes) {
        let entries = entries(git, tree, paths, modes.as_ref()).await?;
        for path in entries.keys().flat_map(|path| path.ancestors().skip(1)) {
            let mode = modes.as_ref().map(|modes| modes.of(path, modes::Kind::Directory));
            directories.extend(mode.map(|mode| (path.to_owned(), mode)));
        }
        wanted.extend(entries);
    }
    let paths = targets.keys().map(PathBuf::as_path).collect::<Vec<_>>();
    let mut present = entries(git, now, &paths, modes_now.as_ref()).await?;
    let mut removed = Vec::new();
    let mut written = Vec::new();
    for path in targets.into_keys() {
        match (wanted.remove(&path), present.remove(&path)) {
            (None, None) => {}
            (Some(entry), Some(present)) if entry.is_as(&present) => {}
            (Some(entry), present) => written.push(Wanted { path, entry, present }),
            (None, Some(_)) => removed.push(path),
        }
    }
    // Contents come first: objects that are not there any more must be found out before anything is changed.
    for batch in batches(&written) {
        contents(git, &batch.iter().map(|it| &it.entry).collect::<Vec<_>>(), true).await?;
    }
    let mut restored = on_files(worktree, move |root, restored| {
        for path in removed {
            remove(root, path, restored);
        }
    })
    .await?;
    for batch in batches(&written) {
        let contents = contents(git, &batch.iter().map(|it| &it.entry).collect::<Vec<_>>(), false).await?;
        let (batch, directories) = (batch.to_vec(), directories.clone());
        let done = on_files(worktree, move |root, restored| {
            for (wanted, content) in batch.into_iter().zip(contents) {
                match write(root, &wanted, &content, &directories) {
                    Ok(true) => restored.changed.push(wanted.path),
                    Ok(false) => restored.skipped.push(wanted.path),
                    Err(error) => {
                        tracing::warn!(path = %wanted.path.display(), %error, "a file was not restored");
                        restored.skipped.push(wanted.path);
                    }
                }
            }
        });
        let done = done.await?;
        restored.changed.extend(done.changed);
        restored.skipped.extend(done.skipped);
    }
    Ok(restored)
}

/// Changes files on a thread that may wait.
async fn on_files(
    worktree: &Path,
    change: impl FnOnce(&Path, &mut Restored) + Send + 'static,
) -> Result<Restored, SnapshotError> {
    let root = worktree.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let mut restored = Restored::default();
        change(&root, &mut restored);
        restored
    });
    Ok(done.await.map_err(io::Error::other)?)
}

/// Divides files so that the contents of each batch fit into memory.
fn batches(files: &[Wanted]) -> Vec<&[Wanted]> {
    let mut batches = Vec::new();
    let (mut start, mut n_bytes) = (0, 0);
    for (at, Wanted { entry, .. }) in files.iter().enumerate() {
        if at > start && n_bytes + entry.n_bytes > BATCH {
            batches.push(&files[start..at]);
            (start, n_bytes) = (at, 0);
        }
        n_bytes += entry.n_bytes;
    }
    if start < files.len() {
        batches.push(&files[start..]);
    }
    batches
}

/// Looks paths up in a tree.
async fn entries(
    git: &Git,
    tree: &str,
    paths: &[&Path],
    modes: Option<&Modes>,
) -> Result<HashMap<PathBuf, Entry>, SnapshotError> {
    let wanted: BTreeSet<&Path> = paths.iter().copied().collect();
    let mut found = HashMap::new();
    for paths in paths.chunks(PATHS_AT_ONCE) {
        let printed = git.on_paths(&["ls-tree", "-r", "-l", "-z", "--full-tree", tree, "--"], paths).await;
        let printed = match printed {
            Ok(printed) => printed,
            Err(error) => return Err(git.reason(error, &[tree]).await),
        };
        for record in split(&printed) {
            let Some((path, entry)) = entry(record) else { continue };
            // A path that is a directory in this tree brings all of its files.
            if wanted.contains(path) {
                let entry = entry?;
                let kind = match entry.kind {
                    Kind::File => Some(modes::Kind::File),
                    Kind::Program => Some(modes::Kind::Program),
                    Kind::Link => None,
                };
                let mode = modes.zip(kind).map(|(modes, kind)| modes.of(path, kind));
                found.insert(path.to_owned(), Entry { mode, ..entry });
            }
        }
    }
    Ok(found)
}

/// Reads `<mode> blob <object> <size>\t<path>`; the size of a content that is gone is no number.
fn entry(record: &[u8]) -> Option<(&Path, Result<Entry, SnapshotError>)> {
    let at = record.iter().position(|byte| *byte == b'\t')?;
    let mut words = std::str::from_utf8(&record[..at]).ok()?.split_whitespace();
    let kind = match words.next()? {
        "100644" => Kind::File,
        "100755" => Kind::Program,
        "120000" => Kind::Link,
        _ => return None,
    };
    let object = words.nth(1)?.to_owned();
    let n_bytes = words.next()?.parse();
    let entry =
        n_bytes.map(|n_bytes| Entry { kind, object, n_bytes, mode: None }).map_err(|_| SnapshotError::Gone);
    Some((Path::new(OsStr::from_bytes(&record[at + 1..])), entry))
}

/// Returns the contents of files in their order; with `is_check`, only makes sure that all are there.
async fn contents(git: &Git, entries: &[&Entry], is_check: bool) -> Result<Vec<Vec<u8>>, SnapshotError> {
    let asked: String = entries.iter().map(|entry| format!("{}\n", entry.object)).collect();
    let how = if is_check { "--batch-check" } else { "--batch" };
    let printed = git.with_input(&["cat-file", how], asked.as_bytes()).await?;
    let mut rest = printed.as_slice();
    let mut contents = Vec::new();
    for entry in entries {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(SnapshotError::Gone)?;
        if rest[..end].ends_with(b" missing") {
            return Err(SnapshotError::Gone);
        }
        rest = &rest[end + 1..];
        if !is_check {
            let n_bytes = usize::try_from(entry.n_bytes).unwrap_or(usize::MAX);
            contents.push(rest.get(..n_bytes).ok_or(SnapshotError::Gone)?.to_vec());
            // A line end follows.
            rest = rest.get(n_bytes + 1..).ok_or(SnapshotError::Gone)?;
        }
    }
    Ok(contents)
}

fn remove(root: &Path, path: PathBuf, restored: &mut Restored) {
    let whole = root.join(&path);
    let is_removed = match fs::symlink_metadata(&whole) {
        Ok(metadata) if metadata.is_dir() => false,
        Ok(_) => fs::remove_file(&whole).is_ok(),
        Err(_) => return,
    };
    if !is_removed {
        restored.skipped.push(path);
        return;
    }
    // A directory that is now empty came with the file.
    for parent in path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(parent)).is_err() {
            break;
        }
    }
    restored.changed.push(path);
}

/// Writes a file; false if something is in its place that no snapshot holds. Directories that are made get their
/// permissions.
fn write(
    root: &Path,
    wanted: &Wanted,
    content: &[u8],
    directories: &HashMap<PathBuf, u32>,
) -> io::Result<bool> {
    let Wanted { path, entry, present: held } = wanted;
    let mut directory = root.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        match fs::symlink_metadata(&directory) {
            Ok(metadata) if metadata.is_dir() => {}
            // A file, or a link that may lead out of the worktree.
            Ok(_) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(&directory)?;
                let mode = directory.strip_prefix(root).ok().and_then(|path| directories.get(path));
                // Files have yet to be written into it.
                mode.map_or(Ok(()), |mode| set_mode(&directory, mode | 0o700))?;
            }
            Err(error) => return Err(error),
        }
    }
    let whole = root.join(path);
    let present = match fs::symlink_metadata(&whole) {
        // Empty once the files that came with it are removed.
        Ok(metadata) if metadata.is_dir() => {
            if fs::remove_dir(&whole).is_err() {
                return Ok(false);
            }
            None
        }
        Ok(_) if held.is_none() => return Ok(false),
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let (Some(held), Some(mode)) = (held, entry.mode)
        && entry.has_content_of(held)
        && present.as_ref().is_some_and(fs::Metadata::is_file)
    {
        return set_mode(&whole, mode).map(|()| true);
    }
    let new = directory.join(temporary());
    let written =
        make(&new, entry, content, present.filter(|it| it.is_file())).and_then(|()| fs::rename(&new, &whole));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map(|()| true)
}

/// Makes a file or link. Where the tree does not have its permissions, a file that is replaced keeps those to read and
/// write it.
fn make(path: &Path, entry: &Entry, content: &[u8], replaced: Option<fs::Metadata>) -> io::Result<()> {
    if entry.kind.is_link() {
        return symlink(OsStr::from_bytes(content), path);
    }
    let is_program = entry.kind == Kind::Program;
    let mode = match (entry.mode, is_program) {
        (Some(mode), _) => mode & NO_EXEC,
        (None, true) => 0o777,
        (None, false) => NO_EXEC,
    };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    let kept = replaced.map(|replaced| {
        let kept = replaced.permissions().mode() & NO_EXEC;
        // All users that may read a program may run it.
        if is_program { kept | (kept & 0o444) >> 2 } else { kept }
    });
    entry.mode.or(kept).map_or(Ok(()), |mode| set_mode(path, mode))
}

/// Sets permissions that are others: a disk without permissions refuses to set any.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.permissions().mode() & 0o777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
