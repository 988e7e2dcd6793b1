//! Brings trees to a git remote and from there: commits of a reference, each behind the last.
//!
//! The first is behind a commit of the project that the remote has, so no history of the user's is sent.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use super::{
    SnapshotError, Snapshots,
    git::Git,
    index::MODES,
    listing::split,
    restoring::{Restored, Target},
    temporary,
};
use crate::config::secrets;

/// Bytes of the changed files of one tree that is sent.
const MAX_BYTES: u64 = 64 << 20;
/// Changed files of one tree that is sent.
const MAX_FILES: usize = 10_000;
/// Commits of a reference that are read.
const MAX_COMMITS: usize = 2000;
/// Bytes of contents that are read at once.
const BATCH: u64 = 16 << 20;
/// The mode of a file that is not there.
const NO_MODE: &str = "000000";
const LINK: &str = "120000";
/// Keeps fetched objects apart from each other: old ones are removed like all others.
const UNPACK: [&str; 2] = ["-c", "fetch.unpackLimit=100000"];
/// The way in which a remote is asked for a commit that both have: the newest comes first.
const NEGOTIATE: [&str; 4] = ["-c", "protocol.version=2", "-c", "fetch.negotiationAlgorithm=consecutive"];

/// A reference of a git remote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its URL or path; git's ways to servers are allowed, and no other program.
    pub url: String,
    pub reference: String,
}

/// A commit of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parent: String,
    pub tree: String,
    pub message: String,
}

/// A tree that may be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub tree: String,
    /// Files with names of secrets; they are as in the last commit.
    pub left_out: Vec<PathBuf>,
}

/// The files of a commit that differ from those of the worktree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Those whose present content is that of an earlier commit.
    pub behind: Vec<PathBuf>,
    /// Those with changes that no commit has.
    pub own: Vec<PathBuf>,
}

/// The reason for which files were not sent or fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("it has no commit of this project: push a branch to it")]
    NoBase,
    #[error("{} looks like a key; have git ignore it, or commit it if it is none", .path.display())]
    Key { path: PathBuf },
    #[error("the changed files are more than {MAX_FILES}, or larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("another machine has sent files of this session since")]
    Stale,
    #[error("its commits cannot be read")]
    Unreadable,
}

/// A file as a tree has it: its mode and its content's name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    mode: String,
    object: String,
}

/// A file that differs between two trees.
#[derive(Debug)]
struct Differing {
    path: PathBuf,
    old: Version,
    new: Version,
}

impl Snapshots {
    /// Returns true if the tree is here: it was taken here, or fetched.
    pub async fn has_tree(&self, tree: &str) -> bool {
        self.git.run(&["cat-file", "-e", &format!("{tree}^{{tree}}")]).await.is_ok()
    }

    /// Makes the repository of the snapshots if it is not there.
    async fn ensure_prepared(&self) -> Result<(), SnapshotError> {
        if self.git.is_prepared() { Ok(()) } else { self.prepare().await }
    }

    /// Asks the remote for the newest commit of the reference, and fetches it. `head` is the user's commit.
    pub async fn fetch(&self, remote: &Remote, head: &str) -> Result<Option<Commit>, RemoteError> {
        self.ensure_prepared().await?;
        let Some(id) = list(&self.git, remote).await? else { return Ok(None) };
        if !self.has_tree(&id).await {
            // The remote need not send the user's commit.
            let have = format!("--negotiation-tip={head}");
            let mut args = UNPACK.to_vec();
            args.extend([
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-write-fetch-head",
                "--no-recurse-submodules",
            ]);
            args.extend([&have, "--", &remote.url, &remote.reference]);
            self.git.online(&args).await?;
        }
        let mut found = self.read_commits(&[id]).await?;
        Ok(found.pop())
    }

