//! Ids sort as OpenCode's do.

use super::{clock_stamp, follow, is_in_order, make, message, session};

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

#[test]
fn an_id_is_in_order_unless_its_time_is_far_ahead_or_cannot_be_read() {
    let day = 24 * 60 * 60 * 1000 * 4096;
    let now = clock_stamp();
    for stamp in [now, now - 30 * day, now + day / 2] {
        assert!(is_in_order(&make("msg", stamp)), "{stamp}");
    }
    let upper = make("msg", 0xabc).to_uppercase();
    for id in [make("msg", now + 2 * day).as_str(), "msg_given", "msg_zzzzzzzzzzzzzzzz", "", upper.as_str()] {
        assert!(!is_in_order(id), "{id}");
    }
}
