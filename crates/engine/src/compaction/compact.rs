//! Compaction: a summary takes the place of the older part of a conversation for the model (facts: OpenCode §6.7).

use std::borrow::Cow;

use windlass_base::text;
use windlass_core::library::Agent;
use windlass_protocol::opencode::{
    event::EventPayload,
    id::MessageId,
    message::{Message, MessageWithParts},
    part::{Part, PartKind, ToolPart, ToolState},
};
use windlass_provider::{Model, PromptIds, PromptMessage, UserContent};

use super::window::Window;
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        request::StopReason,
        revert,
        state::{Journal, SessionState},
        summary::{compaction, is_summary, is_usable_summary, text_of, visible},
    },
    turn::{
        hooks::{self, message::Wanted},
        local_reply::reply_locally,
        model_request::{Draft, request},
        prompt, step,
    },
};

#[cfg(test)]
mod tests;

/// Bytes of a tool's answer that the summary is made from.
const MAX_RESULT: usize = 2000;
/// Turns that are kept as they are, unless `compaction.tail_turns` says otherwise.
const TAIL_TURNS: usize = 2;
/// Bounds of the part that is kept, in tokens, unless `compaction.preserve_recent_tokens` says otherwise.
const MIN_TAIL: u64 = 2000;
const MAX_TAIL: u64 = 15_000;
/// Percentage of the usable context that the text to summarise may fill.
const MAX_TEXT: u64 = 80;
/// Tokens that a picture or a document is taken for.
const MEDIA_TOKENS: u64 = 1600;
const BYTES_PER_TOKEN: u64 = 4;

/// Summarises the conversation. The newest message is the user's that asks for it; `wish` is the user's addition.
///
/// The summary is an answer like any other, and nothing is deleted. When it fails or is cancelled the conversation
/// stays as it was.
pub async fn run(cx: &TurnCx<'_>, state: &mut SessionState, wish: &str) -> Result<StopReason, EngineError> {
    let author = Author::of(cx)?;
    let settings = Settings::new(cx, &author);
    let n_before = state.history.len().saturating_sub(1);
    let Some(plan) = plan(&visible(&state.history[..n_before]), &settings, wish) else {
        reply_locally(cx, state, "There is nothing to summarise yet.".to_owned()).await?;
        return Ok(StopReason::EndTurn);
    };
    let mut journal = Journal::default();
    let tail_start_id = plan.tail_start.clone();
    state.push_part(PartKind::Compaction { auto: false, overflow: None, tail_start_id }, &mut journal);
    cx.commit(&mut journal).await?;
    write(cx, state, author, plan).await
}

/// The agent that writes a summary, and its model.
pub struct Author {
    agent: Agent,
    model: Model,
}

impl Author {
    pub fn of(cx: &TurnCx<'_>) -> Result<Self, EngineError> {
        let agent = cx.loaded.agent("compaction").unwrap_or(&cx.agent).clone();
        let own = cx.loaded.named(&format!("agent.{}.model", agent.name), agent.model.as_ref());
        let model = own.transpose()?.unwrap_or_else(|| cx.model.clone());
        Ok(Self { agent, model })
    }
}

/// Has the summary written as an answer to the newest message, which holds the compaction.
pub async fn write(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    author: Author,
    plan: Plan,
) -> Result<StopReason, EngineError> {
    let Author { agent, model } = author;
    let text = wanted(cx, state, plan).await?;
    let persona = agent.prompt.clone().unwrap_or_default();
    let draft = Draft {
        persona: Cow::Borrowed(&persona),
        messages: vec![PromptMessage::User(vec![UserContent::Text(Cow::Owned(text))])],
        params: prompt::params(&agent, &model, &cx.loaded.config, agent.options.clone()),
        ids: PromptIds { session: Some(cx.session.id.as_str()), is_agents: true, ..PromptIds::default() },
        ..Draft::default()
    };
    let prompt = request(&model, draft);
    let own_cx = TurnCx {
        session: cx.session,
        loaded: cx.loaded.clone(),
        variant: cx.loaded.variant_for(&agent, &model, None),
        agent,
        model,
        instructions: Vec::new(),
        parent_limits: cx.parent_limits.clone(),
        mcp: cx.mcp.clone(),
        structured: None,
        plugins: cx.plugins.clone(),
        cancel: cx.cancel.clone(),
    };
    let stop = step::summarise(&own_cx, state, &prompt).await?;
    if state.history.last().is_some_and(is_usable_summary) {
        let mut journal = Journal::default();
        journal.event(EventPayload::SessionCompacted { session_id: state.info.id.clone() });
        cx.commit(&mut journal).await?;
    }
    Ok(stop)
}

