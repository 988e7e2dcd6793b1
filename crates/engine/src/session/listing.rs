//! Sessions and messages as clients page through them, newest first, without opening anything.

use std::path::Path;

pub use windlass_core::storage::listing::SessionFilter;
use windlass_core::storage::{StorageError, listing::Listed};
use windlass_protocol::opencode::{
    id::{MessageId, PartId, SessionId},
    message::{MessageWithParts, UserMessage},
    session::{Session, Todo},
};

use super::title;
use crate::{EngineError, Sessions};

/// Returns a directory with sessions that are wanted.
fn wanted(filter: &SessionFilter) -> Option<&Path> {
    let worktree = || filter.project.as_ref()?.1.as_deref();
    filter.directory.as_deref().or_else(worktree).map(Path::new)
}

impl Sessions<'_> {
    /// Lists sessions, most recently changed first.
    pub async fn filter(self, filter: SessionFilter) -> Result<Vec<Session>, EngineError> {
        // The list here serves as well.
        let _ = self.engine.fleet().refresh(wanted(&filter)).await;
        let mut sessions = self.engine.storage().filter_sessions(filter).await?;
        self.entitle(&mut sessions).await?;
        Ok(sessions)
    }

    /// Lists sessions as a JSON array, most recently changed first. A session that needs no change goes out as it is
    /// stored.
    pub async fn encode(self, filter: SessionFilter) -> Result<Vec<u8>, EngineError> {
        // The list here serves as well.
        let _ = self.engine.fleet().refresh(wanted(&filter)).await;
        let mut listed = self.engine.storage().list_sessions(filter, title::is_default).await?;
        let decoded = listed.iter_mut().filter_map(|listed| match listed {
            Listed::Decoded(session) => Some(&mut **session),
            Listed::Encoded(_) => None,
        });
        self.entitle(decoded).await?;
        let mut encoded = vec![b'['];
        for listed in listed {
            if encoded.len() > 1 {
                encoded.push(b',');
            }
            match listed {
                Listed::Encoded(json) => encoded.extend(json.into_bytes()),
                Listed::Decoded(session) => {
                    serde_json::to_writer(&mut encoded, &session).map_err(StorageError::from)?;
                }
            }
        }
        encoded.push(b']');
        Ok(encoded)
    }

    /// Reads the last messages of a session before one of them or at its end, oldest first; the undone ones too.
    pub async fn last_messages(
        self,
        id: &SessionId,
        before: Option<&MessageId>,
        limit: Option<usize>,
    ) -> Result<Vec<MessageWithParts>, EngineError> {
        Ok(self.engine.storage().last_messages(id.clone(), before.cloned(), limit).await?)
    }

    /// Reads a message of a session.
    pub async fn message(
        self,
        id: &SessionId,
        message_id: &MessageId,
    ) -> Result<Option<MessageWithParts>, EngineError> {
        let message = self.engine.storage().message(message_id.clone()).await?;
        Ok(message.filter(|message| message.info.session_id() == id))
    }

    /// Reads a session's newest message of the user.
    pub async fn last_prompt(self, id: &SessionId) -> Result<Option<UserMessage>, EngineError> {
        Ok(self.engine.storage().last_prompt(id.clone()).await?)
    }

    /// Returns true if the store has one of these messages or parts, in any session.
    pub async fn is_taken(self, message: Option<&MessageId>, parts: &[PartId]) -> Result<bool, EngineError> {
        Ok(self.engine.storage().is_taken(message.cloned(), parts.to_vec()).await?)
    }

    /// Reads a session's list of tasks.
    pub async fn todos(self, id: &SessionId) -> Result<Vec<Todo>, EngineError> {
        Ok(self.engine.storage().todos(id.clone()).await?)
    }
}
