//! Instruction files that lie between a file that is read and the session's directory (facts: OpenCode §2.5).

use std::path::{Path, PathBuf};

use super::{Instructions, instructions};
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
    ///
    /// Of a directory the first that can be used, behind those that have a name before it and cannot.
    pub fn files(&self, file: &Path) -> Vec<PathBuf> {
        let Some(parent) = file.parent() else { return Vec::new() };
        let mut between: Vec<&Path> = parent
            .ancestors()
            .take_while(|it| it.starts_with(&self.directory) && *it != self.directory)
            .collect();
        between.reverse();
        let of_directory = |directory: &Path| {
            let mut files = Vec::new();
            let there = self
                .names
                .iter()
                .map(|name| directory.join(name))
                .filter(|it| instructions::search::is_there(it));
            for found in there {
                let is_usable = instructions::is_usable(&found);
                files.push(found);
                if is_usable {
                    break;
                }
            }
            files
        };
        between.into_iter().flat_map(of_directory).filter(|found| found != file).collect()
    }
}

/// The texts of these files; what is too long together is cut, with a word about it. Blocks.
pub fn read(files: &[PathBuf]) -> Instructions {
    let mut n_left = MAX_BYTES;
    let mut acc = Instructions::default();
    for file in files {
        n_left = n_left.saturating_sub(instructions::add(&mut acc, file, n_left));
    }
    acc
}

#[cfg(test)]
mod tests;
