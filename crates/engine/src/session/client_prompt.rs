//! Instructions that a session's client gives for as long as it has the session open.

use std::sync::Arc;

use windlass_base::lock::lock;
use windlass_protocol::opencode::id::SessionId;

use crate::Sessions;

/// See the module's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientPrompt {
    /// They take the place of the agent's own instructions. The description of the session stays.
    pub is_override: bool,
    pub text: String,
}

impl Sessions<'_> {
    /// Gives an open session these instructions, and takes back those that it was given before.
    pub fn set_client_prompt(self, id: &SessionId, prompt: Option<ClientPrompt>) {
        if let Some(open) = lock(&self.engine.0.sessions.open).get_mut(id) {
            open.client_prompt = prompt.map(Arc::new);
        }
    }

    pub(crate) fn client_prompt(self, id: &SessionId) -> Option<Arc<ClientPrompt>> {
        lock(&self.engine.0.sessions.open).get(id).and_then(|open| open.client_prompt.clone())
    }
}
