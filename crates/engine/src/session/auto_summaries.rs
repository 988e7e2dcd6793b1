//! Knows the automatic summaries, which front ends keep apart from the answers.

use std::collections::HashSet;

use windlass_protocol::opencode::{
    id::MessageId,
    message::Message,
    part::{Part, PartKind},
};

/// The automatic summaries of a session, learnt from its messages and parts in the order of their events.
#[derive(Debug, Default)]
pub struct AutoSummaries {
    compactions: HashSet<MessageId>,
    summaries: HashSet<MessageId>,
}

impl AutoSummaries {
    pub fn note_part(&mut self, part: &Part) {
        if let PartKind::Compaction { auto: true, .. } = &part.kind {
            self.compactions.insert(part.message_id.clone());
        }
    }

    pub fn note_message(&mut self, message: &Message) {
        if let Message::Assistant(answer) = message
            && answer.summary == Some(true)
            && self.compactions.contains(&answer.parent_id)
        {
            self.summaries.insert(answer.id.clone());
        }
    }

    /// Returns true for a message that is an automatic summary.
    pub fn contains(&self, id: &MessageId) -> bool {
        self.summaries.contains(id)
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
