//! Which instruction files there are, and their texts (facts: OpenCode §2.5).

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use globset::GlobBuilder;
use ignore::WalkBuilder;

use super::InstructionBlock;
use crate::{
    base::text,
    config::{Config, Instruction},
};

/// What one file may add to the prompt.
const MAX_BYTES: usize = 256 * 1024;

/// Files in all.
const MAX_FILES: usize = 100;

/// Directory entries one pattern may look at.
const MAX_ENTRIES: usize = 20_000;

/// See [`super::instructions`].
pub(super) fn read(config: &Config) -> Vec<InstructionBlock> {
    let mut files: Vec<PathBuf> = Vec::new();
    files.extend(global(config));
    files.extend(project(config));
    for instruction in &config.instructions {
        files.extend(named(config, instruction));
    }
    let mut blocks: Vec<InstructionBlock> = Vec::new();
    for file in files {
        if blocks.len() == MAX_FILES {
            break;
        }
        let source = file.display().to_string();
        if blocks.iter().any(|block| block.source == source) {
            continue;
        }
        blocks.extend(block(&file, MAX_BYTES));
    }
    blocks
}

/// One file's text, cut to so many bytes; none when it has none. Blocks.
pub(super) fn block(file: &Path, max_bytes: usize) -> Option<InstructionBlock> {
    let source = file.display().to_string();
    let metadata = fs::metadata(file).ok().filter(fs::Metadata::is_file)?;
    let mut bytes = Vec::new();
    fs::File::open(file).ok()?.take(max_bytes as u64 + 4).read_to_end(&mut bytes).ok()?;
    let content = String::from_utf8_lossy(&bytes);
    if content.trim().is_empty() {
        return None;
    }
    let kept = text::head(&content, max_bytes);
    let note = if kept.len() < content.len() {
        format!("\n[The file is cut here: {} of {} bytes are shown.]", kept.len(), metadata.len())
    } else {
        String::new()
    };
    Some(InstructionBlock { text: format!("Instructions from: {source}\n{kept}{note}"), source })
}

fn global(config: &Config) -> Option<PathBuf> {
    let own_directory = config.environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from);
    let claude = reads_claude_files(config).then(|| config.environment.home.join(".claude/CLAUDE.md"));
    let agents = own_directory.into_iter().chain([config.paths.opencode_config.clone()]);
    agents.map(|directory| directory.join("AGENTS.md")).chain(claude).find(|file| file.is_file())
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
fn project(config: &Config) -> Vec<PathBuf> {
    let mut upwards: Vec<&Path> = upwards(config).collect();
    upwards.reverse();
    project_names(config)
        .into_iter()
        .map(|name| {
            upwards.iter().map(|directory| directory.join(name)).filter(|file| file.is_file()).collect()
        })
        .find(|files: &Vec<PathBuf>| !files.is_empty())
        .unwrap_or_default()
}

/// Files of one entry of `instructions`. URLs name none.
fn named(config: &Config, instruction: &Instruction) -> Vec<PathBuf> {
    let pattern = instruction.pattern.as_str();
    if pattern.starts_with("http://") || pattern.starts_with("https://") {
        return Vec::new();
    }
    if let Some(rest) = pattern.strip_prefix("~/") {
        return expand(&config.environment.home, rest);
    }
    if let Some(rest) = pattern.strip_prefix('/') {
        return expand(Path::new("/"), rest);
    }
    if config.environment.is_on("OPENCODE_DISABLE_PROJECT_CONFIG") {
        let own_directory = config.environment.get("OPENCODE_CONFIG_DIR").map(PathBuf::from);
        return expand(own_directory.as_ref().unwrap_or(&config.paths.opencode_config), pattern);
    }
    // Outside a repository "up to the worktree" is the whole disk: too much to walk for a glob.
    let is_whole_disk = config.worktree == Path::new("/") && is_glob(pattern);
    let n_levels = if is_whole_disk { 1 } else { usize::MAX };
    let found: Vec<PathBuf> =
        upwards(config).take(n_levels).flat_map(|directory| expand(directory, pattern)).collect();
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
        return if root.is_file() { vec![root] } else { Vec::new() };
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

/// The directory, its parent, and so on up to the worktree.
fn upwards(config: &Config) -> impl Iterator<Item = &Path> {
    config.directory.ancestors().take_while(|ancestor| ancestor.starts_with(&config.worktree))
}
