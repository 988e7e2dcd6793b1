//! Which instruction files there are, and their texts (facts: OpenCode §2.5).

use std::{
    collections::{HashSet, VecDeque},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};

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
            false => {
                let named = named(config, instruction);
                if named.is_cut {
                    let message =
                        format!("is looked for among the nearest {MAX_ENTRIES} files and directories only");
                    acc.warn(&instruction.pattern, message);
                }
                if let Some((first, more)) = named.unreadable.split_first() {
                    let more = if more.is_empty() { "" } else { "; so it is with others" };
                    acc.warn(&instruction.pattern, format!("{first}{more}"));
                }
                sources.extend(named.files.into_iter().map(Source::File));
            }
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
    let missing = files.filter(|&instruction| {
        let named = named(config, instruction);
        // Of what was not searched to its end the instructions themselves warn.
        named.files.is_empty() && !named.is_cut && named.unreadable.is_empty()
    });
    missing.map(|instruction| instruction.pattern.clone()).collect()
}

impl Instructions {
    fn leave_out(&mut self, source: &str, reason: &str) {
        self.warn(source, format!("is left out of the instructions: {reason}"));
    }

    /// Whether this is a text to send; something else of its name is told, and does not stand in another's way.
    fn takes(&mut self, file: &Path) -> bool {
        if !is_there(file) {
            return false;
        }
        match text_of(file) {
            Ok(_) => true,
            Err(reason) => {
                self.leave_out(&file.display().to_string(), &reason);
                false
            }
        }
    }

    fn warn(&mut self, source: &str, message: String) {
        let warning = Warning { source: source.to_owned(), line: None, column: None, message };
        // `instructions` may name a file once more.
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
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

/// Whether a file may be one of instructions: there, a text and readable. An empty one is. Blocks.
pub(super) fn is_usable(file: &Path) -> bool {
    text_of(file).is_ok()
}

/// Adds one file's text, cut to so many bytes, or why it cannot be used; how long it has become. Blocks.
pub(super) fn add(acc: &mut Instructions, file: &Path, max_bytes: usize) -> usize {
    let name = file.display().to_string();
    match text_of(file) {
        Ok(Some(Text { kept, n_bytes })) => {
            let block = labelled(name, text::head(&kept, max_bytes), n_bytes);
            let len = block.text.len();
            acc.blocks.push(block);
            len
        }
        Ok(None) => 0,
        Err(reason) => {
            // It may have gone since it was found.
            if is_there(file) {
                acc.leave_out(&name, &reason);
            }
            0
        }
    }
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

/// Whether something has this name, even if it cannot be reached, such as a link that leads nowhere.
pub(super) fn is_there(file: &Path) -> bool {
    match fs::metadata(file) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => file.symlink_metadata().is_ok(),
        Ok(_) | Err(_) => true,
    }
}

/// What one entry of `instructions` that is no URL names.
#[derive(Default)]
struct Named {
    files: Vec<PathBuf>,
    /// Whether there was more to search than is searched.
    is_cut: bool,
    /// Which directories could not be searched, and why.
    unreadable: Vec<String>,
}

fn named(config: &Config, instruction: &Instruction) -> Named {
    let mut named = Named::default();
    let pattern = instruction.pattern.as_str();
    if let Some(rest) = pattern.strip_prefix("~/") {
        named.expand(&config.environment.home, rest);
    } else if let Some(rest) = pattern.strip_prefix('/') {
        named.expand(Path::new("/"), rest);
    } else if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let own_directory = config.named_directory();
        named.expand(own_directory.as_ref().unwrap_or(&config.paths.opencode_config), pattern);
    } else {
        // Outside a repository "up to the worktree" is the whole disk: too much to walk for a glob.
        let is_whole_disk = config.worktree == Path::new("/") && is_glob(pattern);
        let n_levels = if is_whole_disk { 1 } else { usize::MAX };
        for directory in config.upwards().iter().take(n_levels) {
            named.expand(directory, pattern);
        }
        if named.files.is_empty() {
            named.expand(&instruction.base, pattern);
        }
    }
    named
}

impl Named {
    /// Adds the files below `directory` that match, sorted.
    fn expand(&mut self, directory: &Path, pattern: &str) {
        let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
        let mut n_left = MAX_ENTRIES;
        let mut places = vec![directory.to_owned()];
        let mut parts: Vec<&str> = pattern.split('/').collect();
        let mut is_searched = false;
        // Part by part, so that only directories that match so far are looked into.
        while let Some((part, rest)) = parts.split_first() {
            if !is_glob(part) {
                places.iter_mut().for_each(|place| place.push(part));
                places.retain(|place| is_there(place));
                parts = rest.to_vec();
                continue;
            }
            is_searched = true;
            let has_whole_braces = part.matches('{').count() == part.matches('}').count();
            let (searched, rest, max_depth) = match (part.contains("**"), has_whole_braces) {
                (true, _) => (parts.join("/"), &[][..], usize::MAX),
                (false, false) => (parts.join("/"), &[][..], parts.len()),
                (false, true) => ((*part).to_owned(), rest, 1),
            };
            let Ok(glob) = GlobBuilder::new(&searched).literal_separator(true).build() else { return };
            let matcher = glob.compile_matcher();
            places = places
                .iter()
                .flat_map(|it| below(it, &matcher, max_depth, &mut n_left, &mut self.unreadable))
                .collect();
            parts = rest.to_vec();
        }
        self.is_cut |= n_left == 0;
        if is_searched {
            // What cannot be reached is told when it is read.
            let is_unreachable = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
            places.retain(|place| fs::metadata(place).map_or_else(is_unreachable, |it| it.is_file()));
        }
        places.sort();
        self.files.extend(places);
    }
}

/// What matches so many levels below a directory: the nearest first, as only so many entries are looked at.
fn below(
    directory: &Path,
    matcher: &GlobMatcher,
    max_depth: usize,
    n_left: &mut usize,
    unreadable: &mut Vec<String>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = VecDeque::from([(directory.to_owned(), 1)]);
    while let Some((place, depth)) = pending.pop_front() {
        let entries = match fs::read_dir(&place) {
            Ok(entries) => entries,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    unreadable.push(format!("{} cannot be read: {error}", place.display()));
                }
                continue;
            }
        };
        for entry in entries.flatten() {
            if *n_left == 0 {
                return found;
            }
            *n_left -= 1;
            let path = entry.path();
            if matches!(entry.file_name().to_str(), Some(".git" | "node_modules")) || is_of_kernel(&path) {
                continue;
            }
            if path.strip_prefix(directory).is_ok_and(|relative| matcher.is_match(relative)) {
                found.push(path.clone());
            }
            // Links are not followed: they may lead back.
            if depth < max_depth && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push_back((path, depth + 1));
            }
        }
    }
    found
}

/// Whether these are no files of anybody's, but endless ones of the running system.
fn is_of_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"].iter().any(|directory| path == Path::new(directory))
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
