//! Messages that sum up those before them, and the part of such a conversation that the model reads. Pure.

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts},
    part::PartKind,
};

/// Returns the messages of a conversation that the model reads: from the last summary on, with what was kept
/// beside it.
pub fn visible(history: &[MessageWithParts]) -> Vec<&MessageWithParts> {
    let is_plain = |message: &&MessageWithParts| !is_summary(message) && compaction(message).is_none();
    let Some(summary_idx) = history.iter().rposition(is_usable_summary) else {
        return history.iter().filter(is_plain).collect();
    };
    let asked = match &history[summary_idx].info {
        Message::Assistant(summary) => history.iter().position(|it| *it.info.id() == summary.parent_id),
        Message::User(_) => None,
    };
    let Some(asked_idx) = asked else { return history.iter().filter(is_plain).collect() };
    let tail = match compaction(&history[asked_idx]) {
        Some(Some(start)) => {
            let from = history[..asked_idx].iter().position(|it| it.info.id() == start).unwrap_or(asked_idx);
            &history[from..asked_idx]
        }
        Some(None) | None => &[],
    };
    let mut visible = vec![&history[asked_idx], &history[summary_idx]];
    visible.extend(tail.iter().filter(is_plain));
    visible.extend(history[summary_idx + 1..].iter().filter(is_plain));
    visible
}

/// Returns the start of the kept part, when the message asks for a compaction.
pub fn compaction(message: &MessageWithParts) -> Option<Option<&MessageId>> {
    message.parts.iter().find_map(|part| match &part.kind {
        PartKind::Compaction { tail_start_id, .. } => Some(tail_start_id.as_ref()),
        _other => None,
    })
}

/// Returns true if a message sums up what came before it.
pub fn is_summary(message: &MessageWithParts) -> bool {
    matches!(&message.info, Message::Assistant(answer) if answer.summary == Some(true))
}

/// Returns true if it does so in full.
pub fn is_usable_summary(message: &MessageWithParts) -> bool {
    match &message.info {
        Message::Assistant(answer) => {
            let is_done = answer.error.is_none() && answer.finish.is_some();
            answer.summary == Some(true) && is_done && !text_of(message).trim().is_empty()
        }
        Message::User(_) => false,
    }
}

/// Returns the texts of a message.
pub fn text_of(message: &MessageWithParts) -> String {
    let texts = message.parts.iter().filter_map(|part| match &part.kind {
        PartKind::Text(text) if text.ignored != Some(true) => Some(text.text.as_str()),
        _other => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
