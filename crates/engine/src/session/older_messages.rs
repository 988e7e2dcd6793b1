//! Facts about a session's messages that every step needs, gathered once for those that no longer change.

use std::{collections::HashSet, path::PathBuf};

use serde_json::{Map, Value};
use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageError, MessageWithParts},
    part::{PartKind, ToolState},
    tool_metadata::{Loaded, decode},
};

use super::{
    history::{Digest, History},
    summary,
};

/// The facts about the messages before the newest one.
#[derive(Default)]
pub struct OlderMessages(Digest<Gathered>);

/// The facts about all messages of a session.
#[derive(Clone, Default)]
pub struct Gathered {
    /// Indices of the messages that sum up others, or ask for it.
    pub summaries: Vec<usize>,
    /// Prompts the provider refused: they and the messages that followed from them are not sent again
    /// (facts: ACP §1.4.2).
    pub refused: HashSet<MessageId>,
    /// Instruction files that came with reads and attachments.
    pub instructions: HashSet<PathBuf>,
}

impl OlderMessages {
    /// Gathers from the messages that came since the last time.
    pub fn advance(&mut self, history: &History) {
        self.0.advance(history, Gathered::add);
    }

    /// Returns the facts about all messages, the newest included.
    pub fn gathered(&self, history: &History) -> Gathered {
        self.0.whole(history, Gathered::add)
    }
}

impl Gathered {
    fn add(&mut self, idx: usize, message: &MessageWithParts) {
        if summary::is_about_summary(message) {
            self.summaries.push(idx);
        }
        if let Message::Assistant(answer) = &message.info
            && matches!(answer.error, Some(MessageError::ContentFilterError { .. }))
        {
            self.refused.insert(answer.parent_id.clone());
        }
        self.instructions.extend(instruction_files(message).map(PathBuf::from));
    }
}

/// Returns the instruction files that came with a message's reads and attachments.
fn instruction_files(message: &MessageWithParts) -> impl Iterator<Item = &str> {
    let metadata = message.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Tool(tool) if tool.tool == "read" => match &tool.state {
            // A result that was taken out of the history is no longer before the model.
            ToolState::Completed { metadata, time, .. } if time.compacted.is_none() => Some(metadata),
            _other => None,
        },
        PartKind::Text(text) => text.metadata.as_ref(),
        _other => None,
    });
    metadata.flat_map(loaded)
}

fn loaded(metadata: &Map<String, Value>) -> Vec<&str> {
    decode(metadata).map(|it: Loaded<'_>| it.loaded).unwrap_or_default()
}