    /// Returns the commits of a reference from the newest on, down to the commit `base` of the project.
    pub async fn read_chain(&self, newest: &str, base: &str) -> Result<Vec<Commit>, RemoteError> {
        let (limit, range) = (format!("--max-count={}", MAX_COMMITS + 1), format!("{base}..{newest}"));
        let listed = self.git.run(&["rev-list", "--first-parent", &limit, &range]).await?;
        let ids: Vec<String> = String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect();
        let commits = self.read_commits(&ids).await?;
        let parents = commits.iter().skip(1).map(|commit| commit.id.as_str()).chain([base]);
        let is_chain = commits.iter().zip(parents).all(|(commit, parent)| commit.parent == parent);
        if is_chain && !commits.is_empty() && commits.len() <= MAX_COMMITS {
            Ok(commits)
        } else {
            Err(RemoteError::Unreadable)
        }
    }

    async fn read_commits(&self, ids: &[String]) -> Result<Vec<Commit>, RemoteError> {
        let contents = self.contents(ids.iter().map(String::as_str)).await?;
        let commit = |(id, content): (&String, Vec<u8>)| {
            let shown = String::from_utf8_lossy(&content).into_owned();
            let (headers, message) = shown.split_once("\n\n")?;
            let header = |name: &str| headers.lines().find_map(|line| line.strip_prefix(name));
            Some(Commit {
                id: id.clone(),
                parent: header("parent ")?.to_owned(),
                tree: header("tree ")?.to_owned(),
                message: message.to_owned(),
            })
        };
        let commits: Option<Vec<Commit>> = ids.iter().zip(contents).map(commit).collect();
        commits.ok_or(RemoteError::Unreadable)
    }

