//! Cursors: the places at which a client can fork a session, one behind each answer that another prompt follows (facts:
//! ACP §2).

use std::collections::HashSet;

use windlass_protocol::opencode::id::{MessageId, SessionId};
use windlass_protocol_acp::schema::{
    CursorAnchor, CursorAnchorPosition, CursorCapabilities, CursorForkCapabilities, CursorId,
    CursorMessageAnchor, CursorToolCallAnchor, CursorUpdate, SessionUpdate,
};

use super::{Encoder, Sink};

/// See the module's comment.
#[derive(Default)]
pub struct Cursors {
    /// What was shown last.
    last: Option<CursorAnchor>,
    /// The prompts with a cursor before them.
    shown: HashSet<MessageId>,
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

    /// Returns the cursor in front of a prompt, behind what was shown before.
    pub fn prompt(&mut self, message_id: &MessageId) -> Option<SessionUpdate> {
        let anchor = self.last.take()?;
        self.shown.insert(message_id.clone());
        let capabilities = CursorCapabilities::new().fork(CursorForkCapabilities::new());
        let update = CursorUpdate::new(CursorId::new(message_id.shared())).anchor(anchor);
        Some(SessionUpdate::CursorUpdate(update.capabilities(capabilities)))
    }

    /// Returns the update that withdraws the cursor in front of a prompt that is gone.
    pub fn removed(&mut self, message_id: &MessageId) -> Option<SessionUpdate> {
        let is_known = self.shown.remove(message_id);
        let update =
            CursorUpdate::new(CursorId::new(message_id.shared())).capabilities(None::<CursorCapabilities>);
        is_known.then_some(SessionUpdate::CursorUpdate(update))
    }
}

impl Encoder {
    /// Sends an update about a session's cursors to a client that knows such.
    pub(super) fn cursor(
        &mut self,
        id: &SessionId,
        take: impl FnOnce(&mut Cursors) -> Option<SessionUpdate>,
        out: &mut Sink<'_>,
    ) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        if let Some(update) = take(&mut shown.cursors).filter(|_| self.client.cursors) {
            out.lines.update(id, update);
        }
    }
}
