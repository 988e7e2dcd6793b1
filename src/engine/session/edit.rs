//! Changes of an idle session's history that a client makes: messages and parts taken out, a part replaced.

use windlass_protocol::opencode::{
    event::{EventPayload, FileDiff},
    id::{MessageId, PartId, SessionId},
    message::{Message, MessageWithParts},
    part::Part,
};

use crate::{
    base::clock,
    engine::{Engine, EngineError, EngineErrorKind, turn::file_snapshots},
    storage::{
        Write,
        session_locks::{SessionLock, SoleUse},
    },
};

impl Engine {
    /// Removes a message of an idle session.
    pub async fn remove_message(&self, id: &SessionId, message_id: &MessageId) -> Result<(), EngineError> {
        let session_lock = self.storage().session_locks.share(id).await;
        let _sole_use = self.sole_use(id, &session_lock).await?;
        self.message_to_change(id, message_id).await?;
        self.storage().apply(vec![Write::RemoveMessage(message_id.clone())]).await?;
        let (session_id, message_id) = (id.clone(), message_id.clone());
        self.bus().publish(EventPayload::MessageRemoved { session_id, message_id });
        Ok(())
    }

    /// Removes a part of a message of an idle session.
    pub async fn remove_part(
        &self,
        id: &SessionId,
        message_id: &MessageId,
        part_id: &PartId,
    ) -> Result<(), EngineError> {
        let session_lock = self.storage().session_locks.share(id).await;
        let _sole_use = self.sole_use(id, &session_lock).await?;
        let message = self.message_to_change(id, message_id).await?;
        require_part(&message, part_id)?;
        self.storage().apply(vec![Write::RemovePart(part_id.clone())]).await?;
        let (session_id, message_id, part_id) = (id.clone(), message_id.clone(), part_id.clone());
        self.bus().publish(EventPayload::PartRemoved { session_id, message_id, part_id });
        Ok(())
    }

    /// Replaces a part of a message of an idle session.
    pub async fn replace_part(&self, part: Part) -> Result<(), EngineError> {
        let session_lock = self.storage().session_locks.share(&part.session_id).await;
        let _sole_use = self.sole_use(&part.session_id, &session_lock).await?;
        let message = self.message_to_change(&part.session_id, &part.message_id).await?;
        require_part(&message, &part.id)?;
        self.storage().apply(vec![Write::Part(part.clone())]).await?;
        let (session_id, time) = (part.session_id.clone(), clock::now_ms());
        self.bus().publish(EventPayload::PartUpdated { session_id, part, time });
        Ok(())
    }

    /// Takes a session alone once nothing holds its history in memory.
    async fn sole_use<'a>(
        &self,
        id: &SessionId,
        session_lock: &'a SessionLock,
    ) -> Result<SoleUse<'a>, EngineError> {
        let busy = |message: String| EngineError::new(EngineErrorKind::SessionBusy, message);
        if !self.stop_if_idle(id).await {
            return Err(busy(format!("Session is busy: {id}")));
        }
        let in_use = || {
            busy(format!("another windlass has the session {id} open; change it there, or close it there"))
        };
        session_lock.alone().ok_or_else(in_use)
    }

    async fn message_to_change(
        &self,
        id: &SessionId,
        message_id: &MessageId,
    ) -> Result<MessageWithParts, EngineError> {
        let message = self.message(id, message_id).await?;
        message.ok_or_else(|| {
            EngineError::new(EngineErrorKind::MessageNotFound, format!("Message not found: {message_id}"))
        })
    }

    /// Returns the files that a session changed, or that it changed for one prompt.
    pub async fn session_diff(
        &self,
        id: &SessionId,
        prompt: Option<&MessageId>,
    ) -> Result<Vec<FileDiff>, EngineError> {
        let info = self.session(id).await?;
        let loaded = match self.opened(id) {
            Some(workspace) => workspace.loaded(),
            None => self.workspace(info.directory.as_ref()).await?.loaded(),
        };
        let Ok(snapshots) = file_snapshots::snapshots(self, &loaded) else { return Ok(Vec::new()) };
        let messages = self.last_messages(id, None, None).await?;
        let is_wanted = |message: &&MessageWithParts| match (&message.info, prompt) {
            (_, None) => true,
            (Message::User(_), Some(_)) => false,
            (Message::Assistant(answer), Some(prompt)) => answer.parent_id == *prompt || answer.id == *prompt,
        };
        // A snapshot may be too old to be there.
        Ok(file_snapshots::diff(&snapshots, messages.iter().filter(is_wanted)).await.unwrap_or_default())
    }
}

fn require_part(message: &MessageWithParts, part_id: &PartId) -> Result<(), EngineError> {
    if message.parts.iter().any(|part| part.id == *part_id) {
        return Ok(());
    }
    Err(EngineError::new(EngineErrorKind::MessageNotFound, format!("Part not found: {part_id}")))
}
