//! The version control of a directory: its branches, changed files, and patches that are applied to it.

use std::path::{Path, PathBuf};

use windlass_base::ids;
use windlass_engine::git::{Git, GitError, current_branch, default_branch};
use windlass_protocol::opencode::project::{VcsFile, VcsInfo};

use super::{
    look::change,
    roots::{FilesError, Roots},
};
use crate::Files;

/// The tree without files: the base of a repository without commits.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A comparison that no program takes part in, and that enters no submodule.
const DIFF: [&str; 5] =
    ["diff", "--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];

/// The version that files are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffBase {
    /// The last commit.
    Head,
    /// The commit at which the branch left the default branch. Nothing has changed on that one itself.
    Branch,
}

/// The reason for which a patch was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("the directory is not in a git repository")]
    NonGit,
    #[error("the patch cannot be applied: {0}")]
    NotClean(String),
}

impl From<GitError> for FilesError {
    fn from(GitError(reason): GitError) -> Self {
        Self::Failed(format!("git failed: {reason}"))
    }
}

impl Files<'_> {
    /// Returns the current and the default branch; neither outside of a repository.
    pub async fn vcs_info(self) -> VcsInfo {
        let roots = Roots::of(self.0);
        if !roots.is_git() {
            return VcsInfo::default();
        }
        let Ok(git) = self.0.open_git().await else { return VcsInfo::default() };
        branches(&git).await
    }

    /// Returns the files that differ from the last commit, new ones as well.
    pub async fn vcs_status(self) -> Result<Vec<VcsFile>, FilesError> {
        Ok(self.compare_files(DiffBase::Head).await?.map_or(Vec::new(), |it| it.files))
    }

    /// Returns the files that differ from a version, with their diffs.
    pub async fn vcs_diff(self, base: DiffBase, context: Option<u32>) -> Result<Vec<VcsFile>, FilesError> {
        let Some(comparison) = self.compare_files(base).await? else { return Ok(Vec::new()) };
        let patch = comparison.patch(context).await?;
        let mut files = comparison.files;
        for piece in pieces(&patch) {
            // Both lists are git's, in one order; a file without a line of difference has a piece as well.
            if let Some(file) = files.iter_mut().find(|it| it.patch.is_none() && is_of(piece, &it.file)) {
                file.patch = Some(piece.to_owned());
            }
        }
        Ok(files)
    }

    /// Returns the difference to the last commit as one patch.
    pub async fn vcs_patch(self) -> Result<String, FilesError> {
        match self.compare_files(DiffBase::Head).await? {
            Some(comparison) => comparison.patch(None).await,
            None => Ok(String::new()),
        }
    }

    /// Applies a patch to the worktree, wholly or not at all.
    pub async fn vcs_apply(self, patch: &str) -> Result<(), ApplyError> {
        let roots = Roots::of(self.0);
        if !roots.is_git() {
            return Err(ApplyError::NonGit);
        }
        let apply = async {
            self.0.open_git().await?.run(&["apply", "--whitespace=nowarn", "-"], patch.as_bytes()).await
        };
        apply.await.map(drop).map_err(|GitError(reason)| ApplyError::NotClean(reason))
    }

    async fn compare_files(self, base: DiffBase) -> Result<Option<Comparison>, FilesError> {
        if !Roots::of(self.0).is_git() {
            return Ok(None);
        }
        let git = self.0.open_git().await?;
        let base = match base {
            DiffBase::Head => "HEAD".to_owned(),
            DiffBase::Branch => {
                let info = branches(&git).await;
                let Some(default) = info.default_branch.filter(|it| info.branch.as_ref() != Some(it)) else {
                    return Ok(None);
                };
                match git.line(&["merge-base", "HEAD", &format!("origin/{default}")]).await {
                    Ok(base) => base,
                    Err(_) => git.line(&["merge-base", "HEAD", &default]).await?,
                }
            }
        };
        let has_base = git.run(&["rev-parse", "--verify", "-q", &base], &[]).await.is_ok();
        let base = if has_base { base } else { EMPTY_TREE.to_owned() };
        let index = Index::copy(&git, &self.0.loaded().config.paths.cache()).await?;
        let listed = ["--raw", "--numstat", "-z", "--no-abbrev", &base];
        let listed = git.on_index(Some(&index.file), &[&DIFF[..], &listed].concat(), &[]).await?;
        Ok(Some(Comparison { files: files(&listed), git, index, base }))
    }
}

/// The difference of a worktree to a version.
struct Comparison {
    files: Vec<VcsFile>,
    git: Git,
    index: Index,
    base: String,
}

impl Comparison {
    async fn patch(&self, context: Option<u32>) -> Result<String, FilesError> {
        let context = context.map(|lines| format!("-U{lines}"));
        // The user's settings may name other prefixes, or none.
        let mut args = [&DIFF[..], &["--no-color", "--src-prefix=a/", "--dst-prefix=b/"]].concat();
        args.extend(context.as_deref());
        args.push(&self.base);
        let patch = self.git.on_index(Some(&self.index.file), &args, &[]).await?;
        Ok(String::from_utf8_lossy(&patch).into_owned())
    }
}

