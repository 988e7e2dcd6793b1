//! The title of a session: shown when it changes, and behind a replay; and the link by which it is shared.

use windlass_base::clock;
use windlass_engine::is_default_title;
use windlass_protocol::opencode::{event::SessionInfo, id::SessionId};
use windlass_protocol_acp::{
    ext,
    schema::{Meta, SessionInfoUpdate, SessionUpdate},
};

use super::{Encoder, Sink};

/// Returns the link of a session that is shared, as clients find it; null where it is shared no more.
fn share_meta(share: Option<String>) -> Meta {
    Meta::from_iter([(ext::SHARE.to_owned(), share.into())])
}

impl Encoder {
    /// Shows the title of a session after its record changed, if the client has another.
    pub(super) fn session_info(&mut self, id: &SessionId, info: &SessionInfo, out: &mut Sink<'_>) {
        let Some(shown) = self.sessions.get_mut(id) else { return };
        let share = info.info.share.as_ref().map(|share| share.url.clone());
        if shown.share != share {
            shown.share.clone_from(&share);
            let update = SessionInfoUpdate::new().meta(share_meta(share));
            out.lines.update(id, SessionUpdate::SessionInfoUpdate(update));
        }
        if shown.title != info.info.title {
            shown.title.clone_from(&info.info.title);
            let update = SessionInfoUpdate::new()
                .title(info.info.title.clone())
                .updated_at(clock::iso(info.info.time.updated));
            out.lines.update(id, SessionUpdate::SessionInfoUpdate(update));
        }
    }

    /// Shows the title of a session of the past, if it was given one.
    pub(super) fn show_title(&mut self, id: &SessionId, out: &mut Sink<'_>) {
        let shown = self.sessions.get(id).filter(|shown| !is_default_title(&shown.title));
        if let Some(shown) = shown {
            let update = SessionInfoUpdate::new().title(shown.title.clone());
            out.lines.update(id, SessionUpdate::SessionInfoUpdate(update));
        }
    }
}
