//! The session that a path is about.

use super::*;

#[test]
fn a_path_is_about_the_session_that_it_names_or_that_asked() {
    let peers = Peers::default();
    let id = SessionId::parse("ses_1").unwrap();
    for path in ["/session/ses_1", "/session/ses_1/message", "/api/session/ses_1/prompt"] {
        assert_eq!(peers.session_of(path).as_ref(), Some(&id), "{path}");
    }
    for path in [
        "/session",
        "/session/status",
        "/permission/per_1/reply",
        "/file/session/ses_1",
        "/",
        "/session/ses_1/../../pty",
        "/session/ses_1/%2E%2e/pty",
        "/session/ses_1/./message",
    ] {
        assert_eq!(peers.session_of(path), None, "{path}");
    }
    lock(&peers.state).note_asked("per_1", &id);
    assert_eq!(peers.session_of("/permission/per_1/reply"), Some(id));
}
