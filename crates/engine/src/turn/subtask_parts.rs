//! Carries out the work for subagents that stands in the user's messages (facts: OpenCode §6.3).

use serde_json::json;
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::PartKind,
    permission::Action,
};

use super::{calls::CallsEnd, step, subtask::TaskCall, toolbox::Toolbox};
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        request::{PromptPart, StopReason},
        state::{Journal, SessionState, text_part},
    },
};

/// Text for the model behind a subagent's answer, so that it continues (facts: OpenCode §6.3).
const SUMMARIZE: &str = "Summarize the task tool output above and continue with your task.";

/// Has subagents do the work that no answer has begun, in its order; `None` if the model is to answer now.
///
/// The `attachments` go with the last one.
pub async fn run(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    attachments: Vec<PromptPart>,
) -> Result<Option<StopReason>, EngineError> {
    let mut pending = pending(&state.history);
    let last = pending.pop();
    let without = pending.into_iter().map(|part| (part, Vec::new()));
    let works: Vec<_> = without.chain(last.map(|part| (part, attachments))).collect();
    for (part, attachments) in works {
        let PartKind::Subtask { prompt, description, agent, model, command } = part else { continue };
        let mut input = json!({ "description": description, "prompt": prompt, "subagent_type": agent });
        if let Some(command) = &command {
            input["command"] = command.as_str().into();
        }
        let granted = [rule("task", &agent, Action::Allow)];
        let mut toolbox = Toolbox::of_one(cx, state, "task", &granted);
        toolbox.task = Some(TaskCall { model, attachments });
        match step::calls(cx, state, &toolbox, vec![("task".to_owned(), input)]).await? {
            CallsEnd::Interrupted => return Ok(Some(StopReason::Cancelled)),
            CallsEnd::Rejected => return Ok(Some(StopReason::EndTurn)),
            CallsEnd::None | CallsEnd::Ran => {}
        }
        if command.is_some() {
            let mut journal = Journal::default();
            cx.push_prompt(state, &mut journal);
            state.push_part(text_part(SUMMARIZE.to_owned(), true, false), &mut journal);
            cx.commit(&mut journal).await?;
        }
    }
    Ok(None)
}

/// Returns the parts behind the newest answer that give work to subagents.
///
/// Work that was begun is not begun again, also after a sudden death: its answer says how it ended.
fn pending(history: &[MessageWithParts]) -> Vec<PartKind> {
    let n_prompts = history.iter().rev().take_while(|it| matches!(it.info, Message::User(_))).count();
    let parts = history[history.len() - n_prompts..].iter().flat_map(|message| &message.parts);
    parts.map(|part| &part.kind).filter(|kind| matches!(kind, PartKind::Subtask { .. })).cloned().collect()
}
