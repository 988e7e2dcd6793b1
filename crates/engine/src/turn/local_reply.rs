//! An answer of the daemon's own, which no model gave.

use windlass_base::clock;
use windlass_protocol::opencode::message::Message;

use super::step;
use crate::{
    EngineError,
    session::{
        context::TurnCx,
        state::{Journal, SessionState, text_part},
    },
};

/// Stores and shows an answer of the daemon's own.
///
/// Its text is marked as ignored, so that the model does not take it for its own words.
pub async fn reply_locally(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    text: String,
) -> Result<(), EngineError> {
    let mut journal = Journal::default();
    let mut message = step::message(cx, state, None);
    message.time.completed = Some(clock::now_ms());
    message.finish = Some("stop".to_owned());
    state.push_message(Message::Assistant(Box::new(message)), &mut journal);
    state.push_part(text_part(text, false, true), &mut journal);
    state.touch();
    journal.session(&state.info);
    cx.commit(&mut journal).await
}
