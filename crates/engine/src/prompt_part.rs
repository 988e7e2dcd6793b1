//! The pieces of a user's prompt.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use windlass_protocol::opencode::{model_ref::ModelRef, part::FilePart};

/// A piece of a user's prompt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PromptPart {
    Text {
        text: String,
        /// For the model only.
        is_synthetic: bool,
        /// For the user only.
        is_ignored: bool,
    },
    File(FilePart),
    /// A subagent that the user named by `@`; a file of that name goes before it.
    Agent {
        name: String,
    },
    /// Work for a subagent, which is done before the model answers.
    Subtask {
        prompt: String,
        description: String,
        agent: String,
        model: Option<ModelRef>,
    },
    /// Text of something that was attached, rather than text that the user typed.
    Document {
        /// Description of its place, for the model.
        place: String,
        /// The file it is the whole of, as far as the client says so.
        path: Option<PathBuf>,
        text: String,
    },
}
