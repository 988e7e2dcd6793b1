//! Assembly of a prompt.

use super::message;

#[test]
fn what_was_piped_follows_the_arguments_behind_a_blank_line() {
    let said = |words: &[&str], piped: &str| message(&words.join(" "), piped.to_owned());
    assert_eq!(said(&["fix", "the bug"], ""), "fix the bug");
    assert_eq!(said(&["explain"], "  indented\nlog\n"), "explain\n\n  indented\nlog");
    assert_eq!(said(&[], "only this\n"), "only this");
    assert_eq!(said(&[" "], " \n"), "");
}
