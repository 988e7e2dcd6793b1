//! The work of one session as a client of version 2 knows it.

use crate::acp::{outbox::Responder, v2::State};

/// A session's work.
#[derive(Default)]
pub struct Foreground {
    /// The duty to answer the prompt that has begun, until its message is there.
    pub(super) unanswered: Option<Responder>,
    /// A prompt of this client's has begun; its end says how the work ended.
    pub(super) is_ours: bool,
    /// The state as the client knows it; `None` for idle.
    pub(super) state: Option<State>,
}
