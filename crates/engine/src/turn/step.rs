//! One step: one model call, retried until it says something, and the tools it asked for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_base::{clock, ids, lock::lock, log, money};
use windlass_protocol::opencode::{
    api_error::ApiError,
    id::MessageId,
    message::{AssistantMessage, AssistantTime, Message, MessageError, MessagePath, MessageWithParts},
    part::{Part, PartKind, ToolPart, ToolState},
    session::SessionStatus,
    time::CreatedTime,
    tokens::{CacheTokens, Tokens},
};
use windlass_provider::{self as provider, Finish, Model, Prompt, ProviderError, Usage, cost, retry};

use super::{
    answer::{Answer, Call},
    calls::CallsEnd,
    file_snapshots::{Before, begin_after, begin_before, run_calls},
    hooks, prompt,
    toolbox::Toolbox,
};
use crate::{
    EngineError, EngineErrorKind,
    session::{
        context::TurnCx,
        request::StopReason,
        state::{Journal, SessionState, text_part},
        structured,
    },
};

const MIB: usize = 1 << 20;

/// End of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The model wants to see the results of its tools.
    ToolsRan,
    /// The model is done.
    Finished(Finish),
    /// The model gave its answer in the form that was asked for.
    Answered,
    /// The provider refused the request as too large, before it said anything.
    Overflow,
    /// The user refused a tool call; the turn stops.
    Rejected,
    /// The turn was cancelled.
    Interrupted,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::ToolsRan => "tool-calls",
            Self::Finished(finish) => finish.name(),
            Self::Answered => "answered",
            Self::Overflow => "overflow",
            Self::Rejected => "rejected",
            Self::Interrupted => "cancelled",
        }
    }
}

/// The error of a call in an answer that broke off.
const CALL_BROKEN_OFF: &str = "The answer broke off before this call was complete; it was not run.";

/// End of the model's answer.
enum Received {
    Whole(Answer),
    Interrupted,
    Failed { error: ProviderError, has_text: bool },
}

/// Runs one step. With `is_last` the model gets no tools and has to sum up.
pub async fn run(cx: &TurnCx<'_>, state: &mut SessionState, is_last: bool) -> Result<Step, EngineError> {
    let began = Instant::now();
    let ended = run_inner(cx, state, is_last).await;
    let end = match &ended {
        Ok(step) => step.name(),
        Err(_) => "failed",
    };
    let model = format!("{}/{}", cx.model.provider_id, cx.model.id);
    let tokens = state.answer_mut().and_then(|answer| answer.tokens.total);
    let duration = log::duration(began);
    tracing::info!(session = %cx.session.id, agent = cx.agent.name, model, end, tokens, duration, "a step ended");
    ended
}

async fn run_inner(cx: &TurnCx<'_>, state: &mut SessionState, is_last: bool) -> Result<Step, EngineError> {
    let mut toolbox = Toolbox::new(cx, state);
    begin(cx, state, None).await?;
    if let Err(error) = hooks::define_tools(cx, &mut toolbox).await {
        fail(cx, state, &error).await?;
        return Err(EngineError::from(&error));
    }
    let request = Request::Step { toolbox: &toolbox, is_last };
    let mut before = None;
    let answer = match receive(cx, state, &request, &mut before).await? {
        Received::Whole(answer) => answer,
        Received::Interrupted => {
            interrupt(cx, state).await?;
            return Ok(Step::Interrupted);
        }
        Received::Failed { error, has_text } => {
            fail(cx, state, &error).await?;
            if matches!(error, ProviderError::Overflow { .. }) && !has_text {
                return Ok(Step::Overflow);
            }
            return Err(EngineError::from(&error));
        }
    };
    if let Some(error) = emptiness(cx, state, &answer) {
        fail(cx, state, &error).await?;
        return Err(EngineError::from(&error));
    }
    finish_texts(cx, state).await?;
    let finish = match answer.finish {
        // Some servers announce calls and make none.
        Some(Finish::ToolCalls) | None if answer.calls.is_empty() => Finish::Stop,
        Some(finish) => finish,
        None => Finish::ToolCalls,
    };
    begin_before(cx, state, &answer.calls, &mut before);
    let calls_end = run_calls(cx, state, &toolbox, answer.calls, before).await?;
    if calls_end == CallsEnd::Interrupted {
        interrupt(cx, state).await?;
        return Ok(Step::Interrupted);
    }
    let is_answered = cx.structured.is_some() && set_structured(state);
    end(cx, state, finish, answer.usage).await?;
    if is_answered {
        return Ok(Step::Answered);
    }
    match calls_end {
        CallsEnd::None => Ok(Step::Finished(finish)),
        CallsEnd::Ran => Ok(Step::ToolsRan),
        CallsEnd::Rejected => Ok(Step::Rejected),
        CallsEnd::Interrupted => Ok(Step::Interrupted),
    }
}

