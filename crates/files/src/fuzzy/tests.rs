//! The order of paths, and paths that do not match.

use super::score;

#[track_caller]
fn check(typed: &str, paths: &[&str]) {
    let scores: Vec<Option<i32>> = paths.iter().map(|path| score(path, typed)).collect();
    assert!(scores.windows(2).all(|pair| pair[0] > pair[1]), "{typed}: {scores:?}");
}

#[test]
fn better_matches_come_first() {
    check("main", &["src/main.rs", "src/domain.rs", "my/api/notes.txt", "other.txt"]);
    check("fb", &["foo_bar.rs", "fable.rs"]);
    check("srv", &["server.rs", "services/very/deep/thing.rs", "none.txt"]);
    check("com", &["src/command.rs", ".opencode/command/say.md"]);
    check("Main", &["Main.java", "main.rs"]);
    check("src main", &["src/main.rs", "src/a.rs"]);
}

#[test]
fn letters_that_are_missing_or_out_of_order_do_not_match() {
    for (path, typed) in [("abc", "acb"), ("a.txt", "ma"), ("", "a"), ("main.rs", "MAIN")] {
        assert_eq!(score(path, typed), None, "{typed} in {path}");
    }
    assert!(score("any", "").is_some());
}
