//! Sessions drawn for people at a terminal: pure functions from messages to rows, and the screen that shows them live.
//!
//! [`screen::Screen`] draws a turn while it runs; [`transcript`] draws stored messages in the same way.

use std::collections::HashMap;

use windlass_protocol::opencode::{
    id::SessionId,
    message::{Message, MessageError, MessageWithParts},
    part::{Part, PartKind},
};

use self::{
    line::{BOLD, CYAN, DIM, Line, PLAIN, RED, YELLOW, notice},
    look::Look,
    markdown::Stream,
    spacing::{Kind, Spacing},
};

mod ansi;
pub mod below;
pub mod line;
pub mod look;
mod markdown;
pub mod progress;
pub mod screen;
mod spacing;
pub mod tool;
pub mod turn;

pub use look::Draw;

/// Messages as text for a terminal or a file, each row ended; those of subagents below the calls that began them.
pub fn transcript(
    messages: &[MessageWithParts],
    children: &HashMap<SessionId, Vec<MessageWithParts>>,
    look: &Look,
    width: usize,
) -> String {
    let mut rows = Vec::new();
    let mut spacing = Spacing::default();
    let draw = Draw { look, width };
    for message in messages {
        push_message(message, children, draw, &mut spacing, &mut rows);
    }
    text(&rows, look)
}

/// Rows as they are written, each with its end.
pub fn text(rows: &[Line], look: &Look) -> String {
    let mut text = String::new();
    for row in rows {
        row.encode(look, &mut text);
        text.push('\n');
    }
    text
}

fn push_message(
    message: &MessageWithParts,
    children: &HashMap<SessionId, Vec<MessageWithParts>>,
    draw: Draw<'_>,
    spacing: &mut Spacing,
    rows: &mut Vec<Line>,
) {
    match &message.info {
        Message::User(_) => {
            let texts = message.parts.iter().filter_map(|part| match &part.kind {
                PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
                _ => None,
            });
            for text in texts {
                spacing.before(Kind::Prompt, rows);
                rows.extend(id(message.info.id().as_str(), &draw));
                rows.extend(prompt(text, &draw));
            }
        }
        Message::Assistant(info) => {
            if draw.look.shows_ids {
                spacing.before(Kind::Text, rows);
                rows.extend(id(info.id.as_str(), &draw));
            }
            for part in &message.parts {
                push_part(part, children, draw, spacing, rows);
            }
            if let Some(error) = &info.error {
                spacing.before(Kind::Notice, rows);
                rows.extend(match error {
                    MessageError::MessageAbortedError { .. } => notice("Cancelled.", YELLOW, &draw),
                    error => notice(&format!("Error: {}", error.message()), RED, &draw),
                });
            }
        }
    }
}

fn push_part(
    part: &Part,
    children: &HashMap<SessionId, Vec<MessageWithParts>>,
    draw: Draw<'_>,
    spacing: &mut Spacing,
    rows: &mut Vec<Line>,
) {
    match &part.kind {
        PartKind::Text(text) => {
            let mut stream = Stream::default();
            stream.push(&text.text);
            let drawn = stream.finish(&draw);
            if !drawn.is_empty() {
                spacing.before(Kind::Text, rows);
                rows.extend(id(part.id.as_str(), &draw));
                rows.extend(drawn);
            }
        }
        PartKind::Reasoning(reasoning) => {
            let mut stream = Stream::default();
            stream.push(&reasoning.text);
            let drawn = progress::drawn(true, &draw, |draw| stream.finish(draw));
            if !drawn.is_empty() {
                spacing.before(Kind::Text, rows);
                rows.extend(drawn);
            }
        }
        PartKind::Tool(call) => {
            spacing.before(Kind::Call, rows);
            rows.extend(id(part.id.as_str(), &draw));
            rows.extend(tool::ended(call, &draw));
            let below = progress::child_of(call).and_then(|id| children.get(&id));
            let indent = Line::new("  ", PLAIN);
            let inner = Draw { look: draw.look, width: draw.width.saturating_sub(2) };
            for part in below.into_iter().flatten().flat_map(|message| &message.parts) {
                if matches!(part.kind, PartKind::Tool(_)) {
                    let mut inside = Vec::new();
                    push_part(part, children, inner, &mut Spacing::inside(), &mut inside);
                    rows.extend(inside.into_iter().map(|row| row.behind(&indent)));
                }
            }
        }
        PartKind::Compaction { .. } => {
            spacing.before(Kind::Notice, rows);
            rows.extend(notice("The conversation was summed up to save room.", DIM, &draw));
        }
        PartKind::File(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Agent { .. }
        | PartKind::Subtask { .. }
        | PartKind::Retry { .. } => {}
    }
}

/// Draws an id, where they are wanted.
fn id(id: &str, draw: &Draw<'_>) -> Option<Line> {
    draw.look.shows_ids.then(|| Line::new(id, DIM))
}

/// Draws a text of the user.
pub fn prompt(text: &str, draw: &Draw<'_>) -> Vec<Line> {
    let mut mark = Line::new("› ", CYAN.bold());
    let mut rows = Vec::new();
    for line in text.trim_end().lines() {
        let wrapped = Line::new(line, BOLD).wrap(draw.width.saturating_sub(2));
        for row in wrapped {
            rows.push(row.behind(&mark));
            mark = Line::new("  ", PLAIN);
        }
    }
    rows
}
