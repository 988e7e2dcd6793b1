//! First words that are commands, and others.

use super::{Slash, unknown_command};

fn check(words: &str, expected: Option<Slash<'_>>) {
    assert_eq!(Slash::read(words, |name| ["review", "git/commit"].contains(&name)), expected, "{words}");
}

#[test]
fn only_a_first_word_that_looks_like_a_command_is_one() {
    check("/review src", Some(Slash::Known("review")));
    check("/git/commit", Some(Slash::Known("git/commit")));
    check("/rewiev", Some(Slash::Unknown("rewiev")));
    check("/review: src", Some(Slash::Unknown("review:")));
    check("/etc is a directory that exists", None);
    check("/home/ada/none is a path", None);
    check("/* a comment */", None);
    check(" /rewiev", None);
    check("see /rewiev", None);
    check("/", None);
    check("", None);
}

#[test]
fn a_near_name_is_offered() {
    let names = || ["review", "init"].into_iter();
    assert_eq!(unknown_command("reviw", names()), "There is no command `/reviw`; did you mean `/review`?");
    assert_eq!(unknown_command("zzz", names()), "There is no command `/zzz`");
}