/// Returns the request for the summary, as plugins leave it and the messages that it is made from.
async fn wanted(cx: &TurnCx<'_>, state: &SessionState, plan: Plan) -> Result<String, EngineError> {
    let Plan { head, frame, .. } = plan;
    let Wanted { prompt, context } = hooks::message::change_summary(cx, state).await?;
    let head = match hooks::change_some(cx, state, &head).await.map_err(|error| EngineError::from(&error))? {
        Some(messages) => {
            said(&messages.iter().collect::<Vec<_>>()).into_iter().map(|(_, text)| text).collect()
        }
        None => head.into_iter().map(|(_, text)| text).collect::<Vec<_>>(),
    };
    let pieces = std::iter::once(frame.text(&head, prompt.as_deref())).chain(context);
    Ok(pieces.collect::<Vec<_>>().join("\n\n"))
}

/// The parts of a conversation that stay and that are summarised.
pub struct Settings {
    /// Turns and tokens that stay as they are.
    n_turns: usize,
    n_tokens: u64,
    /// Tokens that the author of the summary can read; `None` when unknown.
    max_text: Option<u64>,
    /// The newest message stays also where everything would fit.
    keeps_newest: bool,
}

impl Settings {
    pub fn new(cx: &TurnCx<'_>, author: &Author) -> Self {
        let config = &cx.loaded.config;
        let configured = &config.settings.compaction;
        let usable = Window::of(&cx.model, config).map_or(0, |window| window.usable);
        let max_text = Window::of(&author.model, config).map(|window| window.usable * MAX_TEXT / 100);
        Self {
            n_turns: configured.tail_turns.map_or(TAIL_TURNS, |n| n as usize),
            n_tokens: configured.preserve_recent_tokens.unwrap_or((usable / 4).clamp(MIN_TAIL, MAX_TAIL)),
            max_text,
            keeps_newest: false,
        }
    }

    /// Keeps the newest message, which is still to be answered, where there is room for it.
    pub fn keeping_newest(self, keeps_newest: bool) -> Self {
        Self { keeps_newest, ..self }
    }

    pub fn without_tail(self) -> Self {
        Self { n_turns: 0, ..self }
    }
}

pub struct Plan {
    /// The messages that the summary is made from, as its author reads them.
    pub head: Vec<(MessageId, String)>,
    /// The rest of the request.
    pub frame: Frame,
    /// The first message that stays.
    pub tail_start: Option<MessageId>,
}

/// A request for a summary, without the messages that it is made from.
pub struct Frame {
    /// The summary before.
    prior: Option<String>,
    /// Tokens that the author of the summary can read; `None` when unknown.
    max_text: Option<u64>,
    /// Words that the user adds.
    wish: String,
}

impl Frame {
    /// Returns the whole request. `prompt` is asked in the place of our own words.
    pub fn text(&self, head: &[String], prompt: Option<&str>) -> String {
        let mut text = String::new();
        if let Some(prior) = &self.prior {
            text.push_str(&format!("<prior-summary>\n{prior}\n</prior-summary>\n\n"));
        }
        text.push_str("<conversation>\n");
        push_head(head, self.max_text, &mut text);
        text.push_str("</conversation>\n\n");
        text.push_str(prompt.unwrap_or("Write the summary of this conversation now."));
        if !self.wish.is_empty() {
            text.push_str(&format!(" The user adds what it must not lose: {}", self.wish));
        }
        text
    }
}