    /// Returns the contents of objects, in their order.
    async fn contents(&self, objects: impl Iterator<Item = &str>) -> Result<Vec<Vec<u8>>, SnapshotError> {
        let asked: String = objects.map(|object| format!("{object}\n")).collect();
        let printed = self.git.with_input(&["cat-file", "--batch"], asked.as_bytes()).await?;
        let mut rest = printed.as_slice();
        let mut contents = Vec::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            let size = header.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
            let start = end + 1;
            let size = size.ok_or(SnapshotError::Gone)?;
            contents.push(rest.get(start..start + size).ok_or(SnapshotError::Gone)?.to_vec());
            // A line end follows.
            rest = rest.get(start + size + 1..).ok_or(SnapshotError::Gone)?;
        }
        Ok(contents)
    }

    /// Returns the newest commit up to the user's, `head`, that the remote has.
    pub async fn find_base(&self, remote: &Remote, head: &str) -> Result<String, RemoteError> {
        self.ensure_prepared().await?;
        let from = format!("--negotiation-tip={head}");
        let args = [&NEGOTIATE[..], &["fetch", "--negotiate-only", &from, "--", &remote.url]].concat();
        let common = self.git.online(&args).await?;
        let common = String::from_utf8_lossy(&common).into_owned();
        common.lines().next().map(str::to_owned).ok_or(RemoteError::NoBase)
    }

    /// Makes a tree that may be sent, behind the commit `last`: without files that have names of secrets, and refused
    /// for one that looks like a key. Files as the user has committed them, in `head`, are not looked at.
    pub async fn draft(&self, tree: &str, head: &str, last: &str) -> Result<Draft, RemoteError> {
        let of_head: HashMap<PathBuf, Version> =
            self.differing(head, tree).await?.into_iter().map(|it| (it.path, it.old)).collect();
        let changed = self.differing(last, tree).await?;
        let (mut kept, mut restored) = (Vec::new(), Vec::new());
        for file in changed.iter().filter(|file| file.new.mode != NO_MODE) {
            let name = file.path.file_name().unwrap_or_default().to_string_lossy();
            match of_head.get(&file.path) {
                Some(old) if secrets::is_secret_file(&name) => {
                    restored.push((file.path.clone(), old.clone()))
                }
                known => kept.push((file, known.is_some())),
            }
        }
        let sizes = self.sizes(kept.iter().map(|(file, _)| &file.new)).await?;
        if changed.len() > MAX_FILES || sizes.iter().sum::<u64>() > MAX_BYTES {
            return Err(RemoteError::TooLarge);
        }
        let looked_at = kept.into_iter().zip(sizes);
        let looked_at = looked_at.filter(|((file, is_new), _)| *is_new && file.new.mode != LINK);
        self.look_for_keys(looked_at.map(|((file, _), size)| (file, size)).collect()).await?;
        let tree =
            if restored.is_empty() { tree.to_owned() } else { self.with_files(tree, &restored).await? };
        Ok(Draft { tree, left_out: restored.into_iter().map(|(path, _)| path).collect() })
    }

    /// Makes a commit of a tree, behind another.
    pub async fn make_commit(&self, tree: &str, parent: &str, message: &str) -> Result<String, RemoteError> {
        let who = ["-c", "user.name=windlass", "-c", "user.email=windlass@localhost"];
        let args = [&who[..], &["commit-tree", tree, "-p", parent]].concat();
        let made = self.git.with_input(&args, message.as_bytes()).await?;
        Ok(String::from_utf8_lossy(&made).trim().to_owned())
    }

    /// Sends a commit, which takes the place of the reference's `last`, if it has one.
    pub async fn push(&self, remote: &Remote, commit: &str, last: Option<&str>) -> Result<(), RemoteError> {
        let Remote { url, reference } = remote;
        let lease = format!("--force-with-lease={reference}:{}", last.unwrap_or_default());
        let to = format!("{commit}:{reference}");
        let plain =
            ["push", "--quiet", "--porcelain", "--no-verify", "--no-signed", "--no-recurse-submodules"];
        let args = [&plain[..], &[lease.as_str(), "--", url, &to]].concat();
        let Err(error) = self.git.online(&args).await else { return Ok(()) };
        let now = list(&self.git, remote).await?;
        if now.as_deref() == last { Err(error.into()) } else { Err(RemoteError::Stale) }
    }

    /// Removes the reference.
    pub async fn remove(&self, remote: &Remote) -> Result<(), RemoteError> {
        self.ensure_prepared().await?;
        if list(&self.git, remote).await?.is_none() {
            return Ok(());
        }
        let to = format!(":{}", remote.reference);
        self.git.online(&["push", "--quiet", "--no-verify", "--no-signed", "--", &remote.url, &to]).await?;
        Ok(())
    }

    /// Compares the files that commits changed, from the newest on down to the commit `base`, with the tree `now`.
    pub async fn compare(
        &self,
        commits: &[Commit],
        base: &str,
        now: &str,
    ) -> Result<Difference, RemoteError> {
        let listed: String = commits.iter().map(|commit| format!("{}\n", commit.id)).collect();
        let args = ["diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-commit-id"];
        let printed = self.git.with_input(&args, listed.as_bytes()).await?;
        let mut versions: BTreeMap<PathBuf, Vec<Version>> = BTreeMap::new();
        let mut first: HashMap<PathBuf, Version> = HashMap::new();
        for file in parse(&printed).into_iter().filter(|file| file.path != Path::new(MODES)) {
            versions.entry(file.path.clone()).or_default().push(file.new);
            first.insert(file.path, file.old);
        }
        let now: HashMap<PathBuf, Version> =
            self.differing(base, now).await?.into_iter().map(|it| (it.path, it.new)).collect();
        let mut difference = Difference::default();
        for (path, versions) in versions {
            let Some(present) = now.get(&path).or_else(|| first.get(&path)) else { continue };
            if versions.first() == Some(present) {
                continue;
            }
            let is_known = versions.contains(present) || first.get(&path) == Some(present);
            if is_known { difference.behind.push(path) } else { difference.own.push(path) }
        }
        Ok(difference)
    }

    /// Puts files as a commit has them into the worktree, of which `now` is a snapshot.
    pub async fn put(
        &self,
        files: Vec<PathBuf>,
        commit: &Commit,
        now: &str,
    ) -> Result<Restored, SnapshotError> {
        let targets = files.into_iter().map(|path| (path, Target::from(commit.tree.as_str())));
        self.restore(targets.collect(), now).await
    }

    /// Keeps a text under a name beside the snapshots, until [`Snapshots::read_note`].
    pub fn write_note(&self, name: &str, text: &str) -> std::io::Result<()> {
        let directory = self.git.directory().join("notes");
        super::git::make_private(&directory)?;
        std::fs::write(directory.join(name), text)
    }

    /// Returns the text that is kept under a name.
    pub fn read_note(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.git.directory().join("notes").join(name)).ok()
    }

    /// Removes the text that is kept under a name.
    pub fn remove_note(&self, name: &str) {
        // There may be none.
        let _ = std::fs::remove_file(self.git.directory().join("notes").join(name));
    }

    async fn differing(&self, old: &str, new: &str) -> Result<Vec<Differing>, SnapshotError> {
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-renames", old, new];
        let mut files = parse(&self.git.run(&args).await?);
        files.retain(|file| file.path != Path::new(MODES));
        Ok(files)
    }

    /// Returns the bytes of contents, in their order.
    async fn sizes(&self, files: impl Iterator<Item = &Version>) -> Result<Vec<u64>, SnapshotError> {
        // A commit of a submodule is in no snapshot.
        let asked: String = files.map(|file| format!("{}\n", file.object)).collect();
        let printed =
            self.git.with_input(&["cat-file", "--batch-check=%(objectsize)"], asked.as_bytes()).await?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        Ok(printed.lines().map(|line| line.parse().unwrap_or_default()).collect())
    }

    async fn look_for_keys(&self, files: Vec<(&Differing, u64)>) -> Result<(), RemoteError> {
        let mut rest = files.as_slice();
        while !rest.is_empty() {
            let mut n_bytes = 0;
            let fitting = rest.iter().take_while(|(_, size)| {
                n_bytes += size;
                n_bytes <= BATCH
            });
            let (batch, behind) = rest.split_at(fitting.count().max(1));
            rest = behind;
            let contents = self.contents(batch.iter().map(|(file, _)| file.new.object.as_str())).await?;
            for ((file, _), content) in batch.iter().zip(contents) {
                if secrets::holds_key(&String::from_utf8_lossy(&content)) {
                    return Err(RemoteError::Key { path: file.path.clone() });
                }
            }
        }
        Ok(())
    }

    /// Returns a tree with some files in another version.
    async fn with_files(&self, tree: &str, files: &[(PathBuf, Version)]) -> Result<String, SnapshotError> {
        let index = self.git.directory().join(temporary());
        let mut lines = Vec::new();
        for (path, Version { mode, object }) in files {
            lines.extend_from_slice(format!("{mode} {object}\t").as_bytes());
            lines.extend_from_slice(path.as_os_str().as_bytes());
            lines.push(0);
        }
        let written = async {
            self.git.on_index(&index, &["read-tree", tree], &[]).await?;
            self.git.on_index(&index, &["update-index", "-z", "--index-info"], &lines).await?;
            self.git.on_index(&index, &["write-tree"], &[]).await
        };
        let written = written.await;
        // It may not have been made.
        let _ = std::fs::remove_file(&index);
        Ok(String::from_utf8_lossy(&written?).trim().to_owned())
    }
}

