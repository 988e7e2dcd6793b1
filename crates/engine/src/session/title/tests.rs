//! Texts that become a title.

use super::{clean, default, is_default};

#[test]
fn the_first_line_behind_the_thought_is_the_title() {
    assert_eq!(clean("<think>hm\nhm</think>\n\n Fix the parser \nmore").as_deref(), Some("Fix the parser"));
    assert_eq!(clean("  \n"), None);
}

#[test]
fn a_long_title_is_cut_to_a_hundred_characters() {
    let title = clean(&"ä".repeat(140)).expect("title");
    assert_eq!(title.chars().count(), 100);
    assert!(title.ends_with("..."));
}

#[test]
fn a_fresh_session_has_the_default_title() {
    assert_eq!(default(1_790_000_000_000, false), "New session - 2026-09-21T14:13:20.000Z");
    assert!(is_default(&default(0, true)));
    assert!(!is_default("Fix the parser"));
}
