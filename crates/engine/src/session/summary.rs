//! Messages that sum up those before them, and the part of such a conversation that the model reads. Pure.

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts},
    part::PartKind,
};

/// Returns the messages of a conversation that the model reads: from the last summary on, with the messages that were
/// kept beside it.
pub fn visible(history: &[MessageWithParts]) -> Vec<&MessageWithParts> {
    let summaries = history.iter().enumerate().filter(|(_, message)| is_about_summary(message));
    let summaries: Vec<usize> = summaries.map(|(idx, _)| idx).collect();
    visible_indices(history, &summaries).into_iter().map(|idx| &history[idx]).collect()
}

/// Returns the indices of these messages, given those that sum up others or ask for it.
pub fn visible_indices(history: &[MessageWithParts], summaries: &[usize]) -> Vec<usize> {
    let is_plain = |idx: &usize| summaries.binary_search(idx).is_err();
    let summary = summaries.iter().rev().copied().find(|idx| is_usable_summary(&history[*idx]));
    let asked = summary.and_then(|summary_idx| match &history[summary_idx].info {
        Message::Assistant(summary) => position(&history[..summary_idx], &summary.parent_id),
        Message::User(_) => None,
    });
    let (Some(summary_idx), Some(asked_idx)) = (summary, asked) else {
        return (0..history.len()).filter(is_plain).collect();
    };
    let tail = match compaction(&history[asked_idx]) {
        Some(Some(start)) => position(&history[..asked_idx], start).unwrap_or(asked_idx)..asked_idx,
        Some(None) | None => 0..0,
    };
    let mut visible = vec![asked_idx, summary_idx];
    visible.extend(tail.filter(is_plain));
    visible.extend((summary_idx + 1..history.len()).filter(is_plain));
    visible
}

/// Returns the index of a message, which is one of the newest.
fn position(history: &[MessageWithParts], id: &MessageId) -> Option<usize> {
    history.iter().rposition(|message| message.info.id() == id)
}

/// Returns true if a message sums up those before it, or asks for that.
pub fn is_about_summary(message: &MessageWithParts) -> bool {
    is_summary(message) || compaction(message).is_some()
}

/// Returns the start of the kept part, when the message asks for a compaction.
pub fn compaction(message: &MessageWithParts) -> Option<Option<&MessageId>> {
    message.parts.iter().find_map(|part| match &part.kind {
        PartKind::Compaction { tail_start_id, .. } => Some(tail_start_id.as_ref()),
        _other => None,
    })
}

/// Returns true if a message sums up those before it.
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
