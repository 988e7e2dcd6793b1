//! A turn as its events tell it: the model's answers, the new text of each part, and the parts that are finished.

use std::collections::{HashMap, HashSet};

use windlass_engine::AutoSummaries;
use windlass_protocol::opencode::{
    id::{MessageId, PartId},
    message::Message,
    part::{Part, PartKind, ToolPart, ToolState},
};

/// See the module's comment.
#[derive(Default)]
pub struct TurnView {
    /// Messages of the model; the user's are not repeated.
    answers: HashSet<MessageId>,
    /// Automatic summaries: their text is not an answer.
    summaries: AutoSummaries,
    /// Bytes seen of each text that is still being written, and true for a thought.
    growing: HashMap<PartId, (usize, bool)>,
    /// Parts that were seen to their end.
    done: HashSet<PartId>,
}

/// The news of a part.
pub struct News<'a> {
    pub kind: NewsKind<'a>,
    pub is_ended: bool,
}

#[derive(Clone, Copy)]
pub enum NewsKind<'a> {
    Text(NewText<'a>),
    Thought(NewText<'a>),
    /// Text of an automatic summary.
    Summary,
    Call(&'a ToolPart),
    Other,
}

#[derive(Clone, Copy)]
pub struct NewText<'a> {
    pub whole: &'a str,
    /// The end of it that no earlier event brought.
    pub new: &'a str,
}

impl TurnView {
    pub fn note_message(&mut self, message: &Message) {
        self.summaries.note_message(message);
        if let Message::Assistant(answer) = message {
            self.answers.insert(answer.id.clone());
        }
    }

    /// Takes a part as it is by now; `None` if it is no answer's, or was seen to its end.
    pub fn part<'a>(&mut self, part: &'a Part) -> Option<News<'a>> {
        self.summaries.note_part(part);
        if !self.answers.contains(&part.message_id) || self.done.contains(&part.id) {
            return None;
        }
        let is_ended = is_ended(part);
        let is_summary = self.summaries.contains(&part.message_id);
        let kind = match &part.kind {
            PartKind::Text(_) | PartKind::Reasoning(_) if is_summary => NewsKind::Summary,
            PartKind::Text(text) => NewsKind::Text(self.grown(&part.id, &text.text, false)),
            PartKind::Reasoning(thought) => NewsKind::Thought(self.grown(&part.id, &thought.text, true)),
            PartKind::Tool(call) => NewsKind::Call(call),
            PartKind::File(_)
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Agent { .. }
            | PartKind::Subtask { .. }
            | PartKind::Retry { .. }
            | PartKind::Compaction { .. } => NewsKind::Other,
        };
        if is_ended {
            self.growing.remove(&part.id);
            self.done.insert(part.id.clone());
        }
        Some(News { kind, is_ended })
    }

    fn grown<'a>(&mut self, id: &PartId, whole: &'a str, is_thought: bool) -> NewText<'a> {
        let (n_bytes, _) = self.growing.entry(id.clone()).or_insert((0, is_thought));
        let new = whole.get(*n_bytes..).unwrap_or_default();
        *n_bytes += new.len();
        NewText { whole, new }
    }

    /// Takes a piece that begins at this byte of a text; returns the new end of it, and true for a thought.
    pub fn delta<'a>(&mut self, id: &PartId, piece: &'a str, at: Option<usize>) -> Option<(&'a str, bool)> {
        let (n_bytes, is_thought) = self.growing.get_mut(id)?;
        // A part that was seen whole meanwhile has the piece already.
        let known = at.map_or(0, |at| n_bytes.saturating_sub(at));
        let new = piece.get(known..).unwrap_or_default();
        *n_bytes += new.len();
        Some((new, *is_thought))
    }

    /// Notes that a part of a subagent is finished; returns true the first time.
    pub fn finish(&mut self, id: &PartId) -> bool {
        self.done.insert(id.clone())
    }
}

/// Returns true for a text that is not finished.
pub fn is_growing(part: &Part) -> bool {
    matches!(part.kind, PartKind::Text(_) | PartKind::Reasoning(_)) && !is_ended(part)
}

/// Returns true if nothing more comes of a part.
fn is_ended(part: &Part) -> bool {
    match &part.kind {
        PartKind::Text(text) => text.time.is_some_and(|time| time.end.is_some()),
        PartKind::Reasoning(reasoning) => reasoning.time.end.is_some(),
        PartKind::Tool(tool) => matches!(tool.state, ToolState::Completed { .. } | ToolState::Error { .. }),
        PartKind::File(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Agent { .. }
        | PartKind::Subtask { .. }
        | PartKind::Retry { .. }
        | PartKind::Compaction { .. } => true,
    }
}
