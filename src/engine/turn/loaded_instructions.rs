//! The instruction files that the model has before it, so that none is shown to it twice.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    message::MessageWithParts,
    part::{PartKind, ToolState},
    tool_metadata::{Loaded, decode},
};

use crate::{base::lock::lock, library::InstructionBlock};

/// Shared by the calls of one step. Made anew for each, so that what a failed call took is free again.
#[derive(Debug, Clone, Default)]
pub struct LoadedInstructions(Arc<Mutex<HashSet<PathBuf>>>);

impl LoadedInstructions {
    /// Collects the files of the system prompt, and those that came with earlier reads and attachments.
    pub fn new(blocks: &[InstructionBlock], history: &[MessageWithParts]) -> Self {
        let parts = history.iter().flat_map(|message| &message.parts);
        let metadata = parts.filter_map(|part| match &part.kind {
            PartKind::Tool(tool) if tool.tool == "read" => match &tool.state {
                // A result that was taken out of the history is no longer before the model.
                ToolState::Completed { metadata, time, .. } if time.compacted.is_none() => Some(metadata),
                _other => None,
            },
            PartKind::Text(text) => text.metadata.as_ref(),
            _other => None,
        });
        let mut loaded_files: HashSet<PathBuf> = metadata.flat_map(loaded).map(PathBuf::from).collect();
        loaded_files.extend(blocks.iter().map(|block| PathBuf::from(&block.source)));
        Self(Arc::new(Mutex::new(loaded_files)))
    }

    /// Adds a file. Returns true if it was not there yet.
    pub fn insert(&self, path: &Path) -> bool {
        lock(&self.0).insert(path.to_owned())
    }
}

fn loaded(metadata: &Map<String, Value>) -> Vec<&str> {
    decode(metadata).map(|it: Loaded<'_>| it.loaded).unwrap_or_default()
}
