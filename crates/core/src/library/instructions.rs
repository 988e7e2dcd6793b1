//! Finds and reads instruction files (facts: OpenCode §2.5).

use std::{
    collections::HashSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use windlass_base::text;

use super::{InstructionBlock, Instructions, Pages};
use crate::config::{Config, Warning, project_files::ProjectFiles, refusal::Refusal, text_file::Unreadable};

pub(super) mod search;

use search::{MAX_ENTRIES, is_there, named, names_everything};

/// Maximum bytes that one file or page may add to the prompt.
const MAX_BYTES: usize = 256 * 1024;

/// Maximum bytes of all sources together: more would fill most models' windows before the first word.
const MAX_TOTAL_BYTES: usize = 512 * 1024;

/// Maximum number of files and pages.
const MAX_FILES: usize = 100;

/// Number of bytes at the beginning that show if a file is text.
const BEGINNING: u64 = 8 * 1024;

/// Implements [`super::instructions`].
pub(super) fn read(config: &Config, pages: &Pages) -> Instructions {
    let mut acc = Instructions::default();
    let files: Vec<PathBuf> = global(config, &mut acc).into_iter().chain(project(config, &mut acc)).collect();
    let mut sources: Vec<Source> = files.into_iter().map(Source::File).collect();
    for instruction in &config.instructions {
        if is_url(&instruction.pattern) {
            sources.push(Source::Page(instruction.pattern.clone()));
        } else {
            let mut named = named(config, instruction);
            if named.is_cut {
                let message =
                    format!("is looked for among the nearest {MAX_ENTRIES} files and directories only");
                acc.cut(&instruction.pattern, message);
            }
            if names_everything(&instruction.pattern) {
                acc.remove_binaries(&config.project_files, &instruction.pattern, &mut named.files);
            }
            if let Some((first, more)) = named.unreadable.split_first() {
                let more = if more.is_empty() { "" } else { "; so it is with others" };
                acc.warn(&instruction.pattern, format!("{first}{more}"));
            }
            sources.extend(named.files.into_iter().map(Source::File));
        }
    }
    let mut left = MAX_TOTAL_BYTES;
    let mut seen = HashSet::new();
    let mut beyond: Vec<String> = Vec::new();
    for source in sources.into_iter().filter(|source| seen.insert(source.clone())) {
        if acc.blocks.len() == MAX_FILES || left == 0 {
            beyond.push(source.name());
            continue;
        }
        let name = source.name();
        let text = match &source {
            Source::File(file) => text_of(&config.project_files, file),
            Source::Page(url) => page(pages.get(url)).map_err(Unusable::Reason),
        };
        let Text { kept, n_bytes } = match text {
            Ok(Some(text)) => text,
            Ok(None) => continue,
            Err(unusable) => {
                acc.leave_out(&name, &unusable);
                continue;
            }
        };
        let kept = text::head(&kept, left);
        left -= kept.len();
        if kept.len() < n_bytes {
            acc.cut(&name, format!("is cut: {} of {n_bytes} bytes are among the instructions", kept.len()));
        }
        acc.blocks.push(labelled(name, kept, n_bytes));
    }
    if let Some((first, others)) = beyond.split_first() {
        let reason = match left {
            0 => format!("those before it fill the {} KiB there are", MAX_TOTAL_BYTES / 1024),
            _ => format!("there are more than {MAX_FILES}"),
        };
        let more = match others.len() {
            0 => String::new(),
            n => format!(", and {n} behind it"),
        };
        acc.cut(first, format!("is left out of the instructions{more}: {reason}"));
    }
    acc
}

/// Implements [`super::missing_instructions`].
pub(super) fn missing(config: &Config) -> Vec<String> {
    let files = config.instructions.iter().filter(|instruction| !is_url(&instruction.pattern));
    let missing = files.filter(|&instruction| {
        let named = named(config, instruction);
        // The instructions themselves warn about an incomplete search.
        named.files.is_empty() && !named.is_cut && named.unreadable.is_empty()
    });
    // Two entries may match the same file.
    let mut seen = HashSet::new();
    let patterns = missing.map(|instruction| instruction.pattern.clone());
    patterns.filter(|pattern| seen.insert(pattern.clone())).collect()
}

impl Instructions {
    fn leave_out(&mut self, source: &str, unusable: &Unusable) {
        match unusable {
            Unusable::Reason(reason) => {
                self.warn(source, format!("is left out of the instructions: {reason}"));
            }
            // Named by the path that is refused, so that all files of a directory make one warning.
            Unusable::Refused(refusal) => {
                let warning = Warning::from(refusal.as_ref());
                self.warn(&warning.source, warning.message);
            }
        }
    }

    /// Returns true if this is a text file to send. Anything else of that name causes a warning and does not
    /// hide further candidates.
    fn takes(&mut self, project_files: &ProjectFiles, file: &Path) -> bool {
        if !is_there(file) {
            return false;
        }
        match text_of(project_files, file) {
            Ok(_) => true,
            Err(unusable) => {
                self.leave_out(&file.display().to_string(), &unusable);
                false
            }
        }
    }

    /// Removes the files that are not text from the matches of a pattern for every file: the pattern does not
    /// mean pictures. Looks at no more than are used.
    fn remove_binaries(&mut self, project_files: &ProjectFiles, pattern: &str, files: &mut Vec<PathBuf>) {
        let n_all = files.len();
        let mut first = None;
        let mut n_texts = 0;
        files.retain(|file| {
            if n_texts == MAX_FILES {
                return true;
            }
            let beginning = beginning(project_files, file);
            let is_text = !beginning.contains(&0);
            n_texts += usize::from(is_text && !beginning.trim_ascii().is_empty());
            if !is_text && first.is_none() {
                first = Some(file.clone());
            }
            is_text
        });
        if let Some(first) = first {
            let n_left_out = n_all - files.len();
            self.cut(
                pattern,
                format!(
                    "names files that are no texts ({n_left_out}, such as {}); they are left out",
                    first.display()
                ),
            );
        }
    }

    fn warn(&mut self, source: &str, message: String) {
        add_once(&mut self.warnings, source, message);
    }

    fn cut(&mut self, source: &str, message: String) {
        add_once(&mut self.cuts, source, message);
    }
}

/// Adds a warning once, as `instructions` may match the same file again.
fn add_once(list: &mut Vec<Warning>, source: &str, message: String) {
    let warning = Warning { source: source.to_owned(), line: None, column: None, message };
    if !list.contains(&warning) {
        list.push(warning);
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Source {
    File(PathBuf),
    Page(String),
}

impl Source {
    fn name(&self) -> String {
        match self {
            Source::File(file) => file.display().to_string(),
            Source::Page(url) => url.clone(),
        }
    }
}

/// The reason why a source cannot be used.
enum Unusable {
    Reason(String),
    Refused(Box<Refusal>),
}

/// The beginning of a text and the length of all of it.
struct Text {
    kept: String,
    n_bytes: usize,
}

/// Returns true if an entry of `instructions` is the address of a page.
pub(super) fn is_url(pattern: &str) -> bool {
    pattern.starts_with("http://") || pattern.starts_with("https://")
}

/// Puts a line that names the source over a text, and under it a line that says if it was cut.
fn labelled(source: String, kept: &str, n_bytes: usize) -> InstructionBlock {
    let note = if kept.len() < n_bytes {
        format!("\n[The file is cut here: {} of {n_bytes} bytes are shown.]", kept.len())
    } else {
        String::new()
    };
    InstructionBlock { text: format!("Instructions from: {source}\n{kept}{note}"), source }
}

/// Returns true if a file can be an instruction file: existing, readable text, even if empty. Blocks.
pub(super) fn is_usable(project_files: &ProjectFiles, file: &Path) -> bool {
    text_of(project_files, file).is_ok()
}

/// Adds one file's text, cut to `max_bytes`, or a warning if it cannot be used. Returns the number of bytes
/// added. Blocks.
pub(super) fn add(
    project_files: &ProjectFiles,
    acc: &mut Instructions,
    file: &Path,
    max_bytes: usize,
) -> usize {
    let name = file.display().to_string();
    match text_of(project_files, file) {
        Ok(Some(Text { kept, n_bytes })) => {
            let block = labelled(name, text::head(&kept, max_bytes), n_bytes);
            let len = block.text.len();
            acc.blocks.push(block);
            len
        }
        Ok(None) => 0,
        Err(unusable) => {
            // The file may have been removed since it was found.
            if is_there(file) {
                acc.leave_out(&name, &unusable);
            }
            0
        }
    }
}

/// Reads the beginning of a file; `None` if it is empty, an error if it cannot be used.
fn text_of(project_files: &ProjectFiles, file: &Path) -> Result<Option<Text>, Unusable> {
    let read = || {
        let file = project_files.open(file)?;
        let n_bytes = file.metadata()?.len();
        let mut bytes = Vec::new();
        file.take(MAX_BYTES as u64 + 4).read_to_end(&mut bytes)?;
        Ok((bytes, n_bytes))
    };
    let (bytes, n_bytes) = read().map_err(|error: Unreadable| match error {
        Unreadable::Refused(refusal) => Unusable::Refused(refusal),
        error => Unusable::Reason(error.to_string()),
    })?;
    if bytes.contains(&0) {
        return Err(Unusable::Reason("it is not a text".to_owned()));
    }
    let content = String::from_utf8_lossy(&bytes);
    // Invalid UTF-8 grows when it is replaced, so the length of a complete text is its length after that.
    let n_bytes = if bytes.len() < MAX_BYTES + 4 {
        content.len()
    } else {
        usize::try_from(n_bytes).unwrap_or(usize::MAX)
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
    agents
        .map(|directory| directory.join("AGENTS.md"))
        .chain(claude)
        .find(|file| acc.takes(&config.project_files, file))
}

/// Returns the names of a project's instruction files in the order of preference; none if they are switched
/// off.
pub(super) fn project_names(config: &Config) -> Vec<&'static str> {
    if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        return Vec::new();
    }
    let claude = reads_claude_files(config).then_some("CLAUDE.md");
    ["AGENTS.md"].into_iter().chain(claude).chain(["CONTEXT.md"]).collect()
}

/// Returns the files of the first name that exists anywhere between the directory and the worktree.
fn project(config: &Config, acc: &mut Instructions) -> Vec<PathBuf> {
    let mut upwards = config.upwards();
    upwards.reverse();
    project_names(config)
        .into_iter()
        .map(|name| {
            upwards
                .iter()
                .map(|directory| directory.join(name))
                .filter(|file| acc.takes(&config.project_files, file))
                .collect()
        })
        .find(|files: &Vec<PathBuf>| !files.is_empty())
        .unwrap_or_default()
}

/// Returns the beginning of a file; nothing if it cannot be read.
fn beginning(project_files: &ProjectFiles, file: &Path) -> Vec<u8> {
    let mut beginning = Vec::new();
    let read = |file: File| file.take(BEGINNING).read_to_end(&mut beginning).is_ok();
    if project_files.open(file).is_ok_and(read) { beginning } else { Vec::new() }
}

fn reads_claude_files(config: &Config) -> bool {
    !["OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT"]
        .iter()
        .any(|variable| config.environment.is_on(variable))
}

#[cfg(test)]
mod tests;
