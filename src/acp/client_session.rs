//! A session as its client uses it.

use std::sync::Arc;

use windlass_engine::{CommandChoice, Loaded, ServerPrompts, Workspace};

use super::chosen::Chosen;

/// See the module's comment.
pub struct ClientSession {
    pub workspace: Arc<Workspace>,
    /// The parameters by which the client can open it again.
    pub opened_by: String,
    pub chosen: Chosen,
    /// The configuration that the client knows, with its modes, options, commands and warnings.
    pub shown: Arc<Loaded>,
    /// The prompts of its servers, and as the client was shown them.
    pub prompts: ServerPrompts,
    pub shown_prompts: Vec<CommandChoice>,
    /// Indices of `shown`'s warnings that the user has not seen, for a client without notices.
    pub pending_warnings: Vec<usize>,
}
