//! A session's messages, of which only the newest changes while a turn runs.

use std::{collections::HashSet, ops::Deref};

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts},
};

/// A session's messages, read as a slice, oldest first.
///
/// Whatever changes or removes a message other than the newest begins a new generation. A value that was made from
/// older messages holds as long as the generation is the same.
pub struct History {
    messages: Vec<MessageWithParts>,
    generation: u64,
}

impl History {
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn push(&mut self, info: Message) {
        self.messages.push(MessageWithParts { info, parts: Vec::new() });
    }

    pub fn newest_mut(&mut self) -> Option<&mut MessageWithParts> {
        self.messages.last_mut()
    }

    /// Returns a message to be changed, whatever its age.
    pub fn older_mut(&mut self, message_idx: usize) -> Option<&mut MessageWithParts> {
        self.generation += 1;
        self.messages.get_mut(message_idx)
    }

    pub fn remove(&mut self, ids: &HashSet<MessageId>) {
        self.generation += 1;
        self.messages.retain(|message| !ids.contains(message.info.id()));
    }
}

impl From<Vec<MessageWithParts>> for History {
    fn from(messages: Vec<MessageWithParts>) -> Self {
        Self { messages, generation: 0 }
    }
}

impl Deref for History {
    type Target = [MessageWithParts];

    fn deref(&self) -> &[MessageWithParts] {
        &self.messages
    }
}
