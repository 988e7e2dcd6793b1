//! Undo and redo of prompts: the undone part is hidden at once and removed by the next prompt (facts: OpenCode §1.6).

use std::collections::{BTreeSet, HashSet};

use windlass_base::text;
use windlass_protocol::opencode::{
    id::{MessageId, PartId},
    message::{Message, MessageWithParts},
    part::{Part, PartKind, ToolState},
    session::{Revert, Session},
    tool_metadata::{Changes, decode},
};

use super::{
    context::SessionCx,
    open_step::OpenStep,
    request::RevertTo,
    state::{Journal, SessionState},
};
use crate::{EngineError, EngineErrorKind};

/// Effect of undo or redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The prompt that was taken out or put back, as the user wrote it.
    pub prompt: String,
    /// Files that its answers changed.
    pub files: Vec<String>,
    /// Those of them with earlier contents that no snapshot holds.
    pub unsaved: BTreeSet<String>,
    /// A step was interrupted, and which files it changed is not known.
    pub has_open_step: bool,
    /// Prompts that are still taken out.
    pub n_undone: usize,
}

/// Changes which messages are undone; `None` when it stays as it is.
pub fn change(state: &mut SessionState, to: &RevertTo) -> Result<Option<Changed>, EngineError> {
    let before = state.info.revert.clone();
    let revert = match to {
        RevertTo::Nothing if before.is_none() => return Ok(None),
        RevertTo::Nothing => None,
        RevertTo::Prompts(n_prompts) => match prompt_before(state, *n_prompts) {
            Some(message_id) => Some((message_id, None)),
            None => return Ok(None),
        },
        RevertTo::Message { message_id, part_id } => {
            Some(point(&state.history, message_id, part_id.as_ref())?)
        }
    };
    Ok(Some(set(state, revert)))
}

/// Puts the first undone prompt back, with its answers; `None` when nothing is undone.
pub fn redo(state: &mut SessionState) -> Option<Changed> {
    let undone = state.info.revert.as_ref()?.message_id.clone();
    let mut prompts = state.history.iter().filter(|message| is_prompt(message)).map(|it| it.info.id());
    let next = prompts.find(|next| **next > undone).cloned();
    Some(set(state, next.map(|next| (next, None))))
}

/// Returns the prompt that is the `n_prompts`th before the undone part; the first one where there are not so many.
fn prompt_before(state: &SessionState, n_prompts: usize) -> Option<MessageId> {
    let undone = state.info.revert.as_ref().map(|revert| &revert.message_id);
    let prompts = state.history.iter().filter(|message| is_prompt(message)).map(|it| it.info.id());
    let mut prompts = prompts.rev().filter(|id| undone.is_none_or(|undone| *id < undone)).take(n_prompts);
    let mut last = prompts.next()?;
    for earlier in prompts {
        last = earlier;
    }
    Some(last.clone())
}

/// Returns the message and part from which on something is undone. A part behind nothing that says anything means its
/// message, and an answer its prompt, as in OpenCode.
fn point(
    history: &[MessageWithParts],
    message_id: &MessageId,
    part_id: Option<&PartId>,
) -> Result<(MessageId, Option<PartId>), EngineError> {
    let unknown = |thing: String| {
        EngineError::new(EngineErrorKind::MessageNotFound, format!("the session has no {thing}"))
    };
    let message = history.iter().find(|message| message.info.id() == message_id);
    let message = message.ok_or_else(|| unknown(format!("message {message_id}")))?;
    if let Some(part_id) = part_id {
        let part_idx = message.parts.iter().position(|part| part.id == *part_id);
        let part_idx =
            part_idx.ok_or_else(|| unknown(format!("part {part_id} in the message {message_id}")))?;
        let is_useful = |part: &Part| matches!(part.kind, PartKind::Text(_) | PartKind::Tool(_));
        if message.parts[..part_idx].iter().any(is_useful) {
            return Ok((message_id.clone(), Some(part_id.clone())));
        }
    }
    let mut until = history.iter().filter(|message| message.info.id() <= message_id);
    let prompt = until.rfind(|message| matches!(message.info, Message::User(_)));
    Ok((prompt.unwrap_or(message).info.id().clone(), None))
}

fn set(state: &mut SessionState, point: Option<(MessageId, Option<PartId>)>) -> Changed {
    let before = state.info.revert.take();
    let revert = |(message_id, part_id)| Revert { message_id, part_id, snapshot: None, diff: None };
    state.info.revert = point.map(revert);
    changed(state, before.as_ref())
}

