//! Ids sort as OpenCode's do.

use super::{message, session};

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
