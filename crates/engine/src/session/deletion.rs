//! Deletes a session with those of its subagents.

use windlass_protocol::opencode::{
    event::{EventPayload, SessionInfo},
    id::SessionId,
};

use crate::{EngineError, Sessions};

impl Sessions<'_> {
    /// Deletes a session and everything in it. Deleting a session that is not there succeeds.
    pub async fn delete(self, id: &SessionId) -> Result<(), EngineError> {
        self.engine.fleet().claim(id, None).await?;
        // The sessions of its subagents go with it; a client may have opened them by themselves.
        let mut ids = self.engine.0.storage.children(id.clone()).await?;
        ids.push(id.clone());
        // Before they are closed one by one: no result of theirs is to begin a turn.
        for id in &ids {
            self.close_background(id).await;
        }
        let mut deleted = Vec::new();
        for id in ids {
            self.close(&id).await;
            deleted.extend(self.engine.0.storage.session(id).await?);
        }
        for info in &deleted {
            self.engine.shares().remove_with_session(info).await?;
        }
        // Closed, it was given back.
        self.engine.fleet().claim(id, None).await?;
        self.engine.fleet().delete(id).await?;
        if self.engine.0.storage.delete_session(id.clone()).await? {
            for info in deleted {
                let event = SessionInfo { session_id: info.id.clone(), info: info.into() };
                self.engine.0.bus.publish(EventPayload::SessionDeleted(event));
            }
        }
        Ok(())
    }
}