/// Divides a conversation into the part that is summarised and the part that stays; `None` when there is nothing to
/// summarise.
pub fn plan(before: &[&MessageWithParts], settings: &Settings, wish: &str) -> Option<Plan> {
    let prior = before.iter().find(|message| is_summary(message)).map(|message| text_of(message));
    let mut said = said(before);
    if said.is_empty() {
        return None;
    }
    // If everything stayed, there would be nothing to summarise.
    let n_head = match tail_start(&said, settings) {
        0 if settings.keeps_newest && said.len() > 1 => said.len() - 1,
        0 => said.len(),
        start => start,
    };
    let tail_start = said.get(n_head).map(|(message, _)| message.info.id().clone());
    let head = said.drain(..n_head).map(|(message, text)| (message.info.id().clone(), text)).collect();
    let frame = Frame { prior, max_text: settings.max_text, wish: wish.to_owned() };
    Some(Plan { head, frame, tail_start })
}

/// Returns the messages that say something, as the summary's author reads them.
fn said<'a>(messages: &[&'a MessageWithParts]) -> Vec<(&'a MessageWithParts, String)> {
    let of_users = messages.iter().filter(|message| !is_summary(message) && compaction(message).is_none());
    let said = of_users.map(|message| (*message, serialise(message)));
    said.filter(|(_, text)| !text.is_empty()).collect()
}

/// Writes the messages to be summarised, without the oldest where they are too many for the author.
fn push_head(said: &[String], max_tokens: Option<u64>, text: &mut String) {
    let mut room = max_tokens.unwrap_or(u64::MAX);
    let fits = |message: &&String| {
        let n_tokens = estimate(message);
        let is_fitting = n_tokens <= room;
        room = room.saturating_sub(n_tokens);
        is_fitting
    };
    let n_fitting = said.iter().rev().take_while(fits).count();
    // The newest message is always there, if only its beginning.
    let n_left_out = (said.len() - n_fitting).min(said.len().saturating_sub(1));
    if n_left_out > 0 {
        text.push_str(&format!("[{n_left_out} older messages are left out, because they did not fit.]\n"));
    }
    let max_bytes = max_tokens.and_then(|it| usize::try_from(it.saturating_mul(BYTES_PER_TOKEN)).ok());
    for message in &said[n_left_out..] {
        text.push_str(text::head(message, max_bytes.unwrap_or(usize::MAX)));
        text.push('\n');
    }
}

/// Returns the index of the first message that stays: whole turns from the end, then as much of the one before as fits.
fn tail_start(said: &[(&MessageWithParts, String)], settings: &Settings) -> usize {
    let mut n_tokens = 0;
    let mut n_turns = 0;
    let mut start = said.len();
    for (index, (message, _)) in said.iter().enumerate().rev() {
        n_tokens += message.parts.iter().map(weight).sum::<u64>();
        if n_tokens > settings.n_tokens || n_turns == settings.n_turns {
            break;
        }
        start = index;
        n_turns += usize::from(matches!(message.info, Message::User(_)));
    }
    start
}

/// Estimates the tokens of a text.
pub fn estimate(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the tokens that a part takes when it is sent as it is.
fn weight(part: &Part) -> u64 {
    match &part.kind {
        PartKind::Text(text) if text.ignored != Some(true) => estimate(&text.text),
        PartKind::Reasoning(reasoning) => estimate(&reasoning.text),
        PartKind::File(_) => MEDIA_TOKENS,
        PartKind::Tool(tool) => {
            let answer = match &tool.state {
                ToolState::Completed { time, .. } if time.compacted.is_some() => 0,
                ToolState::Completed { output, attachments, .. } => {
                    let n_media = attachments.iter().flatten().count() as u64;
                    estimate(output) + n_media * MEDIA_TOKENS
                }
                ToolState::Error { error, .. } => estimate(error),
                ToolState::Pending { .. } | ToolState::Running { .. } => 0,
            };
            estimate(&tool.state.input().to_string()) + answer
        }
        _other => 0,
    }
}

/// Returns a message as the summary's maker reads it; empty when it said nothing.
fn serialise(message: &MessageWithParts) -> String {
    let mut lines = Vec::new();
    match &message.info {
        Message::User(_) if !revert::has_model_content(&message.parts) => {}
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
