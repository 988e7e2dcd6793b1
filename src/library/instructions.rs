//! Which instruction files there are, and their texts (facts: OpenCode §2.5).

use std::{
    collections::HashSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use globset::GlobBuilder;
use ignore::WalkBuilder;

use super::{InstructionBlock, Instructions, Pages};
use crate::{
    base::text,
    config::{Config, Instruction, Warning},
};

/// What one file or page may add to the prompt.
const MAX_BYTES: usize = 256 * 1024;

/// What all of them may add together: more would fill most models' windows before the first word.
const MAX_TOTAL_BYTES: usize = 512 * 1024;

/// Files and pages in all.
const MAX_FILES: usize = 100;

/// Why a directory or a pipe is no instruction file.
const NOT_A_FILE: &str = "it is not a regular file";

/// Directory entries one pattern may look at.
const MAX_ENTRIES: usize = 20_000;

/// See [`super::instructions`].
pub(super) fn read(config: &Config, pages: &Pages) -> Instructions {
    let mut acc = Instructions::default();
    let files: Vec<PathBuf> = global(config, &mut acc).into_iter().chain(project(config, &mut acc)).collect();
    let mut sources: Vec<Source> = files.into_iter().map(Source::File).collect();
    for instruction in &config.instructions {
        match is_url(&instruction.pattern) {
            true => sources.push(Source::Page(instruction.pattern.clone())),
            false => sources.extend(named(config, instruction).into_iter().map(Source::File)),
        }
    }
    let mut left = MAX_TOTAL_BYTES;
    let mut seen = HashSet::new();
    for source in sources.into_iter().filter(|source| seen.insert(source.clone())) {
        let (name, text) = match &source {
            Source::File(file) => (file.display().to_string(), text_of(file)),
            Source::Page(url) => (url.clone(), page(pages.get(url))),
        };
        let Text { kept, n_bytes } = match text {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(reason) => {
                acc.leave_out(&name, &reason);
                continue;
            }
        };
        if acc.blocks.len() == MAX_FILES || left == 0 {
            let reason = match left {
                0 => format!("those before it fill the {} KiB there are", MAX_TOTAL_BYTES / 1024),
                _ => format!("there are more than {MAX_FILES}"),
            };
            acc.leave_out(&name, &reason);
            continue;
        }
        let kept = text::head(&kept, left);
        left -= kept.len();
        if kept.len() < n_bytes {
            acc.warn(&name, format!("is cut: {} of {n_bytes} bytes are among the instructions", kept.len()));
        }
        acc.blocks.push(labelled(name, kept, n_bytes));
    }
    acc
}

/// See [`super::missing_instructions`].
pub(super) fn missing(config: &Config) -> Vec<String> {
    let files = config.instructions.iter().filter(|instruction| !is_url(&instruction.pattern));
    let missing = files.filter(|instruction| named(config, instruction).is_empty());
    missing.map(|instruction| instruction.pattern.clone()).collect()
}

impl Instructions {
    fn leave_out(&mut self, source: &str, reason: &str) {
        self.warn(source, format!("is left out of the instructions: {reason}"));
    }

    /// Whether this is a file to read; something else of its name is told, and does not stand in another's way.
    fn takes(&mut self, file: &Path) -> bool {
        let kind = kind(file);
        if kind == Kind::Other {
            self.leave_out(&file.display().to_string(), NOT_A_FILE);
        }
        kind == Kind::File
    }

    fn warn(&mut self, source: &str, message: String) {
        self.warnings.push(Warning { source: source.to_owned(), line: None, column: None, message });
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Source {
    File(PathBuf),
    Page(String),
}

/// The beginning of a text and the length of all of it.
struct Text {
    kept: String,
    n_bytes: usize,
}

/// Whether an entry of `instructions` is the address of a page.
pub(super) fn is_url(pattern: &str) -> bool {
    pattern.starts_with("http://") || pattern.starts_with("https://")
}

/// A text under a line that names where it comes from, and over one that says so when it is cut.
fn labelled(source: String, kept: &str, n_bytes: usize) -> InstructionBlock {
    let note = match kept.len() < n_bytes {
        true => format!("\n[The file is cut here: {} of {n_bytes} bytes are shown.]", kept.len()),
        false => String::new(),
    };
    InstructionBlock { text: format!("Instructions from: {source}\n{kept}{note}"), source }
}

/// One file's text, cut to so many bytes; none when it has none or cannot be used. Blocks.
pub(super) fn block(file: &Path, max_bytes: usize) -> Option<InstructionBlock> {
    let Text { kept, n_bytes } = text_of(file).ok()??;
    Some(labelled(file.display().to_string(), text::head(&kept, max_bytes), n_bytes))
}

/// The beginning of a file; none when there is nothing in it, and the reason when it cannot be used.
fn text_of(file: &Path) -> Result<Option<Text>, String> {
    let read = || {
        // Opening a pipe would block, reading a device might never end.
        let metadata = fs::metadata(file)?;
        if !metadata.is_file() {
            return Err(io::Error::other(NOT_A_FILE));
        }
        let mut bytes = Vec::new();
        fs::File::open(file)?.take(MAX_BYTES as u64 + 4).read_to_end(&mut bytes)?;
        Ok((bytes, metadata.len()))
    };
    let (bytes, n_bytes) = read().map_err(|error| error.to_string())?;
    if bytes.contains(&0) {
        return Err("it is not a text".to_owned());
    }
    let content = String::from_utf8_lossy(&bytes);
    // What is not UTF-8 grows while it is read, so a whole text counts as long as it has become.
    let n_bytes = match bytes.len() < MAX_BYTES + 4 {
        true => content.len(),
        false => usize::try_from(n_bytes).unwrap_or(usize::MAX),
    };
    Ok(cut(&content, n_bytes))
}

fn page(page: Option<&Result<String, String>>) -> Result<Option<Text>, String> {
    match page {
        Some(Ok(text)) => Ok(cut(text, text.len())),
        Some(Err(reason)) => Err(reason.clone()),
        None => Err("it was not fetched".to_owned()),
    }
}

fn cut(content: &str, n_bytes: usize) -> Option<Text> {
    let is_empty = content.trim().is_empty();
    (!is_empty).then(|| Text { kept: text::head(content, MAX_BYTES).to_owned(), n_bytes })
}

fn global(config: &Config, acc: &mut Instructions) -> Option<PathBuf> {
    let claude = reads_claude_files(config).then(|| config.environment.home.join(".claude/CLAUDE.md"));
    let home = config.environment.home.join(".opencode");
    let agents = config.named_directory().into_iter().chain([config.paths.opencode_config.clone(), home]);
    agents.map(|directory| directory.join("AGENTS.md")).chain(claude).find(|file| acc.takes(file))
}

/// Names of a project's instruction files in the order they are tried; none when they are switched off.
pub(super) fn project_names(config: &Config) -> Vec<&'static str> {
    if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        return Vec::new();
    }
    let claude = reads_claude_files(config).then_some("CLAUDE.md");
    ["AGENTS.md"].into_iter().chain(claude).chain(["CONTEXT.md"]).collect()
}

/// Every file of the first name that is found anywhere on the way from the directory up to the worktree.
fn project(config: &Config, acc: &mut Instructions) -> Vec<PathBuf> {
    let mut upwards = config.upwards();
    upwards.reverse();
    project_names(config)
        .into_iter()
        .map(|name| {
            upwards.iter().map(|directory| directory.join(name)).filter(|file| acc.takes(file)).collect()
        })
        .find(|files: &Vec<PathBuf>| !files.is_empty())
        .unwrap_or_default()
}

/// What has a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Also what cannot be reached, such as a link that leads nowhere: reading it says why.
    File,
    Other,
    Missing,
}

