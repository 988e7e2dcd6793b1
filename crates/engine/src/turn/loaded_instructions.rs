//! The instruction files that the model has before it, so that none is shown to it twice.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use windlass_base::lock::lock;
use windlass_core::library::InstructionBlock;

/// Shared by the calls of one step. Made anew for each, so that the files that a failed call took are free again.
#[derive(Debug, Clone, Default)]
pub struct LoadedInstructions(Arc<Mutex<HashSet<PathBuf>>>);

impl LoadedInstructions {
    /// Adds the files of the system prompt to those that came with earlier reads and attachments.
    pub fn new(blocks: &[InstructionBlock], mut loaded_files: HashSet<PathBuf>) -> Self {
        loaded_files.extend(blocks.iter().map(|block| PathBuf::from(&block.source)));
        Self(Arc::new(Mutex::new(loaded_files)))
    }

    /// Adds a file. Returns true if it was not there yet.
    pub fn insert(&self, path: &Path) -> bool {
        lock(&self.0).insert(path.to_owned())
    }
}
