//! Copies a conversation into a new session (facts: OpenCode §1.6).

use std::collections::HashMap;

use windlass_base::{clock, ids};
use windlass_core::storage::Write;
use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts},
    part::{Attachment, Part, PartKind, ToolState},
    permission::Rule,
    session::{Session, SessionTime, Todo},
    tokens::Tokens,
    tool_metadata::{Todos, decode},
};

use super::{
    parent_limits::{self, ParentLimits},
    revert,
    state::SessionState,
};
use crate::{Engine, EngineError, EngineErrorKind, Sessions, project, workspace::directory::Workspace};

impl Sessions<'_> {
    /// Copies a stored session, up to the message `before` if there is one; the session stays as it is.
    pub async fn fork(
        self,
        workspace: &Workspace,
        id: &SessionId,
        before: Option<&MessageId>,
    ) -> Result<Session, EngineError> {
        self.fork_as(workspace, id, before, Copied::default()).await
    }

    /// Copies a stored session for somebody else, up to the message `before` if there is one.
    pub async fn fork_as(
        self,
        workspace: &Workspace,
        id: &SessionId,
        before: Option<&MessageId>,
        copied: Copied,
    ) -> Result<Session, EngineError> {
        self.engine.fleet().claim(id, None).await?;
        let stored = self.engine.storage().load(id.clone()).await?;
        let stored = stored.ok_or_else(|| EngineError::session_not_found(id))?;
        // A call that a sudden death left open is settled in the copy; the session itself may be at work elsewhere.
        let (state, _) = SessionState::from_stored(stored);
        let parent_limits = parent_limits::stored(self.engine, &workspace.loaded(), &state.info).await?;
        make(self.engine, &state.info, &parent_limits, &state.history, before, copied).await
    }
}

/// The things about a copy that its maker chooses.
#[derive(Debug, Default)]
pub struct Copied {
    /// The id of the copy, which nothing has yet.
    pub id: Option<SessionId>,
    /// Rules that nothing in the copy loosens, beside those of the session itself.
    pub limits: Vec<Vec<Rule>>,
}

/// Makes a session that begins with everything said so far, or said before a message; the undone part stays behind, and
/// so do the session's own rules and its costs. The sessions above this one limit the copy too: as they are now, for
/// ever.
pub async fn fork(
    engine: &Engine,
    info: &Session,
    parent_limits: &ParentLimits,
    history: &[MessageWithParts],
    before: Option<&MessageId>,
) -> Result<Session, EngineError> {
    make(engine, info, parent_limits, history, before, Copied::default()).await
}

async fn make(
    engine: &Engine,
    info: &Session,
    parent_limits: &ParentLimits,
    history: &[MessageWithParts],
    before: Option<&MessageId>,
    copied: Copied,
) -> Result<Session, EngineError> {
    if let Some(before) = before.filter(|id| history.iter().all(|message| message.info.id() != *id)) {
        let message = format!("the session has no message {before}");
        return Err(EngineError::new(EngineErrorKind::MessageNotFound, message));
    }
    let now = clock::now_ms();
    let forked = Session {
        id: copied.id.unwrap_or_else(ids::session),
        slug: project::slug(),
        title: title(&info.title),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        parent_id: None,
        // The copy of a subagent's session is the user's, and so is the choice of the agent.
        agent: info.agent.clone().filter(|_| info.parent_id.is_none()),
        cost: 0.0,
        tokens: Tokens::default(),
        summary: None,
        share: None,
        permission: None,
        limits: parent_limits.rules.iter().map(|rules| rules.to_vec()).chain(copied.limits).collect(),
        revert: None,
        time: SessionTime { created: now, updated: now, compacting: None, archived: None },
        ..info.clone()
    };
    let mut messages = revert::without_undone(info, history.to_vec());
    messages.retain(|message| before.is_none_or(|before| message.info.id() < before));
    let undone = info.revert.as_ref().map(|revert| &revert.message_id);
    let left_behind = history.iter().filter(|message| [before, undone].contains(&Some(message.info.id())));
    let before = left_behind.map(|message| revert::created(&message.info)).min().unwrap_or(i64::MAX);
    let todos = todos(&messages);
    let mut writes = vec![Write::Session(forked.clone().into())];
    writes.extend(copies(&forked, messages));
    if !todos.is_empty() {
        writes.push(Write::Todos { session_id: forked.id.clone(), todos: todos.into() });
    }
    writes.push(Write::CopyClientPrompt { from: info.id.clone(), to: forked.id.clone() });
    writes.push(Write::CopyKnownFiles { from: info.id.clone(), to: forked.id.clone(), before });
    if !engine.storage().insert(vec![forked.id.to_string()], writes).await? {
        return Err(EngineError::new(EngineErrorKind::Internal, "the new session's id is taken; try again"));
    }
    if let Err(error) = engine.fleet().claim(&forked.id, None).await {
        engine.storage().delete_session(forked.id).await?;
        return Err(error);
    }
    let event = SessionInfo { session_id: forked.id.clone(), info: forked.clone().into() };
    engine.bus().publish(EventPayload::SessionCreated(event));
    Ok(forked)
}

