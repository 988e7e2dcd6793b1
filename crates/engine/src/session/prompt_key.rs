//! Keys of prompts that a client may send again: the message gets an id that ends with a mark made of the key, by which a
//! retry finds it, also after a restart.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use sha2::{Digest, Sha256};
use tokio::sync::watch;
use windlass_base::{ids, lock::lock};
use windlass_protocol::opencode::{
    id::{MessageId, SessionId},
    message::Message,
};

use crate::{EngineError, Sessions};

/// A prompt's key within its session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PromptKey {
    session_id: SessionId,
    mark: String,
}

impl PromptKey {
    pub fn new(session_id: &SessionId, key: &str) -> Self {
        let digest =
            Sha256::new().chain_update(session_id.as_str()).chain_update([0]).chain_update(key).finalize();
        Self { session_id: session_id.clone(), mark: ids::mark(&digest) }
    }

    /// Returns the key of a mark.
    pub(crate) fn of_mark(session_id: &SessionId, mark: String) -> Self {
        Self { session_id: session_id.clone(), mark }
    }

    /// Makes an id for a message of this key.
    pub(crate) fn message_id(&self) -> MessageId {
        ids::marked_message(&self.mark)
    }
}

/// The prompts with a key that are on their way into the conversation.
#[derive(Default)]
pub struct PromptKeys(Mutex<HashMap<PromptKey, watch::Receiver<Option<MessageId>>>>);

/// The right to bring in the prompt of a key; others wait for its message, or for the end of this.
#[derive(Debug)]
pub struct KeyClaim {
    keys: Arc<PromptKeys>,
    key: PromptKey,
    message: watch::Sender<Option<MessageId>>,
}

impl std::fmt::Debug for PromptKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PromptKeys").finish_non_exhaustive()
    }
}

/// A prompt of the same key, which came before and has not ended.
pub struct EarlierPrompt {
    key: PromptKey,
    message: watch::Receiver<Option<MessageId>>,
}

impl KeyClaim {
    /// Returns the mark of the key.
    pub(crate) fn mark(&self) -> &str {
        &self.key.mark
    }

    /// Makes the id of the prompt's message.
    pub(crate) fn message_id(&self) -> MessageId {
        self.key.message_id()
    }

    /// Notes that the message is stored.
    pub(crate) fn stored(&self, id: MessageId) {
        self.message.send_replace(Some(id));
    }
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        lock(&self.keys.0).remove(&self.key);
    }
}

impl Sessions<'_> {
    /// Claims a key for a prompt that is to come, unless one of the same key is on its way. The prompt is not carried out
    /// where the key's message is in the conversation: its outcome names that.
    pub fn claim_key(self, key: &PromptKey) -> Result<KeyClaim, EarlierPrompt> {
        let keys = &self.engine.0.sessions.prompt_keys;
        let mut claimed = lock(&keys.0);
        if let Some(earlier) = claimed.get(key) {
            return Err(EarlierPrompt { key: key.clone(), message: earlier.clone() });
        }
        let (message, receiver) = watch::channel(None);
        claimed.insert(key.clone(), receiver);
        Ok(KeyClaim { keys: keys.clone(), key: key.clone(), message })
    }

    /// Returns the message of a prompt whose client gave this id to it, also where it got another one, since later messages
    /// were there by then.
    pub async fn message_of_prompt(
        self,
        session_id: &SessionId,
        given: &MessageId,
    ) -> Result<Option<MessageId>, EngineError> {
        let exact = self.message(session_id, given).await?;
        if exact.is_some_and(|message| matches!(message.info, Message::User(_))) {
            return Ok(Some(given.clone()));
        }
        self.marked_message(&PromptKey::new(session_id, given.as_str())).await
    }

    /// Returns the message of a claimed key that is in the store.
    pub(crate) async fn message_of_key(self, claim: &KeyClaim) -> Result<Option<MessageId>, EngineError> {
        self.marked_message(&claim.key).await
    }

    /// Waits for the message of a prompt that came before; `None` if it ended without one.
    pub async fn message_of_earlier(self, earlier: EarlierPrompt) -> Result<Option<MessageId>, EngineError> {
        let EarlierPrompt { key, mut message } = earlier;
        // It may wait for the next prompt, which this one is.
        self.wake(&key.session_id);
        if let Ok(stored) = message.wait_for(Option::is_some).await {
            return Ok(stored.clone());
        }
        self.marked_message(&key).await
    }

    async fn marked_message(self, key: &PromptKey) -> Result<Option<MessageId>, EngineError> {
        let PromptKey { session_id, mark } = key.clone();
        Ok(self.engine.storage().marked_message(session_id, mark).await?)
    }
}
