//! Takes old outputs of tools out of the model's input, where `compaction.prune` is set (facts: OpenCode §6.7).

use windlass_base::clock;
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::{Part, PartKind, ToolState},
};

use super::compact::estimate;
use crate::{
    EngineError,
    session::{
        context::SessionCx,
        revert,
        state::{Journal, SessionState},
        summary::is_summary,
    },
};

#[cfg(test)]
mod tests;

/// The newest turns, which keep their outputs.
const N_TURNS: usize = 2;
/// Tokens of the newest outputs before those, which stay too.
const PROTECTED: u64 = 40_000;
/// Fewer tokens than these are not worth a change of the provider's cache.
const MIN_SAVED: u64 = 20_000;

/// Clears old outputs after a turn. They stay in the store; the model reads a placeholder.
pub async fn run(cx: &SessionCx, state: &mut SessionState) -> Result<(), EngineError> {
    let loaded = cx.workspace.loaded();
    if loaded.config.settings.compaction.prune != Some(true) {
        return Ok(());
    }
    let mut journal = Journal::default();
    for (message_idx, part_idx) in clearable(&state.history) {
        let Some(part) = state.history.older_mut(message_idx).and_then(|it| it.parts.get_mut(part_idx))
        else {
            continue;
        };
        if let PartKind::Tool(tool) = &mut part.kind
            && let ToolState::Completed { time, .. } = &mut tool.state
        {
            time.compacted = Some(clock::now_ms());
            journal.part(part);
        }
    }
    cx.commit(&mut journal).await
}

/// Finds the outputs to clear, by the indices of their message and part.
fn clearable(history: &[MessageWithParts]) -> Vec<(usize, usize)> {
    let mut n_turns = 0;
    let mut n_seen = 0;
    let mut n_saved = 0;
    let mut found = Vec::new();
    for (message_idx, message) in history.iter().enumerate().rev() {
        if matches!(message.info, Message::User(_)) {
            n_turns += usize::from(revert::is_prompt(message));
        } else if is_summary(message) {
            break;
        } else if n_turns >= N_TURNS {
            for (part_idx, part) in message.parts.iter().enumerate().rev() {
                let Some((output, is_cleared)) = output(part) else { continue };
                // Everything before it was looked at by an earlier run.
                if is_cleared {
                    return if n_saved > MIN_SAVED { found } else { Vec::new() };
                }
                n_seen += estimate(output);
                if n_seen > PROTECTED {
                    n_saved += estimate(output);
                    found.push((message_idx, part_idx));
                }
            }
        }
    }
    if n_saved > MIN_SAVED { found } else { Vec::new() }
}

/// Returns the output of a finished call, and true if it is cleared. A skill is read once and holds for long.
fn output(part: &Part) -> Option<(&str, bool)> {
    let PartKind::Tool(tool) = &part.kind else { return None };
    let ToolState::Completed { output, time, .. } = &tool.state else { return None };
    (tool.tool != "skill").then_some((output.as_str(), time.compacted.is_some()))
}
