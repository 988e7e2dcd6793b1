//! Keys typed at a permission, and the text it shows.

use serde_json::{Value, json};
use windlass_protocol::opencode::permission::Reply;

use super::{
    super::{
        super::view::{Draw, look::Look},
        Answer, Step,
        keyboard::Key,
    },
    PermissionDialog,
};

fn dialog(permission: &str, always: Value, metadata: Value) -> (PermissionDialog, String) {
    let request = json!({
        "id": "per_1", "sessionID": "ses_1", "permission": permission, "patterns": ["git log -1"],
        "metadata": metadata, "always": always,
    });
    let draw = Draw { look: &Look::plain(), width: 100 };
    PermissionDialog::new(&serde_json::from_value(request).expect("request"), &draw)
}

fn bash() -> PermissionDialog {
    dialog("bash", json!(["git log *"]), json!({"command": "git log -1"})).0
}

fn answered(step: Step) -> (Reply, Option<String>) {
    match step {
        Step::Done(_, Answer::Permission { reply, feedback }) => (reply, feedback),
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn the_exact_command_is_shown_with_the_keys() {
    let (_, text) = dialog("bash", json!(["git log *"]), json!({"command": "git log -1\necho \u{202e}x"}));
    assert_eq!(
        text,
        "? bash\n  $ git log -1\n    echo \\u{202e}x\n[y] once  [a] always: git log *  [n] no  [f] no, and say why › "
    );
    let diff = "Index: a.txt\n--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n-one\n+two\n three\n";
    let (_, text) = dialog("edit", json!(["*"]), json!({"filepath": "a.txt", "diff": diff}));
    assert_eq!(
        text,
        "? edit: a.txt\n  1 - one\n  1 + two\n  2   three\n[y] once  [a] always: every edit  [n] no  [f] no, and say why › "
    );
}

#[test]
fn a_servers_metadata_does_not_stand_for_what_is_asked() {
    let (_, text) = dialog("docs_delete", json!([]), json!({"command": "ls"}));
    assert!(
        text.starts_with("? docs_delete: git log -1\n  {\"command\":\"ls\"}\n[y] once  [n] no"),
        "{text}"
    );
}

#[test]
fn one_key_answers() {
    assert_eq!(answered(bash().keys(&[Key::Char('y')])), (Reply::Once, None));
    assert_eq!(answered(bash().keys(&[Key::Char('a')])), (Reply::Always, None));
    assert_eq!(answered(bash().keys(&[Key::Char('n')])), (Reply::Reject, None));
    assert_eq!(answered(bash().keys(&[Key::Escape])), (Reply::Reject, None));
    assert_eq!(bash().keys(&[Key::Enter]), Step::More(String::new()));
    let mut unrememberable = dialog("bash", json!([]), json!({"command": "ls"})).0;
    assert_eq!(unrememberable.keys(&[Key::Char('a')]), Step::More(String::new()));
}

#[test]
fn a_key_and_the_enter_behind_it_answer_and_more_is_a_paste() {
    assert_eq!(answered(bash().keys(&[Key::Char('a'), Key::Enter])), (Reply::Always, None));
    assert_eq!(answered(bash().keys(&[Key::Char('n'), Key::Enter])), (Reply::Reject, None));
    let yes = Key::Char('y');
    for pasted in
        [&[yes, yes][..], &[yes, Key::Enter, Key::Enter], &[Key::Enter, yes], &[yes, yes, Key::Enter]]
    {
        assert_eq!(bash().keys(pasted), Step::More(String::new()), "{pasted:?}");
    }
    let mut dialog = bash();
    assert_eq!(dialog.keys(&[Key::Char('f'), Key::Enter]), Step::More("no\nWhy: ".to_owned()));
}

#[test]
fn a_reason_can_be_typed() {
    let mut dialog = bash();
    assert_eq!(dialog.keys(&[Key::Char('f')]), Step::More("no\nWhy: ".to_owned()));
    let typed: Vec<Key> = "use jjx".chars().map(Key::Char).collect();
    assert_eq!(dialog.keys(&typed), Step::More("use jjx".to_owned()));
    dialog.keys(&[Key::Backspace]);
    assert_eq!(answered(dialog.keys(&[Key::Enter])), (Reply::Reject, Some("use jj".to_owned())));

    let mut dialog = bash();
    dialog.keys(&[Key::Char('f')]);
    let Step::More(again) = dialog.keys(&[Key::Escape]) else { panic!("going back answers nothing") };
    assert!(again.starts_with("\n[y] once"), "{again}");
    assert_eq!(answered(dialog.keys(&[Key::Char('y')])), (Reply::Once, None));
}
