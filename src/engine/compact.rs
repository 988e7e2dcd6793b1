//! Compaction: a summary takes the place of the older part of a conversation for the model (facts: OpenCode §6.7).

use std::borrow::Cow;

use serde_json::Value;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::MessageId,
    message::{Message, MessageWithParts},
    part::{PartKind, ToolPart, ToolState},
};

use super::{
    EngineError,
    context::TurnCx,
    prompt,
    request::StopReason,
    revert,
    say::say,
    state::{Journal, SessionState},
    step,
    summary::{compaction, is_summary, is_usable_summary, text_of, visible},
};
use crate::{
    base::text,
    provider::{Model, Prompt, PromptMessage, UserContent},
};

/// Bytes of a tool's answer that the summary is made from.
const MAX_RESULT: usize = 2000;
/// Turns that are kept as they are, unless `compaction.tail_turns` says otherwise.
const TAIL_TURNS: usize = 2;
/// Between these is what is kept, in tokens, unless `compaction.preserve_recent_tokens` says otherwise.
const MIN_TAIL: u64 = 2000;
const MAX_TAIL: u64 = 15_000;

/// Summarises the conversation. The newest message is the user's that asks for it; `wish` is what the user adds.
///
/// The summary is an answer like any other, and nothing is deleted. When it fails or is cancelled the conversation
/// stays as it was.
pub async fn run(cx: &TurnCx<'_>, state: &mut SessionState, wish: &str) -> Result<StopReason, EngineError> {
    let agent = cx.loaded.agent("compaction").unwrap_or(&cx.agent).clone();
    let own = cx.loaded.named(&format!("agent.{}.model", agent.name), agent.model.as_ref());
    let model = own.transpose()?.unwrap_or_else(|| cx.model.clone());
    let n_before = state.history.len().saturating_sub(1);
    let max_output = prompt::max_output(&cx.loaded.config);
    let Plan { text, tail_start } = {
        let before = visible(&state.history[..n_before]);
        let configured = cx.loaded.config.raw.get("compaction");
        let settings = Settings::new(configured, &cx.model, max_output);
        match plan(&before, &settings, wish) {
            Some(plan) => plan,
            None => {
                let text = "There is nothing to summarise yet.".to_owned();
                say(cx, state, text).await?;
                return Ok(StopReason::EndTurn);
            }
        }
    };
    let mut journal = Journal::default();
    state.push_part(
        PartKind::Compaction { auto: false, overflow: None, tail_start_id: tail_start },
        &mut journal,
    );
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await?;

    let system = agent.prompt.clone().unwrap_or_default();
    let prompt = Prompt {
        system: vec![Cow::Borrowed(&system)],
        messages: vec![PromptMessage::User(vec![UserContent::Text(Cow::Owned(text))])],
        temperature: agent.temperature.filter(|_| model.takes_temperature),
        top_p: agent.top_p,
        max_output_tokens: (model.limit.output > 0).then(|| model.limit.output.min(max_output)),
        options: agent.options.clone(),
        ..Prompt::default()
    };
    let own_cx = TurnCx {
        session: cx.session,
        loaded: cx.loaded.clone(),
        variant: cx.loaded.variant_for(&agent, &model, None),
        agent,
        model,
        instructions: Vec::new(),
        above: cx.above.clone(),
        mcp: cx.mcp.clone(),
        cancel: cx.cancel.clone(),
    };
    let stop = step::summarise(&own_cx, state, &prompt).await?;
    if state.history.last().is_some_and(is_usable_summary) {
        journal.event(EventPayload::SessionCompacted { session_id: state.info.id.clone() });
        journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await?;
    }
    Ok(stop)
}

/// How much stays as it is.
struct Settings {
    n_turns: usize,
    n_tokens: u64,
}