/// The place of a part: its message, and its index there.
pub type PartPosition = (MessageId, usize);

/// Returns the place from which on a conversation is undone.
pub fn position(revert: &Revert, history: &[MessageWithParts]) -> PartPosition {
    let part_idx = revert.part_id.as_ref().map_or(0, |part_id| {
        let message = history.iter().find(|message| *message.info.id() == revert.message_id);
        let part_idx = message.and_then(|it| it.parts.iter().position(|part| part.id == *part_id));
        part_idx.unwrap_or(usize::MAX)
    });
    (revert.message_id.clone(), part_idx)
}

/// Removes the undone part for good, because the conversation goes on without it.
pub async fn settle(cx: &SessionCx, state: &mut SessionState) -> Result<(), EngineError> {
    let Some(revert) = state.info.revert.take() else { return Ok(()) };
    let (cut, part_idx) = position(&revert, &state.history);
    let hidden: HashSet<MessageId> = hidden(&revert, &state.history).cloned().collect();
    let mut journal = Journal::default();
    journal.session(&state.info);
    let messages = state.history.iter().filter(|message| hidden.contains(message.info.id()));
    let mut since = messages.map(|message| created(&message.info)).min();
    let cut_idx = state.history.iter().position(|message| *message.info.id() == cut);
    if let Some(cut_idx) = cut_idx.filter(|_| revert.part_id.is_some())
        && let Some(message) = state.history.older_mut(cut_idx)
    {
        for part in message.parts.drain(part_idx.min(message.parts.len())..) {
            since = since.into_iter().chain(begun(&part)).min();
            journal.remove_part(&part);
        }
    }
    if let Some(since) = since {
        // The model no longer knows files that were read or written in removed messages.
        journal.forget_noted_files(&state.info, &state.known_files, since);
    }
    for id in &hidden {
        journal.remove(&state.info, id);
    }
    state.history.remove(&hidden);
    cx.commit(&mut journal).await
}

/// Returns a conversation without its undone messages.
pub fn without_undone(info: &Session, mut messages: Vec<MessageWithParts>) -> Vec<MessageWithParts> {
    let Some(revert) = &info.revert else { return messages };
    let (cut, part_idx) = position(revert, &messages);
    let hidden: HashSet<MessageId> = hidden(revert, &messages).cloned().collect();
    messages.retain(|message| !hidden.contains(message.info.id()));
    if revert.part_id.is_some() {
        let cut = messages.iter_mut().find(|message| *message.info.id() == cut);
        cut.into_iter().for_each(|message| message.parts.truncate(part_idx));
    }
    messages
}

/// Returns the time at which a message began, in milliseconds since the epoch.
pub fn created(message: &Message) -> i64 {
    match message {
        Message::User(user) => user.time.created,
        Message::Assistant(answer) => answer.time.created,
    }
}

/// Returns the time at which a call began.
fn begun(part: &Part) -> Option<i64> {
    let PartKind::Tool(tool) = &part.kind else { return None };
    match &tool.state {
        ToolState::Pending { .. } => None,
        ToolState::Running { time, .. } => Some(time.start),
        ToolState::Completed { time, .. } | ToolState::Error { time, .. } => Some(time.start),
    }
}

/// Returns true if a message never reaches the model: a command that the daemon answered, or its answer.
pub fn is_local_only(message: &MessageWithParts, history: &[MessageWithParts]) -> bool {
    match &message.info {
        Message::User(_) => !has_model_content(&message.parts),
        Message::Assistant(answer) => {
            let asked = history.iter().rfind(|it| *it.info.id() == answer.parent_id);
            asked.is_some_and(|asked| !has_model_content(&asked.parts))
        }
    }
}

/// Returns true if a user's message has content for the model.
pub fn has_model_content(parts: &[Part]) -> bool {
    parts.iter().any(|part| match &part.kind {
        PartKind::Text(text) => text.ignored != Some(true) && !text.text.is_empty(),
        PartKind::File(_)
        | PartKind::Compaction { .. }
        | PartKind::Subtask { .. }
        | PartKind::Agent { .. } => true,
        PartKind::Reasoning(_)
        | PartKind::Tool(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Retry { .. } => false,
    })
}

/// Returns the messages of which everything is undone.
fn hidden<'a>(
    revert: &Revert,
    history: &'a [MessageWithParts],
) -> impl Iterator<Item = &'a MessageId> + use<'a> {
    let (from, is_whole) = (revert.message_id.clone(), revert.part_id.is_none());
    let is_undone = move |id: &MessageId| *id > from || (is_whole && *id == from);
    let undone = history.iter().filter(move |it| is_undone(it.info.id()));
    undone.filter(|message| !is_local_only(message, history)).map(|message| message.info.id())
}

