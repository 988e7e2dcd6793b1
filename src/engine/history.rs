//! A session's messages, of which only the newest changes.

use std::{collections::HashSet, ops::Deref};

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts},
};

/// Read as a slice, oldest first. No message but the newest can be changed, so what was made of the others holds.
pub struct History(Vec<MessageWithParts>);

impl History {
    pub fn push(&mut self, info: Message) {
        self.0.push(MessageWithParts { info, parts: Vec::new() });
    }

    pub fn newest_mut(&mut self) -> Option<&mut MessageWithParts> {
        self.0.last_mut()
    }

    pub fn remove(&mut self, ids: &HashSet<MessageId>) {
        self.0.retain(|message| !ids.contains(message.info.id()));
    }
}

impl From<Vec<MessageWithParts>> for History {
    fn from(messages: Vec<MessageWithParts>) -> Self {
        Self(messages)
    }
}

impl Deref for History {
    type Target = [MessageWithParts];

    fn deref(&self) -> &[MessageWithParts] {
        &self.0
    }
}
