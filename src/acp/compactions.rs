//! Tells clients that show compactions how far one is.

use windlass_protocol::opencode::{
    id::{MessageId, PartId},
    message::{AssistantMessage, Message, MessageError, MessageWithParts},
    part::{Part, PartKind},
};
use windlass_protocol_acp::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, SessionUpdate, TextContent,
};

/// The compaction of a session that runs now, and the summary as far as it has come.
#[derive(Debug, Default)]
pub struct Compactions {
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// The message that asks for the compaction; its id is that of the compaction.
    id: MessageId,
    /// The answer with the summary.
    answer: Option<MessageId>,
    /// The summary's texts, each whole.
    texts: Vec<(PartId, String)>,
}

impl Compactions {
    /// Takes a part; returns an update if a compaction begins with it.
    pub fn part(&mut self, part: &Part) -> Option<SessionUpdate> {
        if let PartKind::Compaction { .. } = &part.kind {
            let id = part.message_id.clone();
            let update = CompactionUpdate::new(id.shared(), CompactionStatus::InProgress);
            self.running = Some(Running { id, answer: None, texts: Vec::new() });
            return Some(SessionUpdate::CompactionUpdate(update));
        }
        if let PartKind::Text(text) = &part.kind
            && let Some(running) = &mut self.running
            && running.answer.as_ref() == Some(&part.message_id)
            && !text.text.is_empty()
        {
            running.texts.retain(|(id, _)| *id != part.id);
            running.texts.push((part.id.clone(), text.text.clone()));
        }
        None
    }

    /// Takes a message of the history with its parts; returns an update if a compaction ends with it.
    ///
    /// Its beginning is not told, since one that a sudden death cut off has no end.
    pub fn stored(&mut self, message: &MessageWithParts) -> Option<SessionUpdate> {
        self.answer(&message.info);
        for part in &message.parts {
            self.part(part);
        }
        self.message(&message.info)
    }

    /// Returns a message that answers the request for the running compaction, and notes it.
    fn answer<'a>(&mut self, message: &'a Message) -> Option<&'a AssistantMessage> {
        let Message::Assistant(answer) = message else { return None };
        let running = self.running.as_mut().filter(|running| running.id == answer.parent_id)?;
        running.answer = Some(answer.id.clone());
        Some(answer)
    }

    /// Takes a message; returns an update if a compaction ends with it.
    pub fn message(&mut self, message: &Message) -> Option<SessionUpdate> {
        let answer = self.answer(message)?;
        answer.time.completed?;
        let running = self.running.take()?;
        let update = |status| CompactionUpdate::new(running.id.shared(), status);
        let update = match &answer.error {
            None => {
                let summary =
                    running.texts.into_iter().map(|(_, text)| ContentBlock::Text(TextContent::new(text)));
                update(CompactionStatus::Completed).summary(summary.collect::<Vec<_>>())
            }
            Some(MessageError::MessageAbortedError { .. }) => update(CompactionStatus::Cancelled),
            Some(_) => {
                update(CompactionStatus::Failed).error("The conversation was not summarised.".to_owned())
            }
        };
        Some(SessionUpdate::CompactionUpdate(update))
    }

    /// Ends a compaction that the turn's end left without one.
    pub fn abandon(&mut self) -> Option<SessionUpdate> {
        let running = self.running.take()?;
        let update = CompactionUpdate::new(running.id.shared(), CompactionStatus::Cancelled);
        Some(SessionUpdate::CompactionUpdate(update))
    }
}
