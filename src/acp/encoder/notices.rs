//! Notices of a session, which a client that knows none is shown as thoughts.

use windlass_base::ids;
use windlass_protocol::opencode::{id::SessionId, service::ToastVariant};
use windlass_protocol_acp::schema::{Notice, NoticeSeverity, SessionUpdate};

use super::{Encoder, Sink, chunk};

impl Encoder {
    /// Sends a notice, or a thought where the client knows no notices.
    pub(super) fn toast(
        &self,
        id: &SessionId,
        title: &str,
        message: &str,
        variant: ToastVariant,
        out: &mut Sink<'_>,
    ) {
        if self.client.notices {
            let severity = match variant {
                ToastVariant::Info | ToastVariant::Success => NoticeSeverity::Info,
                ToastVariant::Warning => NoticeSeverity::Warning,
                ToastVariant::Error => NoticeSeverity::Error,
            };
            let notice = Notice::new(severity, title.to_owned()).description(message.to_owned());
            out.lines.update(id, SessionUpdate::Notice(notice));
            return;
        }
        // An id of its own, so that no client joins it to a thought of the model.
        let chunk = chunk(&format!("{title}\n{message}"), ids::message().shared());
        out.lines.update(id, SessionUpdate::AgentThoughtChunk(chunk));
    }
}
