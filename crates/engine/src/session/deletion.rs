//! Deletes a session with those of its subagents.

use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
};

use crate::{Engine, EngineError};

impl Engine {
    /// Deletes a session and everything in it. Deleting a session that is not there succeeds.
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), EngineError> {
        // The sessions of its subagents go with it; a client may have opened them by themselves.
        let mut ids = self.0.storage.children(id.clone()).await?;
        ids.push(id.clone());
        // Before they are closed one by one: no result of theirs is to begin a turn.
        for id in &ids {
            self.close_background(id).await;
        }
        let mut deleted = Vec::new();
        for id in ids {
            self.close_session(&id).await;
            deleted.extend(self.0.storage.session(id).await?);
        }
        if self.0.storage.delete_session(id.clone()).await? {
            for info in deleted {
                let event = SessionInfo { session_id: info.id.clone(), info: info.into() };
                self.0.bus.publish(EventPayload::SessionDeleted(event));
            }
        }
        Ok(())
    }
}