/// Returns the commit that the reference names at the remote.
async fn list(git: &Git, remote: &Remote) -> Result<Option<String>, SnapshotError> {
    let printed = git.online(&["ls-remote", "--quiet", "--", &remote.url, &remote.reference]).await?;
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let mut lines = printed.lines().filter_map(|line| line.split_once('\t'));
    Ok(lines.find(|(_, name)| *name == remote.reference).map(|(object, _)| object.to_owned()))
}

/// Reads the records of `--raw`: `:<mode> <mode> <object> <object> <letter>`, and the path.
fn parse(printed: &[u8]) -> Vec<Differing> {
    let mut fields = split(printed);
    let mut files = Vec::new();
    while let Some(raw) = fields.next() {
        let Some(raw) = raw.strip_prefix(b":") else { continue };
        let words: Vec<String> = String::from_utf8_lossy(raw).split(' ').map(str::to_owned).collect();
        let [old_mode, new_mode, old_object, new_object, _] = &words[..] else { continue };
        let Some(path) = fields.next() else { break };
        let version = |mode: &String, object: &String| Version { mode: mode.clone(), object: object.clone() };
        files.push(Differing {
            path: PathBuf::from(OsStr::from_bytes(path)),
            old: version(old_mode, old_object),
            new: version(new_mode, new_object),
        });
    }
    files
}
