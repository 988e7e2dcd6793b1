//! A session's messages, of which only the newest changes while a turn runs.

use std::{collections::HashSet, ops::Deref};

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts, UserSummary},
    part::Part,
};

/// A session's messages, read as a slice, oldest first.
///
/// A change or removal of a message other than the newest begins a new generation. A value that was made from older
/// messages holds as long as the generation is the same.
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

    /// Returns a message of any age to be changed.
    pub fn older_mut(&mut self, message_idx: usize) -> Option<&mut MessageWithParts> {
        self.generation += 1;
        self.messages.get_mut(message_idx)
    }

    /// Adds parts to a message, or has them take the place of those with their ids. No model may see them, so that values
    /// made from the message hold.
    pub fn note(&mut self, id: &MessageId, parts: Vec<Part>) {
        let Some(message) = self.messages.iter_mut().rfind(|message| message.info.id() == id) else { return };
        for part in parts {
            match message.parts.iter_mut().find(|known| known.id == part.id) {
                Some(known) => *known = part,
                None => message.parts.push(part),
            }
        }
    }

    /// Notes the outcome of a prompt. No model sees it, so values made from the message hold.
    pub fn summarize(&mut self, message_idx: usize, summary: UserSummary) -> Option<&Message> {
        let message = self.messages.get_mut(message_idx)?;
        if let Message::User(prompt) = &mut message.info {
            prompt.summary = Some(summary);
        }
        Some(&message.info)
    }

    pub fn remove(&mut self, ids: &HashSet<MessageId>) {
        self.generation += 1;
        self.messages.retain(|message| !ids.contains(message.info.id()));
    }
}

/// A value made from the older messages of one history, so that a step need not read them all again.
#[derive(Default)]
pub struct Digest<T> {
    generation: u64,
    n_messages: usize,
    value: T,
}

impl<T: Default> Digest<T> {
    /// Adds the messages that came since the last time. The newest one may still change and is left out.
    pub fn advance(&mut self, history: &History, add: impl Fn(&mut T, usize, &MessageWithParts)) {
        if self.generation != history.generation {
            *self = Self { generation: history.generation, ..Self::default() };
        }
        for (idx, message) in history.iter().enumerate().skip(self.n_messages) {
            if idx + 1 < history.len() {
                add(&mut self.value, idx, message);
                self.n_messages = idx + 1;
            }
        }
    }
}

impl<T: Clone + Default> Digest<T> {
    /// Returns the value of all messages.
    pub fn whole(&self, history: &History, add: impl Fn(&mut T, usize, &MessageWithParts)) -> T {
        let is_current = self.generation == history.generation;
        let (mut value, n_messages) =
            if is_current { (self.value.clone(), self.n_messages) } else { (T::default(), 0) };
        for (idx, message) in history.iter().enumerate().skip(n_messages) {
            add(&mut value, idx, message);
        }
        value
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
