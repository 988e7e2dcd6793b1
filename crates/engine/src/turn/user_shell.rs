//! A shell command that the user runs in a session: a call without a model, which later prompts see (facts: OpenCode §6.9).

use serde_json::json;
use windlass_core::config::rules::rule;
use windlass_protocol::opencode::{
    message::{Message, MessageWithParts},
    part::{EXECUTED_BY_USER, PartKind},
    permission::Action,
};

use super::{calls::CallsEnd, step, toolbox::Toolbox};
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        request::StopReason,
        state::{Journal, SessionState, text_part},
    },
};

/// Milliseconds after which the command is ended; the user sees it run and can cancel it.
const LIMIT_MS: u64 = 60 * 60 * 1000;

/// Runs a command line. The user asked for it, so neither the agent nor the user's rules are asked; the administrator's
/// rules and those of the sessions above hold, and so does the sandbox.
pub async fn run(cx: &TurnCx<'_>, state: &mut SessionState, line: &str) -> Result<StopReason, EngineError> {
    let mut journal = Journal::default();
    cx.push_prompt(state, &mut journal);
    state.push_part(text_part(format!("!{line}"), false, true), &mut journal);
    state.push_part(text_part(EXECUTED_BY_USER.to_owned(), true, false), &mut journal);
    cx.commit(&mut journal).await?;
    let granted = [rule("bash", "*", Action::Allow), rule("external_directory", "*", Action::Allow)];
    let mut toolbox = Toolbox::of_one(cx, state, "bash", &granted);
    toolbox.is_users = true;
    let input = json!({ "command": line, "timeout": LIMIT_MS, "description": "Command of the user" });
    let end = step::calls(cx, state, &toolbox, vec![("bash".to_owned(), input)]).await?;
    Ok(if end == CallsEnd::Interrupted { StopReason::Cancelled } else { StopReason::EndTurn })
}

/// Returns true for the message of a command that the user ran.
pub fn is_command(message: &MessageWithParts) -> bool {
    matches!(message.info, Message::User(_))
        && message.parts.iter().any(|part| match &part.kind {
            PartKind::Text(text) => text.synthetic == Some(true) && text.text == EXECUTED_BY_USER,
            _other => false,
        })
}
