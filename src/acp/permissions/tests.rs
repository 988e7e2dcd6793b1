//! The client sees one question of a session at a time, and none that is settled.

use serde_json::Map;
use windlass_protocol::{
    opencode::{
        id::{PermissionId, SessionId},
        permission::PermissionRequest,
    },
    rpc::Id,
};

use super::{Asked, AskedId, Permissions};

fn session(name: &str) -> SessionId {
    SessionId::from_trusted(name)
}

fn id(name: &str) -> PermissionId {
    PermissionId::from_trusted(name)
}

fn ask(permissions: &mut Permissions, session_id: &str, name: &str) -> Option<PermissionId> {
    let request = PermissionRequest {
        id: id(name),
        session_id: session(session_id),
        permission: "bash".to_owned(),
        patterns: vec!["ls".to_owned()],
        metadata: Map::new(),
        always: Vec::new(),
        approved: Vec::new(),
        tool: None,
    };
    permissions.ask(&session(session_id), Asked::Permission(request)).then(|| id(name))
}

fn asked(name: &str) -> AskedId {
    AskedId::Permission(id(name))
}

/// Returns the request that shows a session's question.
fn show(permissions: &mut Permissions, session_id: &str) -> Id {
    permissions.show(&session(session_id), |_| true).unwrap().0
}

/// Settles a question; returns the withdrawn request and the next question.
fn settle(permissions: &mut Permissions, name: &str) -> (Option<Id>, Option<PermissionId>) {
    let settled = permissions.settle(&asked(name));
    let next = settled.next.map(|session_id| match permissions.queues[&session_id].front() {
        Some(Asked::Permission(request)) => request.id.clone(),
        other => panic!("{other:?} was never asked"),
    });
    (settled.withdrawn, next)
}

#[test]
fn questions_of_a_session_are_shown_one_after_another() {
    let mut permissions = Permissions::default();
    assert_eq!(ask(&mut permissions, "ses_1", "per_a"), Some(id("per_a")));
    assert_eq!(ask(&mut permissions, "ses_1", "per_b"), None);
    assert_eq!(ask(&mut permissions, "ses_1", "per_c"), None);
    assert_eq!(settle(&mut permissions, "per_a"), (None, Some(id("per_b"))));
    assert_eq!(settle(&mut permissions, "per_b"), (None, Some(id("per_c"))));
    assert_eq!(settle(&mut permissions, "per_c"), (None, None));
    assert_eq!(ask(&mut permissions, "ses_1", "per_d"), Some(id("per_d")));
}

#[test]
fn sessions_do_not_wait_for_each_other() {
    let mut permissions = Permissions::default();
    assert_eq!(ask(&mut permissions, "ses_1", "per_a"), Some(id("per_a")));
    assert_eq!(ask(&mut permissions, "ses_2", "per_b"), Some(id("per_b")));
    assert_eq!(settle(&mut permissions, "per_b"), (None, None));
}

#[test]
fn a_question_the_client_answered_is_not_taken_back() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    let shown = show(&mut permissions, "ses_1");
    assert_eq!(permissions.answered(&shown), Some(asked("per_a")));
    assert_eq!(permissions.answered(&shown), None);
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}

#[test]
fn a_question_settled_elsewhere_is_taken_back_and_its_late_answer_is_about_nothing() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    ask(&mut permissions, "ses_1", "per_b");
    let shown = show(&mut permissions, "ses_1");
    assert_eq!(settle(&mut permissions, "per_a"), (Some(shown.clone()), Some(id("per_b"))));
    assert_eq!(permissions.answered(&shown), None);
    assert_ne!(show(&mut permissions, "ses_1"), shown);
}

#[test]
fn settling_a_question_that_waits_shows_nothing_new() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    ask(&mut permissions, "ses_1", "per_b");
    assert_eq!(settle(&mut permissions, "per_b"), (None, None));
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}

#[test]
fn what_does_not_wait_any_more_is_not_shown() {
    let mut permissions = Permissions::default();
    for name in ["per_a", "per_b", "per_c"] {
        ask(&mut permissions, "ses_1", name);
    }
    let (_, next) = permissions.show(&session("ses_1"), |it| *it == asked("per_c")).unwrap();
    assert_eq!(next.id(), asked("per_c"));
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
    assert_eq!(permissions.show(&session("ses_1"), |_| false), None);
    assert_eq!(ask(&mut permissions, "ses_1", "per_d"), Some(id("per_d")));
}

#[test]
fn a_question_asked_twice_is_one_question() {
    let mut permissions = Permissions::default();
    assert_eq!(ask(&mut permissions, "ses_1", "per_a"), Some(id("per_a")));
    assert_eq!(ask(&mut permissions, "ses_1", "per_a"), None);
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}

#[test]
fn a_question_shown_anew_is_answered_under_its_new_request_only() {
    let mut permissions = Permissions::default();
    assert_eq!(permissions.withdraw_shown(&session("ses_1")), None);
    ask(&mut permissions, "ses_1", "per_a");
    assert_eq!(permissions.withdraw_shown(&session("ses_1")), None);
    let first = show(&mut permissions, "ses_1");
    assert_eq!(permissions.withdraw_shown(&session("ses_1")), Some(first.clone()));
    let second = show(&mut permissions, "ses_1");
    assert_eq!(permissions.answered(&first), None);
    assert_eq!(permissions.answered(&second), Some(asked("per_a")));
}

#[test]
fn nothing_is_shown_to_a_client_that_cannot_answer() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    ask(&mut permissions, "ses_1", "per_b");
    permissions.give_up();
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}

#[test]
fn settling_what_was_never_asked_is_nothing() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    assert_eq!(settle(&mut permissions, "per_x"), (None, None));
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}

#[test]
fn a_client_that_is_gone_is_shown_no_next_question() {
    let mut permissions = Permissions::default();
    ask(&mut permissions, "ses_1", "per_a");
    ask(&mut permissions, "ses_1", "per_b");
    assert!(!permissions.is_unanswerable());
    permissions.give_up();
    assert!(permissions.is_unanswerable());
    assert_eq!(settle(&mut permissions, "per_a"), (None, None));
}
