//! Instruction files in the directories between the session's directory and a file that is read (facts:
//! OpenCode §2.5).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Instructions, instructions};
use crate::config::{Config, project_files::ProjectFiles};

/// Maximum bytes that all instruction files may add to one read.
const MAX_BYTES: usize = 50 * 1024;

/// The places to search; cheap to hand to another thread.
#[derive(Debug, Clone)]
pub struct Nested {
    directory: PathBuf,
    /// Names in the order of preference, one file per directory; empty if the project's files are switched off.
    names: Vec<&'static str>,
    project_files: Arc<ProjectFiles>,
}

impl Nested {
    pub fn new(config: &Config) -> Self {
        let (directory, project_files) = (config.directory.clone(), config.project_files.clone());
        Self { directory, names: instructions::project_names(config), project_files }
    }

    /// Returns the instruction files for `file`, outermost first. Those of the session's directory itself are
    /// in the system prompt. Blocks.
    ///
    /// Of each directory, the result holds the first usable file, behind the unusable ones with a preferred
    /// name.
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
                let is_usable = instructions::is_usable(&self.project_files, &found);
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

/// Reads the texts of these files. Cuts texts that are too long together, and says so in them. Blocks.
pub fn read(project_files: &ProjectFiles, files: &[PathBuf]) -> Instructions {
    let mut n_left = MAX_BYTES;
    let mut acc = Instructions::default();
    for file in files {
        n_left = n_left.saturating_sub(instructions::add(project_files, &mut acc, file, n_left));
    }
    acc
}

#[cfg(test)]
mod tests;
