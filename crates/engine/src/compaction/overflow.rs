//! Makes room in a full context by itself: a summary in the middle of a turn, after which the turn goes on.

use windlass_base::mime;
use windlass_protocol::opencode::{
    message::{AssistantMessage, Message, MessageError, MessageWithParts},
    part::{Part, PartKind},
};
use windlass_provider::{Model, ProviderError};

use super::{
    compact::{self, Author, Plan, Settings},
    window::{self, Window},
};
use crate::{
    EngineError, EngineErrorKind,
    session::{
        context::TurnCx,
        request::StopReason,
        revert,
        state::{Journal, SessionState, text_part},
        summary::{compaction, is_summary, is_usable_summary, visible},
    },
    turn::hooks,
};

#[cfg(test)]
mod tests;

/// The model reads this where nothing of the user waits for an answer.
const GO_ON: &str = "Go on with the next step if there is one. If you are not sure of it, stop and ask.";
const WAYS_OUT: &str =
    "Begin a new session, choose a model with a larger context, or send fewer attachments and MCP tools.";

/// The room that a turn made in the context.
#[derive(Default)]
pub struct Room {
    /// A compaction ran, and no request was taken since.
    is_made: bool,
    /// A plugin wants the turn to end behind a compaction.
    pub ends_turn: bool,
}

impl Room {
    /// Compacts before a step when the figures of the newest answer say that the context is full.
    ///
    /// The first answer behind a summary shows how much a compaction leaves. Where that is too much already, another
    /// one would not help: the turn goes on until the whole context is full or the provider refuses.
    pub async fn before_step(
        &mut self,
        cx: &TurnCx<'_>,
        state: &mut SessionState,
    ) -> Result<(), EngineError> {
        let Some(newest) = answers(&state.history).next() else { return Ok(()) };
        self.is_made = false;
        let config = &cx.loaded.config;
        if cx.cancel.is_cancelled() || !window::is_automatic(config) || !is_of(newest, &cx.model) {
            return Ok(());
        }
        let Some(window) = Window::of(&cx.model, config).filter(|it| used(newest) >= it.usable) else {
            return Ok(());
        };
        let is_behind_summary = state.history.iter().any(is_usable_summary);
        let oldest = answers(&state.history).last().unwrap_or(newest);
        if is_behind_summary && used(oldest) >= window.usable {
            return if used(newest) < window.whole { Ok(()) } else { Err(full(&cx.model, None)) };
        }
        self.ends_turn = compact(cx, state, None).await? == Next::Ends;
        Ok(())
    }

    /// Compacts after the provider refused a request as too large, or ends the turn when that does not help.
    pub async fn after_refusal(
        &mut self,
        cx: &TurnCx<'_>,
        state: &mut SessionState,
    ) -> Result<(), EngineError> {
        let said = state.answer_mut().and_then(|answer| match &answer.error {
            Some(MessageError::ContextOverflowError { message, .. }) => Some(message.clone()),
            _other => None,
        });
        let said = said.unwrap_or_default();
        if !window::is_automatic(&cx.loaded.config) {
            let error = EngineError::from(&ProviderError::Overflow { message: said });
            return Err(give_up(cx, state, error).await?);
        }
        if self.is_made {
            let error = full(&cx.model, Some(&said));
            return Err(give_up(cx, state, error).await?);
        }
        self.is_made = true;
        self.ends_turn = compact(cx, state, Some(&said)).await? == Next::Ends;
        Ok(())
    }
}

/// Returns the answers since the last summary, the newest first.
fn answers(history: &[MessageWithParts]) -> impl Iterator<Item = &AssistantMessage> {
    let messages = history.iter().rev().take_while(|message| !is_usable_summary(message));
    messages.filter_map(|message| match &message.info {
        Message::Assistant(answer) if !is_summary(message) && answer.error.is_none() && used(answer) > 0 => {
            Some(&**answer)
        }
        Message::Assistant(_) | Message::User(_) => None,
    })
}

/// Returns the tokens that an answer and the request for it took.
fn used(answer: &AssistantMessage) -> u64 {
    let tokens = &answer.tokens;
    tokens.total.unwrap_or_else(|| tokens.context() + tokens.output + tokens.reasoning)
}

fn is_of(answer: &AssistantMessage, model: &Model) -> bool {
    answer.provider_id == model.provider_id && answer.model_id == model.id
}

/// Course of the turn behind a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoesOn,
    Ends,
}

