//! Undo and redo of prompts: what is undone is hidden at once and removed by the next prompt (facts: OpenCode §1.6).

use std::collections::HashSet;

use windlass_protocol::opencode::{
    id::MessageId,
    message::{Message, MessageWithParts},
    part::{Part, PartKind, ToolState},
    session::{Revert, Session},
    tool_metadata::{Changes, decode},
};

use super::{
    context::SessionCx,
    state::{Journal, SessionState},
};
use crate::{base::text, engine::EngineError};

/// Effect of undo or redo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The prompt that was taken out or put back, as the user wrote it.
    pub prompt: String,
    /// Files that its answers changed.
    pub files: Vec<String>,
    /// Those of them that no snapshot shows as changed.
    pub unsaved: Vec<String>,
    /// Prompts that are still taken out.
    pub n_undone: usize,
}

/// Takes the last prompt that is not yet undone out, with everything behind it; `None` when there is none.
pub fn undo(state: &mut SessionState) -> Option<Changed> {
    let pending = state.info.revert.as_ref().map(|revert| revert.message_id.clone());
    let mut prompts =
        state.history.iter().filter(|message| is_prompt(message)).map(|it| it.info.id().clone());
    let id = prompts.rfind(|id| pending.as_ref().is_none_or(|pending| id < pending))?;
    state.info.revert = Some(Revert { message_id: id.clone(), part_id: None, snapshot: None, diff: None });
    Some(changed(state, &id, pending.as_ref()))
}

/// Puts the first undone prompt back, with its answers; `None` when nothing is undone.
pub fn redo(state: &mut SessionState) -> Option<Changed> {
    let id = state.info.revert.take()?.message_id;
    let mut prompts =
        state.history.iter().filter(|message| is_prompt(message)).map(|it| it.info.id().clone());
    let next = prompts.find(|next| *next > id);
    let revert = |next: MessageId| Revert { message_id: next, part_id: None, snapshot: None, diff: None };
    state.info.revert = next.clone().map(revert);
    Some(changed(state, &id, next.as_ref()))
}

/// Removes what is undone for good, because the conversation goes on without it.
pub async fn settle(cx: &SessionCx, state: &mut SessionState) -> Result<(), EngineError> {
    if state.info.revert.is_none() {
        return Ok(());
    }
    let hidden: HashSet<MessageId> = hidden(&state.info, &state.history).cloned().collect();
    let mut journal = Journal::default();
    state.info.revert = None;
    journal.session(&state.info);
    let since = state.history.iter().find(|message| hidden.contains(message.info.id()));
    if let Some(since) = since.map(|message| created(&message.info)) {
        // The model no longer knows files that were read or written in removed messages.
        journal.forget_noted_files(&state.info, &state.known_files, since);
    }
    for id in &hidden {
        journal.remove(&state.info, id);
    }
    state.history.remove(&hidden);
    journal.commit(cx.engine.storage(), cx.engine.bus()).await
}

/// Returns a conversation without its undone messages.
pub fn without_undone(info: &Session, mut messages: Vec<MessageWithParts>) -> Vec<MessageWithParts> {
    let hidden: HashSet<MessageId> = hidden(info, &messages).cloned().collect();
    messages.retain(|message| !hidden.contains(message.info.id()));
    messages
}

/// Returns the time at which a message began, in milliseconds since the epoch.
pub fn created(message: &Message) -> i64 {
    match message {
        Message::User(user) => user.time.created,
        Message::Assistant(answer) => answer.time.created,
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

/// Returns the messages that are undone.
fn hidden<'a>(info: &Session, history: &'a [MessageWithParts]) -> impl Iterator<Item = &'a MessageId> {
    let from = info.revert.as_ref().map(|revert| revert.message_id.clone());
    let undone = history.iter().filter(move |it| from.as_ref().is_some_and(|from| it.info.id() >= from));
    undone.filter(|message| !is_local_only(message, history)).map(|message| message.info.id())
}

/// Returns true if the user wrote the message, rather than the daemon in the user's place.
pub fn is_prompt(message: &MessageWithParts) -> bool {
    let is_users = matches!(message.info, Message::User(_)) && has_model_content(&message.parts);
    is_users
        && message.parts.iter().any(|part| match &part.kind {
            PartKind::Text(text) => text.synthetic != Some(true),
            PartKind::Compaction { auto, .. } => !auto,
            kind => matches!(kind, PartKind::File(_) | PartKind::Subtask { .. }),
        })
}

/// Returns the prompt and the files of the messages from one prompt up to another.
fn changed(state: &SessionState, from: &MessageId, to: Option<&MessageId>) -> Changed {
    let messages = state.history.iter().filter(|message| {
        let id = message.info.id();
        id >= from && to.is_none_or(|to| id < to)
    });
    let messages: Vec<&MessageWithParts> = messages.collect();
    let words = messages.first().into_iter().flat_map(|message| &message.parts);
    let words = words.filter_map(|part| match &part.kind {
        PartKind::Text(text) if text.synthetic != Some(true) => Some(text.text.as_str()),
        _other => None,
    });
    let prompt = words.collect::<Vec<_>>().join(" ");
    let line = prompt.lines().next().unwrap_or_default();
    let mut files: Vec<String> = messages.iter().flat_map(|it| &it.parts).flat_map(changed_files).collect();
    files.sort();
    files.dedup();
    let patches = messages.iter().flat_map(|it| &it.parts).filter_map(|part| match &part.kind {
        PartKind::Patch { files, .. } => Some(files),
        _other => None,
    });
    let saved: HashSet<&String> = patches.flatten().collect();
    let unsaved = files.iter().filter(|file| !saved.contains(file)).cloned().collect();
    let undone = state.info.revert.as_ref().map(|revert| &revert.message_id);
    let n_undone =
        state.history.iter().filter(|it| is_prompt(it) && undone.is_some_and(|from| it.info.id() >= from));
    Changed { prompt: text::head(line, 200).to_owned(), files, unsaved, n_undone: n_undone.count() }
}

/// Returns the files that a finished call says it changed.
fn changed_files(part: &Part) -> Vec<String> {
    let PartKind::Tool(tool) = &part.kind else { return Vec::new() };
    let ToolState::Completed { metadata, .. } = &tool.state else { return Vec::new() };
    let Changes { filediff, files, .. } = decode(metadata).unwrap_or_default();
    let several = files.iter().flatten().map(|file| file.file_path);
    filediff.iter().map(|it| it.file).chain(several).map(str::to_owned).collect()
}