impl Settings {
    fn new(configured: Option<&Value>, model: &Model, max_output: u64) -> Self {
        let number = |key: &str| configured.and_then(|it| it.get(key)).and_then(Value::as_u64);
        let output = match model.limit.output {
            0 => max_output,
            limit => limit.min(max_output),
        };
        let usable = match model.limit.input {
            Some(input) => input.saturating_sub(number("reserved").unwrap_or(output.min(20_000))),
            None => model.limit.context.saturating_sub(output),
        };
        Self {
            n_turns: number("tail_turns").map_or(TAIL_TURNS, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            n_tokens: number("preserve_recent_tokens").unwrap_or((usable / 4).clamp(MIN_TAIL, MAX_TAIL)),
        }
    }
}

struct Plan {
    /// What the summary is made from.
    text: String,
    /// The first message that stays.
    tail_start: Option<MessageId>,
}

/// Splits the messages into those to summarise and those to keep; `None` when there is nothing.
fn plan(before: &[&MessageWithParts], settings: &Settings, wish: &str) -> Option<Plan> {
    let prior = before.iter().find(|message| is_summary(message)).map(|message| text_of(message));
    let said: Vec<(&MessageWithParts, String)> = before
        .iter()
        .filter(|message| !is_summary(message) && compaction(message).is_none())
        .map(|message| (*message, serialise(message)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    if said.is_empty() {
        return None;
    }
    // When everything would stay there would be nothing to summarise.
    let n_head = match tail_start(&said, settings) {
        0 => said.len(),
        start => start,
    };
    let mut text = String::new();
    if let Some(prior) = prior {
        text.push_str(&format!("<prior-summary>\n{prior}\n</prior-summary>\n\n"));
    }
    text.push_str("<conversation>\n");
    for (_, message) in &said[..n_head] {
        text.push_str(message);
        text.push('\n');
    }
    text.push_str("</conversation>\n\nWrite the summary of this conversation now.");
    if !wish.is_empty() {
        text.push_str(&format!(" The user adds what it must not lose: {wish}"));
    }
    let tail_start = said.get(n_head).map(|(message, _)| message.info.id().clone());
    Some(Plan { text, tail_start })
}

/// Index of the first message that stays: whole turns from the end, then as much of the one before as fits.
fn tail_start(said: &[(&MessageWithParts, String)], settings: &Settings) -> usize {
    let mut n_tokens = 0;
    let mut n_turns = 0;
    let mut start = said.len();
    for (index, (message, text)) in said.iter().enumerate().rev() {
        n_tokens += estimate(text);
        if n_tokens > settings.n_tokens || n_turns == settings.n_turns {
            break;
        }
        start = index;
        n_turns += usize::from(matches!(message.info, Message::User(_)));
    }
    start
}

/// Four characters are about a token.
fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Returns a message as the summary's maker reads it; empty when it said nothing.
fn serialise(message: &MessageWithParts) -> String {
    let mut lines = Vec::new();
    match &message.info {
        Message::User(_) if !revert::speaks(&message.parts) => {}
        Message::User(_) => {
            for part in &message.parts {
                match &part.kind {
                    PartKind::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                        lines.push(format!("[User]: {}", text.text));
                    }
                    PartKind::File(file) => {
                        let name = file.filename.as_deref().unwrap_or("file");
                        lines.push(format!("[Attached {}: {name}]", file.mime));
                    }
                    _other => {}
                }
            }
        }
        Message::Assistant(_) => {
            for part in &message.parts {
                match &part.kind {
                    PartKind::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
                        lines.push(format!("[Assistant]: {}", text.text));
                    }
                    PartKind::Tool(tool) => lines.extend(call(tool)),
                    _other => {}
                }
            }
        }
    }
    lines.join("\n")
}

fn call(tool: &ToolPart) -> [String; 2] {
    let result = match &tool.state {
        ToolState::Completed { time, .. } if time.compacted.is_some() => "[Old tool result content cleared]",
        ToolState::Completed { output, .. } => text::head(output, MAX_RESULT),
        ToolState::Error { error, .. } => text::head(error, MAX_RESULT),
        ToolState::Pending { .. } | ToolState::Running { .. } => "[Tool execution was interrupted]",
    };
    let called = format!("[Assistant tool call]: {}({})", tool.tool, tool.state.input());
    [text::head(&called, 2 * MAX_RESULT).to_owned(), format!("[Tool result]: {result}")]
}