/// Has the conversation summarised and leaves a message for the model to answer; `refusal` holds the provider's words
/// when it refused the request.
async fn compact(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    refusal: Option<&str>,
) -> Result<Next, EngineError> {
    let author = Author::of(cx)?;
    let unanswered = unanswered(&state.history);
    let plan = divide(cx, state, &author, unanswered, refusal.is_some());
    let Some(plan) = plan else {
        let Some(said) = refusal else { return Ok(Next::GoesOn) };
        let error = too_large(&cx.model, said);
        return Err(give_up(cx, state, error).await?);
    };
    let next = unanswered.map(|message| replay(&message.parts)).filter(|parts| !parts.is_empty());
    let next = next.unwrap_or_else(|| vec![text_part(GO_ON.to_owned(), true, false)]);
    let tail_start_id = plan.tail_start.clone();
    let is_tail_kept = tail_start_id.is_some();
    let overflow = refusal.map(|_| true);
    let mut journal = Journal::default();
    cx.push_prompt(state, &mut journal);
    state.push_part(PartKind::Compaction { auto: true, overflow, tail_start_id }, &mut journal);
    cx.commit(&mut journal).await?;

    let stop = compact::write(cx, state, author, plan).await?;
    if let Some(tokens) = state.answer_mut().map(|summary| summary.tokens) {
        state.turn.child_tokens.add(&tokens);
    }
    if stop == StopReason::Cancelled {
        return Ok(Next::GoesOn);
    }
    if !state.history.last().is_some_and(is_usable_summary) {
        return Err(full(&cx.model, refusal));
    }
    if !hooks::message::goes_on(cx, state, refusal.is_some()).await? {
        return Ok(Next::Ends);
    }
    if is_tail_kept {
        return Ok(Next::GoesOn);
    }
    cx.push_prompt(state, &mut journal);
    for kind in next {
        state.push_part(kind, &mut journal);
    }
    cx.commit(&mut journal).await?;
    Ok(Next::GoesOn)
}

/// Divides the conversation. A prompt that is said again behind the summary is no part of it.
fn divide(
    cx: &TurnCx<'_>,
    state: &SessionState,
    author: &Author,
    unanswered: Option<&MessageWithParts>,
    is_refused: bool,
) -> Option<Plan> {
    let seen = visible(&state.history);
    if !is_refused {
        let settings = Settings::new(cx, author).keeping_newest(unanswered.is_some());
        let plan = compact::plan(&seen, &settings, "").filter(|plan| plan.tail_start.is_some());
        if plan.is_some() {
            return plan;
        }
    }
    let settings = Settings::new(cx, author).without_tail();
    let Some(prompt) = unanswered else { return compact::plan(&seen, &settings, "") };
    let is_before = |message: &&MessageWithParts| message.info.id() < prompt.info.id();
    let before: Vec<&MessageWithParts> = seen.iter().copied().filter(is_before).collect();
    // A prompt alone becomes smaller only by the parts that are left out of it.
    let whole = || has_media(prompt).then(|| compact::plan(&seen, &settings, "")).flatten();
    compact::plan(&before, &settings, "").or_else(whole)
}

/// Returns the newest prompt, if nothing answers it.
fn unanswered(history: &[MessageWithParts]) -> Option<&MessageWithParts> {
    for message in history.iter().rev() {
        match &message.info {
            Message::User(_)
                if revert::has_model_content(&message.parts) && compaction(message).is_none() =>
            {
                return Some(message);
            }
            Message::Assistant(answer) if answer.error.is_none() && !is_summary(message) => return None,
            Message::User(_) | Message::Assistant(_) => {}
        }
    }
    None
}

fn has_media(message: &MessageWithParts) -> bool {
    message.parts.iter().any(|part| left_out(part).is_some())
}

/// Makes the parts of a prompt that is said again: its texts, and a line for each attachment.
fn replay(parts: &[Part]) -> Vec<PartKind> {
    let text = |part: &Part| match &part.kind {
        PartKind::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
            Some(text.text.clone())
        }
        _other => left_out(part),
    };
    parts.iter().filter_map(text).map(|text| text_part(text, true, false)).collect()
}

/// Returns the line that takes the place of a picture or a document.
fn left_out(part: &Part) -> Option<String> {
    let PartKind::File(file) = &part.kind else { return None };
    let is_media = mime::is_media(&file.mime);
    let name = file.filename.as_deref().unwrap_or("without a name");
    is_media.then(|| format!("[The attachment {name} ({}) was left out to make room.]", file.mime))
}

/// Stores the reason in the refused answer, if there is one, and returns it.
async fn give_up(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    error: EngineError,
) -> Result<EngineError, EngineError> {
    let Some(answer) = state.answer_mut() else { return Ok(error) };
    let message = error.message.clone();
    answer.error = Some(MessageError::ContextOverflowError { message, response_body: None });
    let mut journal = Journal::default();
    state.touch_answer(&mut journal);
    cx.commit(&mut journal).await?;
    Ok(error)
}

fn full(model: &Model, said: Option<&str>) -> EngineError {
    let reason = format!(
        "The context of {} is full, and a summary of the conversation did not make enough room. {WAYS_OUT}",
        model.reference()
    );
    overflow(reason, said)
}

fn too_large(model: &Model, said: &str) -> EngineError {
    let reason = format!(
        "The prompt does not fit the context of {}, and there is nothing before it to summarise. Shorten the prompt, \
         choose a model with a larger context, or send fewer attachments and MCP tools.",
        model.reference()
    );
    overflow(reason, Some(said))
}

fn overflow(reason: String, said: Option<&str>) -> EngineError {
    let said = said.map(|said| format!(" The provider said: {said}"));
    EngineError::new(EngineErrorKind::ContextOverflow, format!("{reason}{}", said.unwrap_or_default()))
}
