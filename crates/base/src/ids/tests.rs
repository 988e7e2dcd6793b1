//! Ids sort as OpenCode's do.

use super::{clock_stamp, follow, make, message, session};

#[test]
fn message_ids_ascend_and_session_ids_descend() {
    let messages: Vec<_> = (0..5000).map(|_| message()).collect();
    assert!(messages.is_sorted());
    let sessions: Vec<_> = (0..5000).map(|_| session()).collect();
    assert!(sessions.iter().rev().is_sorted());
}

#[test]
fn an_id_has_thirty_characters() {
    let id = session();
    assert_eq!(id.as_str().len(), 30);
    assert_eq!(windlass_protocol::opencode::id::SessionId::parse(id.as_str()), Ok(id));
}

#[test]
fn later_ids_sort_behind_one_from_a_clock_that_was_ahead() {
    let hour = 60 * 60 * 1000 * 4096;
    let ahead = make("msg", clock_stamp() + hour);
    follow(&ahead);
    assert!(message().as_str() > ahead.as_str());
    // One from before is followed by all of today's anyway.
    let before = message();
    follow(&make("msg", clock_stamp() - hour));
    follow("msg_none");
    assert!(message() > before);
}
