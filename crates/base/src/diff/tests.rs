//! The patch text keeps the format that clients of OpenCode parse.

use super::{BLOCK, n_same_first, n_same_last, unified};

fn check(before: &str, after: &str, hunks: &str, additions: usize, deletions: usize) {
    let unified = unified("/p/a.txt", before, after);
    let head = format!("Index: /p/a.txt\n{}\n--- /p/a.txt\n+++ /p/a.txt\n", "=".repeat(67));
    assert_eq!(unified.patch, format!("{head}{hunks}"));
    assert_eq!((unified.additions, unified.deletions), (additions, deletions));
}

#[test]
fn a_changed_line() {
    check("hi\n", "ho\n", "@@ -1,1 +1,1 @@\n-hi\n+ho\n", 1, 1);
}

#[test]
fn a_new_file_starts_at_line_zero() {
    check("", "new\n", "@@ -0,0 +1,1 @@\n+new\n", 1, 0);
}

#[test]
fn equal_texts_have_no_hunk() {
    check("a\n", "a\n", "", 0, 0);
}

#[test]
fn a_missing_last_newline_is_reported() {
    check("a\nb", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n", 1, 1);
}

#[test]
fn four_lines_of_context_and_separate_hunks() {
    let before: String = (1..=30).map(|n| format!("{n}\n")).collect();
    let after = before.replace("\n6\n", "\nsix\n").replace("\n25\n", "\n");
    check(
        &before,
        &after,
        "@@ -2,9 +2,9 @@\n 2\n 3\n 4\n 5\n-6\n+six\n 7\n 8\n 9\n 10\n@@ -21,9 +21,8 @@\n 21\n 22\n 23\n 24\n-25\n 26\n 27\n 28\n 29\n",
        1,
        2,
    );
}

#[test]
fn carriage_returns_stay_in_the_lines() {
    check("a\r\n", "b\r\n", "@@ -1,1 +1,1 @@\n-a\r\n+b\r\n", 1, 1);
}

#[test]
fn equal_text_around_a_change_is_left_out() {
    let before: String = (1..=1000).map(|n| format!("{n}\n")).collect();
    let hunk = "@@ -496,9 +496,9 @@\n 496\n 497\n 498\n 499\n-500\n+5ü0\n 501\n 502\n 503\n 504\n";
    check(&before, &before.replace("\n500\n", "\n5ü0\n"), hunk, 1, 1);
    let hunk = "@@ -997,4 +997,5 @@\n 997\n 998\n 999\n 1000\n+1000\n";
    check(&before, &format!("{before}1000\n"), hunk, 1, 0);
    check(&before, &format!("0\n{before}"), "@@ -1,4 +1,5 @@\n+0\n 1\n 2\n 3\n 4\n", 1, 0);
}

#[test]
fn blocks_find_the_same_bytes_as_single_comparisons() {
    for n_before in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000] {
        for n_behind in [0, 1, BLOCK, 2 * BLOCK + 7] {
            let [old, new] =
                ["x", "yy"].map(|middle| [&"a".repeat(n_before), middle, &"b".repeat(n_behind)].concat());
            assert_eq!(n_same_first(old.as_bytes(), new.as_bytes()), n_before);
            assert_eq!(n_same_last(old.as_bytes(), new.as_bytes()), n_behind);
        }
        let text = "a".repeat(n_before);
        assert_eq!(n_same_first(text.as_bytes(), text.as_bytes()), n_before);
        assert_eq!(n_same_last(text.as_bytes(), text.as_bytes()), n_before);
    }
}