/// Returns the error of an answer that says nothing. Behind the results of tools, saying nothing is an end, unless calls
/// were announced that never came.
fn emptiness(cx: &TurnCx<'_>, state: &SessionState, answer: &Answer) -> Option<ProviderError> {
    let lacks_calls = answer.finish == Some(Finish::ToolCalls);
    let has_ended = lacks_calls || matches!(answer.finish, None | Some(Finish::Stop | Finish::Unknown));
    let history: &[MessageWithParts] = &state.history;
    let [.., before, newest] = history else { return None };
    let is_first = matches!(before.info, Message::User(_));
    let says = |part: &Part| match &part.kind {
        PartKind::Text(text) => !text.text.trim().is_empty(),
        PartKind::Reasoning(reasoning) => !reasoning.text.trim().is_empty(),
        PartKind::Tool(_) => true,
        _ => false,
    };
    let mut parts = newest.parts.iter().rev().take_while(|part| !matches!(part.kind, PartKind::Retry { .. }));
    let is_due = is_first || lacks_calls;
    if !has_ended || !is_due || !answer.calls.is_empty() || parts.any(says) {
        return None;
    }
    let Model { provider_name, id, .. } = &cx.model;
    let message = format!("{provider_name}, {id}: the answer is empty; prompt again, or use another model");
    Some(ProviderError::Overloaded { message, status: None, after: None })
}

/// Runs calls, each a tool's name and its input, in an answer of their own, which no model gave.
pub async fn calls(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    toolbox: &Toolbox,
    wanted: Vec<(String, Value)>,
) -> Result<CallsEnd, EngineError> {
    begin(cx, state, None).await?;
    let before = Before::begin(cx, state);
    let mut journal = Journal::default();
    let mut calls = Vec::new();
    for (tool, input) in wanted {
        let call_id = format!("call_{}", ids::random(24));
        let tool_part = ToolPart {
            call_id: call_id.clone(),
            tool: tool.clone(),
            state: ToolState::Pending { input: json!({}), raw: String::new() },
            metadata: None,
        };
        let part = state.push_part(PartKind::Tool(Box::new(tool_part)), &mut journal);
        calls.push(Call { part, call_id, tool, raw: input.to_string() });
    }
    cx.commit(&mut journal).await?;
    let calls_end = run_calls(cx, state, toolbox, calls, before).await?;
    if calls_end == CallsEnd::Interrupted {
        interrupt(cx, state).await?;
    } else {
        end(cx, state, Finish::ToolCalls, Usage::default()).await?;
    }
    Ok(calls_end)
}

/// Notes the answer that the model has given as data in its message; false if it has not.
fn set_structured(state: &mut SessionState) -> bool {
    let accepted = state.history.last().and_then(|message| structured::accepted(&message.parts)).cloned();
    let is_answered = accepted.is_some();
    if let Some(answer) = state.answer_mut() {
        answer.structured = accepted;
    }
    is_answered
}

/// Has a compaction's summary written.
pub async fn summarise(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    prompt: &Prompt<'_>,
) -> Result<StopReason, EngineError> {
    begin(cx, state, Some(true)).await?;
    match receive(cx, state, &Request::Given(prompt), &mut None).await? {
        Received::Whole(answer) => {
            // It was given no tools; a call that it makes all the same is not run.
            let mut journal = Journal::default();
            state.close_parts(&mut journal);
            cx.commit(&mut journal).await?;
            finish_texts(cx, state).await?;
            end(cx, state, answer.finish.unwrap_or(Finish::Stop), answer.usage).await?;
            Ok(StopReason::EndTurn)
        }
        Received::Interrupted => {
            interrupt(cx, state).await?;
            Ok(StopReason::Cancelled)
        }
        Received::Failed { error: ProviderError::Overflow { message }, .. } => {
            let message = format!(
                "The conversation is too large to compact. Begin a new session, or choose a model with a larger \
                 context. The provider said: {message}"
            );
            fail(cx, state, &ProviderError::Overflow { message: message.clone() }).await?;
            Err(EngineError::new(EngineErrorKind::ContextOverflow, message))
        }
        Received::Failed { error, .. } => {
            fail(cx, state, &error).await?;
            Err(EngineError::from(&error))
        }
    }
}

