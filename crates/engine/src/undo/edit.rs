//! Changes of an idle session's history that a client makes: messages and parts taken out, a part replaced.

use std::collections::HashSet;

use tokio::sync::oneshot;
use windlass_base::lock::lock;
use windlass_protocol::opencode::{
    file_diff::FileDiff,
    id::{MessageId, PartId, SessionId},
    message::{Message, MessageWithParts},
};

use crate::{
    EngineError, EngineErrorKind, Sessions,
    session::{
        context::SessionCx,
        request::{Command, Edit},
        state::{Journal, SessionState},
    },
    turn::file_snapshots,
};

impl Sessions<'_> {
    /// Changes the history of an open, idle session.
    pub async fn edit(self, id: &SessionId, edit: Edit) -> Result<(), EngineError> {
        let ended = {
            let mut sessions = lock(&self.engine.0.sessions.open);
            let open = sessions.get_mut(id).ok_or_else(|| EngineError::session_not_found(id))?;
            let busy = || EngineError::new(EngineErrorKind::SessionBusy, format!("Session is busy: {id}"));
            if !open.tickets.is_empty() {
                return Err(busy());
            }
            let (done, ended) = oneshot::channel();
            self.engine.inbox(id, open).try_send(Command::Edit { edit, done }).map_err(|_| busy())?;
            ended
        };
        let lost = || EngineError::new(EngineErrorKind::Internal, "the session ended before its change");
        ended.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Returns the files that a session changed, or that it changed for one prompt.
    pub async fn diff(
        self,
        id: &SessionId,
        prompt: Option<&MessageId>,
    ) -> Result<Vec<FileDiff>, EngineError> {
        let info = self.get(id).await?;
        let loaded = match self.opened(id) {
            Some(workspace) => workspace.loaded(),
            None => self.engine.workspaces().workspace(info.directory.as_ref()).await?.loaded(),
        };
        let Ok(snapshots) = file_snapshots::snapshots(self.engine, &loaded) else { return Ok(Vec::new()) };
        let messages = self.last_messages(id, None, None).await?;
        let is_wanted = |message: &&MessageWithParts| match (&message.info, prompt) {
            (_, None) => true,
            (Message::User(_), Some(_)) => false,
            (Message::Assistant(answer), Some(prompt)) => answer.parent_id == *prompt || answer.id == *prompt,
        };
        let diffs = file_snapshots::diff(&snapshots, messages.iter().filter(is_wanted)).await;
        Ok(diffs.unwrap_or_else(|error| {
            // A snapshot may be too old to be there.
            tracing::warn!(session = %id, %error, "the files that a session changed are not known");
            Vec::new()
        }))
    }
}

/// Carries a change out between two turns.
pub async fn carry_out(cx: &SessionCx, state: &mut SessionState, edit: Edit) -> Result<(), EngineError> {
    let _sole_use = cx.sole_use("change")?;
    let mut journal = Journal::default();
    match edit {
        Edit::RemoveMessage(message_id) => {
            find_message(state, &message_id)?;
            journal.remove(&state.info, &message_id);
            state.history.remove(&HashSet::from([message_id]));
        }
        Edit::RemovePart(message_id, part_id) => {
            let (message_idx, part_idx) = find_part(state, &message_id, &part_id)?;
            if let Some(message) = state.history.older_mut(message_idx) {
                journal.remove_part(&message.parts.remove(part_idx));
            }
        }
        Edit::ReplacePart(part) => {
            let (message_idx, part_idx) = find_part(state, &part.message_id, &part.id)?;
            journal.part(&part);
            if let Some(old) = state.history.older_mut(message_idx).and_then(|it| it.parts.get_mut(part_idx))
            {
                *old = *part;
            }
        }
    }
    cx.commit(&mut journal).await
}

fn find_message(state: &SessionState, message_id: &MessageId) -> Result<usize, EngineError> {
    let position = state.history.iter().position(|message| message.info.id() == message_id);
    position.ok_or_else(|| {
        EngineError::new(EngineErrorKind::MessageNotFound, format!("Message not found: {message_id}"))
    })
}

fn find_part(
    state: &SessionState,
    message_id: &MessageId,
    part_id: &PartId,
) -> Result<(usize, usize), EngineError> {
    let message_idx = find_message(state, message_id)?;
    let parts = state.history.get(message_idx).map_or(&[][..], |message| &message.parts);
    let part_idx = parts.iter().position(|part| part.id == *part_id);
    let part_idx = part_idx.ok_or_else(|| {
        EngineError::new(EngineErrorKind::MessageNotFound, format!("Part not found: {part_id}"))
    })?;
    Ok((message_idx, part_idx))
}
