//! Instructions that a session's client gives it. They are stored with the session, and are not for its subagents.

use std::sync::Arc;

use windlass_base::lock::lock;
use windlass_protocol::opencode::id::SessionId;

pub use windlass_core::storage::client_prompt::ClientPrompt;

use crate::{EngineError, Sessions};

impl Sessions<'_> {
    /// Gives an open session these instructions in the place of those that it has; an empty text takes them away.
    pub async fn set_client_prompt(self, id: &SessionId, prompt: ClientPrompt) -> Result<(), EngineError> {
        let prompt = Some(prompt).filter(|prompt| !prompt.text.trim().is_empty());
        self.engine.fleet().claim(id, None).await?;
        self.engine.0.storage.set_client_prompt(id.clone(), prompt.clone()).await?;
        self.keep_client_prompt(id, prompt);
        Ok(())
    }

    /// Lets an open session have the instructions that are stored with it.
    pub(crate) fn keep_client_prompt(self, id: &SessionId, prompt: Option<ClientPrompt>) {
        if let Some(open) = lock(&self.engine.0.sessions.open).get_mut(id) {
            open.client_prompt = prompt.map(Arc::new);
        }
    }

    pub(crate) fn client_prompt(self, id: &SessionId) -> Option<Arc<ClientPrompt>> {
        lock(&self.engine.0.sessions.open).get(id).and_then(|open| open.client_prompt.clone())
    }
}