/// Lets plugins change the answer's texts; a plugin that fails ends it, and the texts stay.
async fn finish_texts(cx: &TurnCx<'_>, state: &mut SessionState) -> Result<(), EngineError> {
    let Err(error) = hooks::message::change_texts(cx, state).await else { return Ok(()) };
    close_with(cx, state, MessageError::UnknownError { message: error.message.clone() }).await?;
    Err(error)
}

/// Request to the model.
enum Request<'a> {
    /// The next step of the conversation.
    Step {
        toolbox: &'a Toolbox,
        is_last: bool,
    },
    Given(&'a Prompt<'a>),
}

/// Opens the model's message, with `summary` that of a compaction.
pub async fn begin(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    summary: Option<bool>,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    let message = message(cx, state, summary);
    state.push_message(Message::Assistant(Box::new(message)), &mut journal);
    state.push_part(PartKind::StepStart { snapshot: None }, &mut journal);
    cx.commit_ahead(&mut journal).await
}

/// Returns an empty answer to the newest prompt.
pub fn message(cx: &TurnCx<'_>, state: &SessionState, summary: Option<bool>) -> AssistantMessage {
    AssistantMessage {
        id: ids::message(),
        session_id: state.info.id.clone(),
        parent_id: last_user(state),
        model_id: cx.model.id.clone(),
        provider_id: cx.model.provider_id.clone(),
        variant: cx.variant.clone(),
        agent: cx.agent.name.clone(),
        mode: cx.agent.name.clone(),
        path: MessagePath {
            cwd: cx.loaded.config.directory.display().to_string(),
            root: cx.loaded.config.worktree.display().to_string(),
        },
        time: AssistantTime { created: clock::now_ms(), completed: None },
        cost: 0.0,
        tokens: Tokens::default(),
        finish: None,
        error: None,
        summary,
        structured: None,
    }
}

fn last_user(state: &SessionState) -> MessageId {
    let last = state.history.iter().rev().find_map(|message| match &message.info {
        Message::User(user) => Some(user.id.clone()),
        Message::Assistant(_) => None,
    });
    // A turn begins with a user message, so there always is one.
    last.unwrap_or_else(ids::message)
}

/// Asks the model until it answers, fails for good, or the turn is cancelled.
async fn receive(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    request: &Request<'_>,
    before: &mut Option<Before>,
) -> Result<Received, EngineError> {
    let mut attempt = 0;
    lock(&state.refused_media).begin();
    loop {
        let mut answer = Answer::new(cx.loaded.config.max_answer_bytes);
        let n_parts = state.history.last().map_or(0, |message| message.parts.len());
        match attempt_once(cx, state, request, &mut answer, before).await? {
            Ok(Some(())) => {
                lock(&state.refused_media).confirm();
                return Ok(Received::Whole(answer));
            }
            Ok(None) => return Ok(Received::Interrupted),
            Err(error) if lock(&state.refused_media).suspect(&error) => {}
            Err(error) => {
                attempt += 1;
                let may_retry = error.is_retryable() && !answer.has_text && attempt <= error.max_retries();
                if !may_retry {
                    let error = lock(&state.refused_media).acquit(error);
                    return Ok(Received::Failed { error, has_text: answer.has_text });
                }
                let delay = retry::delay(attempt, error.retry_after(), ids::fraction());
                let pause = format!("{delay:.1?}");
                tracing::info!(%error, attempt, pause, "asking the provider again");
                give_up_attempt(cx, state, n_parts, attempt, &error).await?;
                if !wait(cx, state, attempt, &error, delay).await? {
                    return Ok(Received::Interrupted);
                }
            }
        }
    }
}

