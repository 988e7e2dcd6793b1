//! Instruction files that lie between a file that is read and the session's directory (facts: OpenCode §2.5).

use std::path::{Path, PathBuf};

use super::{InstructionBlock, instructions};
use crate::config::Config;

/// What all instruction files that come with one read may add to it.
const MAX_BYTES: usize = 50 * 1024;

/// Where to look; cheap to hand to another thread.
#[derive(Debug, Clone)]
pub struct Nested {
    directory: PathBuf,
    /// The first of these that a directory has counts; none when the project's files are switched off.
    names: Vec<&'static str>,
}

impl Nested {
    pub fn new(config: &Config) -> Self {
        Self { directory: config.directory.clone(), names: instructions::project_names(config) }
    }

    /// The files that go with `file`, outermost first. The directory's own are in the system prompt. Blocks.
    pub fn files(&self, file: &Path) -> Vec<PathBuf> {
        let Some(parent) = file.parent() else { return Vec::new() };
        let between =
            parent.ancestors().take_while(|it| it.starts_with(&self.directory) && *it != self.directory);
        let mut files: Vec<PathBuf> = between
            .filter_map(|directory| {
                self.names.iter().map(|name| directory.join(name)).find(|found| found.is_file())
            })
            .filter(|found| found != file)
            .collect();
        files.reverse();
        files
    }
}

/// The texts of these files; what is too long together is cut, with a word about it. Blocks.
pub fn blocks(files: &[PathBuf]) -> Vec<InstructionBlock> {
    let mut n_left = MAX_BYTES;
    let mut blocks = Vec::new();
    for file in files {
        let Some(block) = instructions::block(file, n_left) else { continue };
        n_left = n_left.saturating_sub(block.text.len());
        blocks.push(block);
    }
    blocks
}

#[cfg(test)]
mod tests;