/// Returns true if the user wrote the message, rather than the daemon in the user's place.
pub fn is_prompt(message: &MessageWithParts) -> bool {
    let is_users = matches!(message.info, Message::User(_)) && has_model_content(&message.parts);
    is_users
        && message.parts.iter().any(|part| match &part.kind {
            PartKind::Text(text) => text.synthetic != Some(true),
            PartKind::Compaction { auto, .. } => !auto,
            PartKind::File(_) | PartKind::Subtask { .. } => true,
            PartKind::Agent { .. }
            | PartKind::Reasoning(_)
            | PartKind::Tool(_)
            | PartKind::StepStart { .. }
            | PartKind::StepFinish { .. }
            | PartKind::Snapshot { .. }
            | PartKind::Patch { .. }
            | PartKind::Retry { .. } => false,
        })
}

/// Returns the prompt and the files of the part between an earlier undo and the present one.
fn changed(state: &SessionState, before: Option<&Revert>) -> Changed {
    let history = &state.history;
    let now = state.info.revert.as_ref();
    let mut bounds: Vec<PartPosition> =
        before.into_iter().chain(now).map(|revert| position(revert, history)).collect();
    bounds.sort();
    let mut bounds = bounds.into_iter();
    let (from, to) = (bounds.next(), bounds.next());
    let is_between = |at: &PartPosition| {
        from.as_ref().is_none_or(|from| at >= from) && to.as_ref().is_none_or(|to| at < to)
    };
    let mut first = None;
    let mut parts = Vec::new();
    let mut has_open_step = false;
    for message in history.iter() {
        for (part_idx, part) in message.parts.iter().enumerate() {
            if is_between(&(message.info.id().clone(), part_idx)) {
                first = first.or(Some(message));
                parts.push(part);
            }
        }
        has_open_step |= first.is_some()
            && is_between(&(message.info.id().clone(), message.parts.len()))
            && OpenStep::of(message).is_some();
    }
    let asked = first.and_then(|first| match &first.info {
        Message::User(_) => Some(first),
        Message::Assistant(answer) => history.iter().find(|it| *it.info.id() == answer.parent_id),
    });
    let words = asked.into_iter().flat_map(|message| &message.parts).filter_map(|part| match &part.kind {
        PartKind::Text(text) => (text.synthetic != Some(true)).then_some(text.text.as_str()),
        PartKind::File(_)
        | PartKind::Compaction { .. }
        | PartKind::Subtask { .. }
        | PartKind::Agent { .. }
        | PartKind::Reasoning(_)
        | PartKind::Tool(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Retry { .. } => None,
    });
    let prompt = words.collect::<Vec<_>>().join(" ");
    let line = prompt.lines().next().unwrap_or_default();
    let mut files: Vec<String> = parts.iter().flat_map(|part| changed_files(part)).collect();
    let (mut saved, mut unsaved) = (HashSet::new(), BTreeSet::new());
    for part in &parts {
        if let PartKind::Patch { hash: _, files, left_out } = &part.kind {
            saved.extend(files);
            unsaved.extend(left_out.iter().cloned());
        }
    }
    files.extend(unsaved.iter().cloned());
    files.sort();
    files.dedup();
    unsaved.extend(files.iter().filter(|file| !saved.contains(file)).cloned());
    let is_undone = |id: &MessageId| now.is_some_and(|now| *id >= now.message_id);
    let n_undone = history.iter().filter(|it| is_prompt(it) && is_undone(it.info.id())).count();
    Changed { prompt: text::head(line, 200).to_owned(), files, unsaved, has_open_step, n_undone }
}

/// Returns the files that a finished call says it changed.
fn changed_files(part: &Part) -> Vec<String> {
    let PartKind::Tool(tool) = &part.kind else { return Vec::new() };
    let ToolState::Completed { metadata, .. } = &tool.state else { return Vec::new() };
    let Changes { filediff, files, .. } = decode(metadata).unwrap_or_default();
    let several = files.iter().flatten().map(|file| file.file_path);
    filediff.iter().map(|it| it.file).chain(several).map(str::to_owned).collect()
}