/// Parts the content that a failed attempt has shown beyond the first `n_parts` from the next one: it stays, but no
/// model reads it again.
async fn give_up_attempt(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    n_parts: usize,
    attempt: u32,
    error: &ProviderError,
) -> Result<(), EngineError> {
    if state.history.last().is_none_or(|message| message.parts.len() <= n_parts) {
        return Ok(());
    }
    let mut journal = Journal::default();
    state.close_parts_with(CALL_BROKEN_OFF, &mut journal);
    let message = error.to_string();
    let error = ApiError { message, is_retryable: true, ..ApiError::default() };
    let time = CreatedTime { created: clock::now_ms() };
    state.push_part(PartKind::Retry { attempt, error, time }, &mut journal);
    cx.commit(&mut journal).await
}

/// Sends one request. `None` when the turn was cancelled.
async fn attempt_once(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    request: &Request<'_>,
    answer: &mut Answer,
    before: &mut Option<Before>,
) -> Result<Result<Option<()>, ProviderError>, EngineError> {
    let opened = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Ok(Ok(None)),
        opened = open(cx, state, request) => opened,
    };
    let mut stream = match opened {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(error)),
    };
    let mut deltas = Vec::new();
    loop {
        let next = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Ok(Ok(None)),
            next = stream.next(&mut deltas) => next,
        };
        let mut journal = Journal::default();
        // Deltas before a failure were received all the same.
        answer.apply(&mut deltas, state, &mut journal);
        let is_done = !matches!(next, Ok(true)) || answer.is_cut;
        if is_done {
            answer.end_all(state, &mut journal);
        }
        if answer.is_cut {
            cut_off(cx, state, answer, &mut journal);
            cx.commit(&mut journal).await?;
            return Ok(Ok(Some(())));
        }
        if is_done {
            cx.commit(&mut journal).await?;
        } else {
            // The model goes on meanwhile.
            cx.commit_ahead(&mut journal).await?;
        }
        begin_before(cx, state, &answer.calls, before);
        match next {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(Some(()))),
            Err(error) => return Ok(Err(error)),
        }
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Ok(Ok(None)),
            () = cx.session.engine.bus().room(&cx.session.id) => {}
        }
    }
}

/// Puts the request together, lets plugins change it, and sends it.
async fn open(
    cx: &TurnCx<'_>,
    state: &SessionState,
    request: &Request<'_>,
) -> Result<provider::Stream, ProviderError> {
    let http = cx.session.engine.http();
    let changed;
    let mut prompt = match request {
        Request::Given(prompt) => Prompt::clone(prompt),
        Request::Step { toolbox, is_last } => {
            changed = hooks::change_messages(cx, state).await?;
            prompt::of_step(cx, changed.as_ref().unwrap_or(state), toolbox, *is_last)
        }
    };
    if let Some(origin) = hooks::Origin::of(cx, state) {
        hooks::change_request(&origin, &mut prompt).await?;
    }
    lock(&state.refused_media).leave_out(&mut prompt);
    #[cfg(test)]
    crate::tests::panic_if_asked(&prompt);
    let model = cx.session.engine.asked_by(&cx.session.id, &cx.model);
    provider::stream(http, &model, &prompt).await
}

/// Ends an answer that is larger than allowed: nothing that it calls is run, and no model reads it again.
fn cut_off(cx: &TurnCx<'_>, state: &mut SessionState, answer: &mut Answer, journal: &mut Journal) {
    let limit = cx.loaded.config.max_answer_bytes;
    tracing::warn!(session = %cx.session.id, limit, "an answer was cut off");
    answer.calls.clear();
    answer.finish = Some(Finish::Length);
    state.close_parts(journal);
    let limit =
        if limit.is_multiple_of(MIB) { format!("{} MiB", limit / MIB) } else { format!("{limit} bytes") };
    let text = format!(
        "The answer was cut off: it is larger than {limit} (`windlass.max_answer_bytes`). The model will not see it \
         again; ask for less at a time."
    );
    state.push_part(text_part(text, false, true), journal);
    if let Some(message) = state.answer_mut() {
        message.error = Some(MessageError::MessageOutputLengthError {});
    }
}

