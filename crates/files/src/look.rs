//! Lists directories and reads files for people.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ignore::WalkBuilder;
use similar::{ChangeTag, TextDiff};
use windlass_base::{blocking::blocking, ignore_files, mime, path::real};
use windlass_protocol::opencode::{
    file::{ContentType, Encoding, FileContent, FileNode, FilePatch, FileStatus, Hunk, NodeType},
    project::{FileChange, VcsFile},
};

use super::roots::{FilesError, Roots};
use crate::Files;

/// Size of the largest file that is shown.
const MAX_BYTES: u64 = 16 << 20;
/// Size of the largest file that is compared with the last commit.
const MAX_COMPARED: usize = 1 << 20;
/// Entries of a directory that are listed.
const MAX_ENTRIES: usize = 10_000;

impl Files<'_> {
    /// Lists a directory: directories first, then files, each by name.
    pub async fn list_directory(self, path: &str) -> Result<Vec<FileNode>, FilesError> {
        let (roots, path) = (Roots::of(self.0), path.to_owned());
        blocking(move || list(&roots, &path)).await
    }

    /// Reads a file, and compares it with the last commit if it is a text.
    pub async fn read_file(self, path: &str) -> Result<FileContent, FilesError> {
        let roots = Roots::of(self.0);
        let (file, text) = {
            let (roots, path) = (roots.clone(), path.to_owned());
            match blocking(move || read(&roots, &path)).await? {
                Look::Binary(content) => return Ok(content),
                Look::Text(file, text) => (file, text),
            }
        };
        let is_compared = roots.is_git() && text.len() <= MAX_COMPARED;
        let before = if is_compared { self.committed(&roots, &file).await } else { None };
        Ok(blocking(move || shown_text(&roots.shown(&file), before, text)).await)
    }

    /// Returns the files that differ from the last commit, with paths below the directory.
    pub async fn changed_files(self) -> Result<Vec<FileStatus>, FilesError> {
        let roots = Roots::of(self.0);
        let files = self.vcs_status().await?;
        let status = |file: VcsFile| {
            let path = roots.shown(&roots.worktree.join(&file.file));
            FileStatus { path, added: file.additions, removed: file.deletions, status: file.status }
        };
        Ok(files.into_iter().map(status).collect())
    }

    /// Returns a file as the last commit has it; `None` if it is not in it, which a file of a repository within this one
    /// never is.
    async fn committed(self, roots: &Roots, file: &Path) -> Option<String> {
        let name = file.strip_prefix(&roots.worktree).map(Path::to_owned);
        let name =
            name.or_else(|_| real(file).strip_prefix(real(&roots.worktree)).map(Path::to_owned)).ok()?;
        let mut object = OsString::from("HEAD:");
        object.push(name);
        let git = self.0.open_git().await.ok()?;
        let bytes = git.run(&[OsStr::new("cat-file"), OsStr::new("blob"), &object], &[]).await.ok()?;
        if bytes.len() > MAX_COMPARED { None } else { String::from_utf8(bytes).ok() }
    }
}

