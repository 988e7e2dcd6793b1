//! Runs the calls again that waited for a person's yes when the machine of their session died. None of them had begun.

use windlass_protocol::opencode::part::{PartKind, ToolState};

use super::{calls::CallsEnd, step, toolbox::Toolbox};
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        state::{Journal, SessionState, UNANSWERED},
    },
};

/// Has them run in an answer of their own, each asked about as before. Returns false if the turn is not to go on: there
/// were none, or they were refused.
pub async fn run(cx: &TurnCx<'_>, state: &mut SessionState) -> Result<bool, EngineError> {
    cx.session.engine.fleet().forget_unanswered(&cx.session.id);
    let mut journal = Journal::default();
    let mut calls = Vec::new();
    let n_parts = state.history.last().map_or(0, |message| message.parts.len());
    for index in 0..n_parts {
        let Some(part) = state.part_mut(index) else { continue };
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        let ToolState::Error { input, metadata: Some(metadata), .. } = &mut tool.state else { continue };
        if metadata.remove(UNANSWERED).is_some() {
            calls.push((tool.tool.clone(), input.clone()));
            journal.part(part);
        }
    }
    if calls.is_empty() {
        return Ok(false);
    }
    cx.commit(&mut journal).await?;
    let toolbox = Toolbox::new(cx, state);
    Ok(step::calls(cx, state, &toolbox, calls).await? == CallsEnd::Ran)
}
