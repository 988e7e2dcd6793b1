//! The permissions of files and directories, of which a git tree has one bit: a list of them is one more file of a tree.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    SnapshotError,
    git::Git,
    index::{self, MODES},
    listing::{Change, FileStatus, split},
    unchanged::stat,
};

const PERMISSIONS: u32 = 0o777;
/// The umask where the system does not tell it.
const UMASK: u32 = 0o022;

/// The permissions of a tree's files and directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modes {
    umask: u32,
    /// Those that new files and programs do not have.
    files: BTreeMap<PathBuf, u32>,
    /// Those that new directories do not have.
    directories: BTreeMap<PathBuf, u32>,
}

/// The kind of a path, on which its usual permissions depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Program,
    Directory,
}

/// The list of a worktree, to be saved.
pub struct List {
    pub content: Vec<u8>,
    /// The name of the content of the list that the index has.
    pub saved: Option<String>,
}

impl Modes {
    /// Returns the permissions of a path.
    pub fn of(&self, path: &Path, kind: Kind) -> u32 {
        let listed = if kind == Kind::Directory { &self.directories } else { &self.files };
        let usual = if kind == Kind::File { 0o666 } else { PERMISSIONS } & !self.umask;
        listed.get(path).copied().unwrap_or(usual)
    }

    fn insert(&mut self, path: &Path, kind: Kind, mode: u32) {
        let mode = mode & PERMISSIONS;
        if mode != self.of(path, kind) {
            let listed = if kind == Kind::Directory { &mut self.directories } else { &mut self.files };
            listed.insert(path.to_owned(), mode);
        }
    }

    /// Looks at the file of an entry. One that went meanwhile is missed by the next snapshot.
    fn look(&mut self, worktree: &File, entry: &index::Entry<'_>) {
        let path = Path::new(OsStr::from_bytes(entry.name));
        if let Ok(found) = stat(worktree, path)
            && !entry.is_link()
        {
            let kind = if entry.is_program() { Kind::Program } else { Kind::File };
            self.insert(path, kind, found.st_mode);
        }
    }

    /// Writes the umask, then `<mode> <path>` of each, where the path of a directory ends with a slash.
    fn encode(&self) -> Vec<u8> {
        let mut content = format!("{:o}", self.umask).into_bytes();
        for (listed, end) in [(&self.files, ""), (&self.directories, "/")] {
            for (path, mode) in listed {
                content.extend_from_slice(format!("\0{mode:o} ").as_bytes());
                content.extend_from_slice(path.as_os_str().as_bytes());
                content.extend_from_slice(end.as_bytes());
            }
        }
        content
    }

    fn decode(content: &[u8]) -> Option<Self> {
        let octal = |word: &[u8]| u32::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok();
        let mut fields = split(content);
        let mut modes =
            Self { umask: octal(fields.next()?)?, files: BTreeMap::new(), directories: BTreeMap::new() };
        for field in fields {
            let at = field.iter().position(|byte| *byte == b' ')?;
            let (mode, path) = (octal(&field[..at])?, &field[at + 1..]);
            let (path, listed) = match path.strip_suffix(b"/") {
                Some(path) => (path, &mut modes.directories),
                None => (path, &mut modes.files),
            };
            listed.insert(PathBuf::from(OsStr::from_bytes(path)), mode & PERMISSIONS);
        }
        Some(modes)
    }
}

/// A list that was saved, and the paths at which permissions may be others by now.
pub struct Known {
    pub content: Vec<u8>,
    /// The name of the content.
    pub name: String,
    pub touched: HashSet<PathBuf>,
}

