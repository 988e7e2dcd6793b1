//! Sends the updates about a session's cursors and plans.

use windlass_protocol::opencode::{id::SessionId, session::Todo};
use windlass_protocol_acp::schema::SessionUpdate;

use super::{Encoder, Sink, cursors::Cursors};

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

    /// Shows the todo list of a session.
    pub(super) fn plan(&mut self, id: &SessionId, todos: &[Todo], out: &mut Sink<'_>) {
        if let Some(shown) = self.sessions.get_mut(id) {
            shown.plans.todos = todos.to_vec();
        }
        out.lines.plan(id, todos);
    }
}
