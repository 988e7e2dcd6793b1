//! Cursors: the places at which a client can fork a session, one behind each answer that another prompt follows (facts:
//! ACP §2).

use std::collections::HashMap;

use windlass_protocol::opencode::id::MessageId;
use windlass_protocol_acp::schema::{
    CursorAnchor, CursorAnchorPosition, CursorCapabilities, CursorForkCapabilities, CursorId,
    CursorMessageAnchor, CursorToolCallAnchor, CursorUpdate, SessionUpdate,
};

/// See the module's comment.
#[derive(Default)]
pub struct Cursors {
    /// The place behind everything that was shown.
    last: Option<CursorAnchor>,
    /// The prompts, and whether there is a cursor before them.
    prompts: HashMap<MessageId, bool>,
}

impl Cursors {
    /// Notes words of an answer that were shown.
    pub fn note_text(&mut self, message_id: &MessageId) {
        let anchor = CursorMessageAnchor::new(message_id.shared(), CursorAnchorPosition::After);
        self.last = Some(CursorAnchor::AgentMessage(anchor));
    }

    /// Notes a tool call that was shown.
    pub fn note_call(&mut self, call_id: &str) {
        let anchor = CursorToolCallAnchor::new(call_id.to_owned(), CursorAnchorPosition::After);
        self.last = Some(CursorAnchor::ToolCall(anchor));
    }

    /// Returns the cursor in front of a prompt, behind everything before.
    pub fn prompt(&mut self, message_id: &MessageId) -> Option<SessionUpdate> {
        // A prompt is told again when its turn has changed files.
        if self.prompts.contains_key(message_id) {
            return None;
        }
        let anchor = self.last.take();
        self.prompts.insert(message_id.clone(), anchor.is_some());
        let anchor = anchor?;
        let capabilities = CursorCapabilities::new().fork(CursorForkCapabilities::new());
        let update = CursorUpdate::new(CursorId::new(message_id.shared())).anchor(anchor);
        Some(SessionUpdate::CursorUpdate(update.capabilities(capabilities)))
    }

    /// Returns the update that withdraws the cursor in front of a prompt that is gone.
    pub fn removed(&mut self, message_id: &MessageId) -> Option<SessionUpdate> {
        let is_known = self.prompts.remove(message_id) == Some(true);
        let update =
            CursorUpdate::new(CursorId::new(message_id.shared())).capabilities(None::<CursorCapabilities>);
        is_known.then_some(SessionUpdate::CursorUpdate(update))
    }
}