fn list(roots: &Roots, path: &str) -> Result<Vec<FileNode>, FilesError> {
    let directory = roots.resolve(path)?;
    let entries = fs::read_dir(&directory).map_err(|error| failure(path, &error))?;
    let obeys_ignore_files = !ignore_files::is_blocked_above(&directory);
    let kept: HashSet<PathBuf> = WalkBuilder::new(&directory)
        .standard_filters(obeys_ignore_files)
        .hidden(false)
        .max_depth(Some(1))
        .build()
        .flatten()
        .map(ignore::DirEntry::into_path)
        .collect();
    let mut nodes = Vec::new();
    for entry in entries.flatten().take(MAX_ENTRIES) {
        let (absolute, name) = (entry.path(), entry.file_name().display().to_string());
        // A link counts as its target.
        let is_directory = absolute.is_dir();
        let slash = if is_directory { "/" } else { "" };
        nodes.push(FileNode {
            path: format!("{}{slash}", roots.shown(&absolute)),
            ignored: !kept.contains(&absolute),
            absolute: absolute.display().to_string(),
            r#type: if is_directory { NodeType::Directory } else { NodeType::File },
            name,
        });
    }
    nodes.sort_by(|a, b| (a.r#type == NodeType::File, &a.name).cmp(&(b.r#type == NodeType::File, &b.name)));
    Ok(nodes)
}

/// A file that was read.
enum Look {
    Binary(FileContent),
    Text(PathBuf, String),
}

fn read(roots: &Roots, path: &str) -> Result<Look, FilesError> {
    let file = roots.resolve(path)?;
    let metadata = fs::metadata(&file).map_err(|error| failure(path, &error))?;
    if metadata.is_dir() {
        return Err(FilesError::Invalid(format!("{path} is a directory; list it instead.")));
    }
    if !metadata.is_file() {
        return Err(FilesError::Invalid(format!("{path} is not a regular file.")));
    }
    if metadata.len() > MAX_BYTES {
        let (size, limit) = (metadata.len() >> 20, MAX_BYTES >> 20);
        return Err(FilesError::Invalid(format!("{path} has {size} MB; at most {limit} MB are shown.")));
    }
    let bytes = fs::read(&file).map_err(|error| failure(path, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') && mime::of_path(path).is_none() => Ok(Look::Text(file, text)),
        Ok(text) => Ok(Look::Binary(binary(&file, text.as_bytes()))),
        Err(error) => Ok(Look::Binary(binary(&file, error.as_bytes()))),
    }
}

/// Returns a text as clients get it, with its difference to the committed text.
fn shown_text(name: &str, before: Option<String>, text: String) -> FileContent {
    let (diff, patch) = before.filter(|before| *before != text).map(|it| compare(name, &it, &text)).unzip();
    FileContent {
        r#type: ContentType::Text,
        content: text.strip_suffix('\n').map(str::to_owned).unwrap_or(text),
        diff,
        patch,
        encoding: None,
        mime_type: None,
    }
}

fn failure(path: &str, error: &io::Error) -> FilesError {
    match error.kind() {
        io::ErrorKind::NotFound => FilesError::NotFound(format!("File not found: {path}")),
        io::ErrorKind::NotADirectory => FilesError::Invalid(format!("{path} is not a directory.")),
        _ => FilesError::Invalid(format!("{path} cannot be read: {error}.")),
    }
}

fn binary(file: &Path, bytes: &[u8]) -> FileContent {
    let mime = mime::of_path(&file.display().to_string()).unwrap_or("application/octet-stream");
    FileContent {
        r#type: ContentType::Binary,
        content: BASE64_STANDARD.encode(bytes),
        diff: None,
        patch: None,
        encoding: Some(Encoding::Base64),
        mime_type: Some(mime.to_owned()),
    }
}

/// Compares two texts: as a unified diff, and in pieces.
fn compare(name: &str, before: &str, after: &str) -> (String, FilePatch) {
    let text_diff = TextDiff::from_lines(before, after);
    let mut diff = format!("--- a/{name}\n+++ b/{name}\n");
    let mut hunks = Vec::new();
    for group in text_diff.grouped_ops(3) {
        let mut hunk = Hunk { old_start: 0, old_lines: 0, new_start: 0, new_lines: 0, lines: Vec::new() };
        if let (Some(first), Some(last)) = (group.first(), group.last()) {
            let (old, new) = (first.old_range(), first.new_range());
            hunk.old_lines = (last.old_range().end - old.start) as u64;
            hunk.new_lines = (last.new_range().end - new.start) as u64;
            // A range without lines is named by the line before it.
            hunk.old_start = old.start as u64 + u64::from(hunk.old_lines > 0);
            hunk.new_start = new.start as u64 + u64::from(hunk.new_lines > 0);
        }
        for change in group.iter().flat_map(|op| text_diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            hunk.lines.push(format!("{sign}{}", change.value().trim_end_matches('\n')));
            if change.missing_newline() {
                hunk.lines.push("\\ No newline at end of file".to_owned());
            }
        }
        diff.push_str(&format!(
            "@@ -{},{} +{},{} @@\n{}\n",
            hunk.old_start,
            hunk.old_lines,
            hunk.new_start,
            hunk.new_lines,
            hunk.lines.join("\n")
        ));
        hunks.push(hunk);
    }
    (diff, FilePatch { old_file_name: name.to_owned(), new_file_name: name.to_owned(), hunks })
}

/// Returns the kind of a change from git's letter for it.
pub(super) fn change(letter: u8) -> FileChange {
    match letter {
        b'A' => FileChange::Added,
        b'D' => FileChange::Deleted,
        _ => FileChange::Modified,
    }
}

#[cfg(test)]
mod tests;