fn kind(file: &Path) -> Kind {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => Kind::File,
        Ok(_) => Kind::Other,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Kind::File,
        Err(_) if file.symlink_metadata().is_ok() => Kind::File,
        Err(_) => Kind::Missing,
    }
}

/// Files of one entry of `instructions` that is no URL.
fn named(config: &Config, instruction: &Instruction) -> Vec<PathBuf> {
    let pattern = instruction.pattern.as_str();
    if let Some(rest) = pattern.strip_prefix("~/") {
        return expand(&config.environment.home, rest);
    }
    if let Some(rest) = pattern.strip_prefix('/') {
        return expand(Path::new("/"), rest);
    }
    if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let own_directory = config.named_directory();
        return expand(own_directory.as_ref().unwrap_or(&config.paths.opencode_config), pattern);
    }
    // Outside a repository "up to the worktree" is the whole disk: too much to walk for a glob.
    let is_whole_disk = config.worktree == Path::new("/") && is_glob(pattern);
    let n_levels = if is_whole_disk { 1 } else { usize::MAX };
    let found: Vec<PathBuf> =
        config.upwards().iter().take(n_levels).flat_map(|directory| expand(directory, pattern)).collect();
    if found.is_empty() { expand(&instruction.base, pattern) } else { found }
}

/// Files below `directory` that match, sorted.
fn expand(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    // Only the part from the first wildcard on has to be searched.
    let parts: Vec<&str> = pattern.split('/').collect();
    let n_fixed = parts.iter().take_while(|part| !is_glob(part)).count();
    let root = parts.iter().take(n_fixed).fold(directory.to_owned(), |root, part| root.join(part));
    let Some(searched) = parts.get(n_fixed..).filter(|searched| !searched.is_empty()) else {
        return if kind(&root) == Kind::Missing { Vec::new() } else { vec![root] };
    };
    let Ok(glob) = GlobBuilder::new(&searched.join("/")).literal_separator(true).build() else {
        return Vec::new();
    };
    let matcher = glob.compile_matcher();
    let max_depth = if searched.contains(&"**") { None } else { Some(searched.len()) };
    let walk = WalkBuilder::new(&root)
        .standard_filters(false)
        .max_depth(max_depth)
        .filter_entry(|entry| !matches!(entry.file_name().to_str(), Some(".git" | "node_modules")))
        .build();
    let entries = walk.take(MAX_ENTRIES).filter_map(Result::ok).map(|entry| entry.into_path());
    let mut files: Vec<PathBuf> = entries
        .filter(|path| {
            path.strip_prefix(&root).is_ok_and(|relative| matcher.is_match(relative)) && path.is_file()
        })
        .collect();
    files.sort();
    files
}

fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '{'])
}

fn reads_claude_files(config: &Config) -> bool {
    !["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"]
        .iter()
        .any(|variable| config.environment.is_on(variable))
}

#[cfg(test)]
mod tests;