/// Returns `<title> (fork #1)`; the fork of a fork counts on.
fn title(title: &str) -> String {
    let earlier = title.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (fork #"));
    let earlier = earlier.and_then(|(base, n_fork)| Some((base, n_fork.parse::<u32>().ok()?)));
    match earlier {
        Some((base, n_fork)) => format!("{base} (fork #{})", n_fork.saturating_add(1)),
        None => format!("{title} (fork #1)"),
    }
}

/// Returns the list of tasks as the messages left it.
fn todos(messages: &[MessageWithParts]) -> Vec<Todo> {
    let mut parts = messages.iter().rev().flat_map(|message| message.parts.iter().rev());
    let last = parts.find_map(|part| match &part.kind {
        PartKind::Tool(tool) => match &tool.state {
            ToolState::Completed { metadata, .. } if tool.tool == "todowrite" => {
                decode::<Todos<'_>>(metadata)
            }
            ToolState::Completed { .. }
            | ToolState::Pending { .. }
            | ToolState::Running { .. }
            | ToolState::Error { .. } => None,
        },
        PartKind::Text(_)
        | PartKind::File(_)
        | PartKind::Compaction { .. }
        | PartKind::Subtask { .. }
        | PartKind::Agent { .. }
        | PartKind::Reasoning(_)
        | PartKind::StepStart { .. }
        | PartKind::StepFinish { .. }
        | PartKind::Snapshot { .. }
        | PartKind::Patch { .. }
        | PartKind::Retry { .. } => None,
    });
    last.map(|list| list.todos.into_owned()).unwrap_or_default()
}

/// Returns the messages under ids of the new session's own, in the same order.
fn copies(forked: &Session, messages: Vec<MessageWithParts>) -> Vec<Write> {
    let new_ids: HashMap<MessageId, MessageId> =
        messages.iter().map(|message| (message.info.id().clone(), ids::message())).collect();
    let new_id = |id: &MessageId| new_ids.get(id).unwrap_or(id).clone();
    let mut writes = Vec::new();
    for MessageWithParts { info, parts } in messages {
        let message_id = new_id(info.id());
        let copy = match info {
            Message::User(mut user) => {
                user.id = message_id.clone();
                user.session_id = forked.id.clone();
                Message::User(user)
            }
            Message::Assistant(mut answer) => {
                answer.id = message_id.clone();
                answer.session_id = forked.id.clone();
                answer.parent_id = new_id(&answer.parent_id);
                Message::Assistant(answer)
            }
        };
        writes.push(Write::Message(copy.into()));
        for part in parts {
            let mut kind = part.kind;
            if let PartKind::Compaction { tail_start_id: Some(tail_start), .. } = &mut kind {
                *tail_start = new_id(tail_start);
            } else if let PartKind::Tool(tool) = &mut kind
                && let ToolState::Completed { attachments: Some(attachments), .. } = &mut tool.state
            {
                attachments.iter_mut().for_each(|it| own(it, forked, &message_id));
            }
            let (session_id, message_id) = (forked.id.clone(), message_id.clone());
            writes.push(Write::Part(Part { id: ids::part(), session_id, message_id, kind }.into()));
        }
    }
    writes
}

fn own(attachment: &mut Attachment, forked: &Session, message_id: &MessageId) {
    attachment.id = ids::part();
    attachment.session_id = forked.id.clone();
    attachment.message_id = message_id.clone();
}

#[cfg(test)]
mod tests;