/// A copy of the user's index in which new files are noted, so that git compares them as well; removed when dropped.
struct Index {
    file: PathBuf,
}

impl Index {
    async fn copy(git: &Git, scratch: &Path) -> Result<Self, FilesError> {
        let own = git.repository().git_dir.join("index");
        let file = scratch.join(format!("index-{}", ids::random(12)));
        let (copy, directory) = (file.clone(), scratch.to_owned());
        let index = Self { file };
        let copied = windlass_base::blocking::blocking(move || {
            std::fs::create_dir_all(&directory)?;
            match std::fs::copy(&own, &copy) {
                // A file that is as old as the index may have changed behind it: git looks at it by that time.
                Ok(_) => {
                    let modified = std::fs::metadata(&own)?.modified()?;
                    std::fs::File::options().append(true).open(&copy)?.set_modified(modified)
                }
                // A new repository has no index yet.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }
        });
        copied.await.map_err(|error| FilesError::Failed(format!("the index cannot be copied: {error}")))?;
        // A file that was removed meanwhile cannot be noted.
        if index.note_new_files(git).await.is_err() {
            index.note_new_files(git).await?;
        }
        Ok(index)
    }

    /// Notes the files that are new. They are named one by one, because to look for them git would enter the submodules.
    async fn note_new_files(&self, git: &Git) -> Result<(), GitError> {
        let index = Some(self.file.as_path());
        let listed = git.on_index(index, &["ls-files", "--others", "--exclude-standard", "-z"], &[]).await?;
        // A name that ends in a slash is a repository within this one.
        let is_file = |name: &&[u8]| name.strip_suffix(b"\0").is_some_and(|name| !name.ends_with(b"/"));
        let new = listed.split_inclusive(|byte| *byte == 0).filter(is_file).collect::<Vec<_>>().concat();
        if !new.is_empty() {
            let add = ["--literal-pathspecs", "add", "--intent-to-add"];
            let add = [&add[..], &["--pathspec-from-file=-", "--pathspec-file-nul"]].concat();
            git.on_index(index, &add, &new).await?;
        }
        Ok(())
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Reads the lists of `git diff --raw --numstat -z`: all changes first, then all sizes.
fn files(listed: &[u8]) -> Vec<VcsFile> {
    let mut files: Vec<VcsFile> = Vec::new();
    let mut fields = listed.split(|byte| *byte == 0).filter(|field| !field.is_empty());
    while let Some(field) = fields.next() {
        if field.starts_with(b":") {
            let (Some(letter), Some(path)) = (field.last(), fields.next()) else { break };
            files.push(VcsFile {
                file: String::from_utf8_lossy(path).into_owned(),
                patch: None,
                additions: 0,
                deletions: 0,
                status: change(*letter),
            });
            continue;
        }
        let text = String::from_utf8_lossy(field);
        let mut columns = text.splitn(3, '\t');
        let (Some(added), Some(deleted), Some(path)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        if let Some(file) = files.iter_mut().find(|it| it.file == path) {
            // A file that is no text has `-` for both.
            file.additions = added.parse().unwrap_or_default();
            file.deletions = deleted.parse().unwrap_or_default();
        }
    }
    files
}

/// Splits a patch into those of its files.
fn pieces(patch: &str) -> Vec<&str> {
    let starts = patch.match_indices("diff --git ").map(|(at, _)| at);
    let mut starts: Vec<usize> =
        starts.filter(|at| *at == 0 || patch.as_bytes().get(at - 1) == Some(&b'\n')).collect();
    starts.push(patch.len());
    starts.windows(2).map(|range| &patch[range[0]..range[1]]).collect()
}

fn is_of(piece: &str, file: &str) -> bool {
    let head = piece.lines().next().unwrap_or_default();
    let escaped = escaped(file);
    // A name is put in quotes where something of it is escaped.
    if escaped == file {
        head == format!("diff --git a/{file} b/{file}")
    } else {
        head == format!("diff --git \"a/{escaped}\" \"b/{escaped}\"")
    }
}

/// Returns a name as git writes it between quotes, which spares bytes above ASCII.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for char in name.chars() {
        match char {
            '"' | '\\' => escaped.extend(['\\', char]),
            '\x07' => escaped.push_str("\\a"),
            '\x08' => escaped.push_str("\\b"),
            '\t' => escaped.push_str("\\t"),
            '\n' => escaped.push_str("\\n"),
            '\x0b' => escaped.push_str("\\v"),
            '\x0c' => escaped.push_str("\\f"),
            '\r' => escaped.push_str("\\r"),
            control if control.is_ascii_control() => {
                escaped.push_str(&format!("\\{:03o}", u32::from(control)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

async fn branches(git: &Git) -> VcsInfo {
    let (branch, default_branch) = tokio::join!(current_branch(git), default_branch(git));
    VcsInfo { branch, default_branch }
}

#[cfg(test)]
mod tests;