/// Waits before the next attempt; false when the turn was cancelled meanwhile.
async fn wait(
    cx: &TurnCx<'_>,
    state: &SessionState,
    attempt: u32,
    error: &ProviderError,
    delay: Duration,
) -> Result<bool, EngineError> {
    let next = clock::now_ms() + i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
    let mut journal = Journal::default();
    let (message, limit) = (error.to_string(), Some(error.max_retries()));
    journal.status(&state.info, SessionStatus::Retry { attempt, message, next, limit });
    cx.commit(&mut journal).await?;
    tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return Ok(false),
        () = tokio::time::sleep(delay) => {}
    }
    journal.status(&state.info, SessionStatus::Busy);
    cx.commit(&mut journal).await?;
    Ok(true)
}

/// Closes the model's message: usage, cost, totals.
pub async fn end(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    finish: Finish,
    usage: Usage,
) -> Result<(), EngineError> {
    let tokens = tokens(usage);
    let cost = cost::of(&cx.model.cost, usage);
    let mut journal = Journal::default();
    let reason = finish.name().to_owned();
    state.push_part(
        PartKind::StepFinish { reason: reason.clone(), snapshot: None, cost, tokens },
        &mut journal,
    );
    if let Some(answer) = state.answer_mut() {
        answer.finish = Some(reason);
        answer.tokens = tokens;
        answer.cost = cost;
        answer.time.completed = Some(clock::now_ms());
        if finish == Finish::ContentFilter {
            let Model { provider_name, id, .. } = &cx.model;
            let message = format!(
                "{provider_name}, {id}: the provider refused to answer this prompt; reword it, or use another model."
            );
            answer.error = Some(MessageError::ContentFilterError { message });
        }
    }
    state.touch_answer(&mut journal);
    state.info.cost = money::sum(state.info.cost, cost);
    state.info.tokens.add(&tokens);
    state.touch();
    journal.session(&state.info);
    cx.commit(&mut journal).await?;
    begin_after(cx.session, state);
    Ok(())
}

/// Closes the model's message after the turn was cancelled.
pub async fn interrupt(cx: &TurnCx<'_>, state: &mut SessionState) -> Result<(), EngineError> {
    let message = "The turn was cancelled.".to_owned();
    close_with(cx, state, MessageError::MessageAbortedError { message }).await
}

async fn fail(cx: &TurnCx<'_>, state: &mut SessionState, error: &ProviderError) -> Result<(), EngineError> {
    let message = error.to_string();
    let may_retry = error.is_retryable();
    let error = match error {
        ProviderError::Auth { .. } => {
            MessageError::ProviderAuthError { provider_id: cx.model.provider_id.clone(), message }
        }
        ProviderError::Overflow { .. } => MessageError::ContextOverflowError { message, response_body: None },
        ProviderError::RateLimited { status, .. } => api_error(message, Some(*status), may_retry, None),
        ProviderError::Overloaded { status, .. } => api_error(message, *status, may_retry, None),
        ProviderError::Api { status, body, .. } => api_error(message, *status, may_retry, body.clone()),
        ProviderError::Transport { .. } | ProviderError::NotRunning { .. } | ProviderError::Silent { .. } => {
            api_error(message, None, may_retry, None)
        }
        ProviderError::Unsent { .. } => MessageError::UnknownError { message },
    };
    close_with(cx, state, error).await
}

fn api_error(
    message: String,
    status_code: Option<u16>,
    is_retryable: bool,
    response_body: Option<String>,
) -> MessageError {
    MessageError::Api(ApiError { message, status_code, is_retryable, response_body, ..ApiError::default() })
}

async fn close_with(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    error: MessageError,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    state.close_parts(&mut journal);
    if let Some(answer) = state.answer_mut() {
        answer.time.completed = Some(clock::now_ms());
        answer.error = Some(error);
    }
    state.touch_answer(&mut journal);
    state.touch();
    journal.session(&state.info);
    cx.commit(&mut journal).await
}

fn tokens(usage: Usage) -> Tokens {
    let sum = usage.input + usage.output + usage.reasoning + usage.cache_read + usage.cache_write;
    Tokens {
        total: Some(sum),
        input: usage.input,
        output: usage.output,
        reasoning: usage.reasoning,
        cache: CacheTokens { read: usage.cache_read, write: usage.cache_write },
    }
}