/// Looks at the files of an index and at their directories; `None` where the index cannot be read. Where a list is known
/// that the index has, only what was touched since is looked at.
pub fn list(
    index: &Path,
    worktree: &Path,
    hash_size: usize,
    known: Option<Known>,
) -> io::Result<Option<List>> {
    let bytes = match fs::read(index) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(List { content: empty().encode(), saved: None }));
        }
        Err(error) => return Err(error),
    };
    let Some(entries) = index::entries(&bytes, hash_size) else { return Ok(None) };
    let worktree = File::open(worktree)?;
    let hex = |entry: &index::Entry<'_>| entry.object.iter().map(|byte| format!("{byte:02x}")).collect();
    let saved: Option<String> = index::find(&entries, Path::new(MODES)).map(hex);
    let known = known.filter(|known| Some(&known.name) == saved.as_ref());
    if let Some(known) = known
        && let Some(modes) = Modes::decode(&known.content).filter(|modes| modes.umask == umask())
    {
        let content = updated(modes, &entries, &worktree, known.touched).encode();
        return Ok(Some(List { content, saved }));
    }
    let mut modes = empty();
    let mut directories: BTreeSet<&Path> = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.name != MODES.as_bytes()) {
        let path = Path::new(OsStr::from_bytes(entry.name));
        // Most files have the directory of the one before.
        for above in path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty()) {
            if !directories.insert(above) {
                break;
            }
        }
        modes.look(&worktree, entry);
    }
    for directory in directories {
        if let Ok(found) = stat(&worktree, directory) {
            modes.insert(directory, Kind::Directory, found.st_mode);
        }
    }
    Ok(Some(List { content: modes.encode(), saved }))
}

/// Looks at touched paths and at the directories above them.
fn updated(
    mut modes: Modes,
    entries: &[index::Entry<'_>],
    worktree: &File,
    touched: HashSet<PathBuf>,
) -> Modes {
    let above = touched.iter().flat_map(|path| path.ancestors());
    let above: HashSet<&Path> = above.filter(|above| !above.as_os_str().is_empty()).collect();
    for path in above {
        modes.files.remove(path);
        modes.directories.remove(path);
        if let Some(entry) = index::find(entries, path) {
            modes.look(worktree, entry);
        } else if index::below(entries, path).next().is_some()
            && let Ok(found) = stat(worktree, path)
        {
            modes.insert(path, Kind::Directory, found.st_mode);
        }
    }
    modes
}

fn empty() -> Modes {
    Modes { umask: umask(), files: BTreeMap::new(), directories: BTreeMap::new() }
}

/// Reads the umask; a look at it by the system call would change it for a moment, for every thread.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let word = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    word.and_then(|word| u32::from_str_radix(word.trim(), 8).ok()).unwrap_or(UMASK)
}

/// Returns the permissions that trees have; `None` for a tree of an older version.
pub async fn of_trees(git: &Git, trees: &[&str]) -> Result<Vec<Option<Modes>>, SnapshotError> {
    let asked: String = trees.iter().map(|tree| format!("{tree}:{MODES}\n")).collect();
    let printed = git.with_input(&["cat-file", "--batch"], asked.as_bytes()).await?;
    let mut rest = printed.as_slice();
    let mut found = Vec::new();
    for _ in trees {
        let end = rest.iter().position(|byte| *byte == b'\n').ok_or(SnapshotError::Gone)?;
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 1..];
        if line.ends_with(" missing") {
            found.push(None);
            continue;
        }
        let n_bytes =
            line.rsplit(' ').next().and_then(|word| word.parse().ok()).ok_or(SnapshotError::Gone)?;
        let (content, behind) = rest.split_at_checked(n_bytes).ok_or(SnapshotError::Gone)?;
        found.push(Modes::decode(content));
        // A line end follows.
        rest = behind.get(1..).ok_or(SnapshotError::Gone)?;
    }
    Ok(found)
}

/// Puts the files of which nothing but the permissions differ between two trees in the place of the list.
pub async fn replace_list(
    git: &Git,
    [before, after]: [&str; 2],
    changes: &mut Vec<Change>,
) -> Result<(), SnapshotError> {
    let Some(at) = changes.iter().position(|change| change.path == Path::new(MODES)) else { return Ok(()) };
    if changes.remove(at).status != FileStatus::Modified {
        return Ok(());
    }
    let lists = of_trees(git, &[before, after]).await?;
    let [Some(old), Some(new)] = lists.as_slice() else { return Ok(()) };
    // Another umask makes others usual, and no file of another mode.
    if old.umask != new.umask {
        return Ok(());
    }
    let known: HashSet<PathBuf> = changes.iter().map(|change| change.path.clone()).collect();
    let listed: BTreeSet<&PathBuf> = old.files.keys().chain(new.files.keys()).collect();
    let has_changed =
        |path: &&PathBuf| old.files.get(*path) != new.files.get(*path) && !known.contains(*path);
    for path in listed.into_iter().filter(has_changed) {
        let (path, status) = (path.clone(), FileStatus::Modified);
        changes.push(Change { path, status, additions: 0, deletions: 0, patch: String::new() });
    }
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}
