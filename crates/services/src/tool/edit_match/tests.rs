//! The chosen reading, and the refusals.

use std::borrow::Cow;

use super::{Content, MatchError, REPLACERS, Replacer, replace, replace_with};
use crate::tool::fake::Numbers;

fn check(content: &str, old: &str, new: &str, expected: Result<&str, MatchError>) {
    assert_eq!(replace(content, old, new, false), expected.map(str::to_owned), "{old:?} in {content:?}");
}

#[test]
fn one_place_is_replaced() {
    check("a b c", "b", "x", Ok("a x c"));
    check("a b b", "b", "x", Err(MatchError::Ambiguous));
    check("aaa", "aa", "x", Err(MatchError::Ambiguous));
    check("a b c", "d", "x", Err(MatchError::NotFound));
    check("a b c", "b", "$&\\1", Ok("a $&\\1 c"));
}

#[test]
fn lines_are_found_by_their_trimmed_text() {
    check("if x {\n    y();\n}\n", "  y(); ", "    z();", Ok("if x {\n    z();\n}\n"));
    check("\tif x {\n\t\ty();\n\t}\n", "if x {\ny();\n}\n", "z\n", Ok("z\n"));
    check("\tif x {\n\t\ty();\n\t}\n", "if x {\ny();\n}", "z", Ok("z\n"));
    check("\ta\nb\n\ta\n", "a   ", "x", Err(MatchError::Ambiguous));
    check("  a\nb\n", "a\n   \nb", "x", Err(MatchError::NotFound));
}

#[test]
fn the_first_of_two_loose_matches_wins_when_its_text_is_unique() {
    // As in OpenCode, the text found must be unique, not the reading.
    check("  a\nb\n a\n", "a   ", "x", Ok("x\nb\n a\n"));
}

#[test]
fn blank_lines_mean_no_place() {
    check("a\n\nb\n", "  \n\t", "x", Err(MatchError::NotFound));
    check("a\n", "", "x", Err(MatchError::NotFound));
}

#[test]
fn every_occurrence_is_replaced_on_request() {
    assert_eq!(replace("a b a", "a", "x", true), Ok("x b x".to_owned()));
    assert_eq!(replace("a b a", "c", "x", true), Err(MatchError::NotFound));
}

#[test]
fn a_loose_match_must_not_swallow_much_more() {
    fn whole<'a>(content: &Content<'a>, _old: &'a str) -> Vec<Cow<'a, str>> {
        vec![Cow::Borrowed(content.text)]
    }
    let check = |content: &str, old: &str, is_refused: bool| {
        let loose = [Replacer { name: "whole", is_exact: false, candidates: whole }];
        let expected = if is_refused { Err(MatchError::TooLarge) } else { Ok("x".to_owned()) };
        assert_eq!(replace_with(&loose, content, old, "x", false), expected);
    };
    check("1\n2\n3\n4", "1", true);
    check("1\n2\n3", "1", false);
    check("1\n2\n3\n4\n5\n6\n7\n8", "1\n2\n3\n4", true);
    check("1\n2\n3\n4\n5\n6\n7", "1\n2\n3\n4", false);
    check(&format!("a\n{}", "b".repeat(502)), "a\nb", true);
    check(&format!("a{}", "b".repeat(600)), "a", false);
}

/// Checks the candidates of one reading.
#[track_caller]
fn offers(name: &str, content: &str, old: &str, expected: &[&str]) {
    let replacer = REPLACERS.iter().find(|replacer| replacer.name == name).expect("a replacer");
    let candidates = (replacer.candidates)(&Content::new(content), old);
    assert_eq!(candidates, expected, "{old:?} in {content:?}");
}

#[test]
fn the_readings_go_from_strict_to_loose() {
    let names: Vec<&str> = REPLACERS.iter().map(|replacer| replacer.name).collect();
    assert_eq!(
        names,
        [
            "simple",
            "line-trimmed",
            "block-anchor",
            "whitespace-normalized",
            "indentation-flexible",
            "escape-normalized",
            "trimmed-boundary",
            "context-aware",
            "multi-occurrence",
        ]
    );
}

#[test]
fn simple_offers_the_text_itself() {
    offers("simple", "abc", "b", &["b"]);
    offers("multi-occurrence", "bab", "b", &["b"]);
}

#[test]
fn line_trimmed_offers_whole_lines() {
    offers("line-trimmed", "  a\n\tb\n", "a\nb", &["  a\n\tb"]);
    offers("line-trimmed", "  a\r\n\tb\r\n", "a\nb\n", &["  a\r\n\tb\r\n"]);
    offers("line-trimmed", "a \n a\n", "a", &["a ", " a"]);
    offers("line-trimmed", "ab\n", "a", &[]);
}

#[test]
fn block_anchor_takes_the_block_that_is_most_alike() {
    let content = "fn a() {\n    let x = 10;\n}\nfn a() {\n    let y = 200;\n}\n";
    offers("block-anchor", content, "fn a() {\n  let y = 201;\n}", &["fn a() {\n    let y = 200;\n}"]);
    offers("block-anchor", content, "fn a() {\n  something else\n}", &[]);
    offers("block-anchor", content, "fn a() {\n}", &[]);
    // One line more or less is within a quarter, at least one; two are not.
    offers("block-anchor", "{\nsame\nmore\n}\n", "{\nsame\n}\n", &["{\nsame\nmore\n}\n"]);
    offers("block-anchor", "{\nsame\nmore\nmore\n}\n", "{\nsame\n}\n", &[]);
    // Blank lines are equal to each other, and letters are not bytes.
    offers("block-anchor", "{\n\nääää\n}\n", "{\n  \nääaä\n}", &["{\n\nääää\n}"]);
    // Exactly at the bound: 13 of 20 letters.
    offers(
        "block-anchor",
        "{\naaaaaaaaaaaaabbbbbbb\n}",
        "{\naaaaaaaaaaaaaccccccc\n}",
        &["{\naaaaaaaaaaaaabbbbbbb\n}"],
    );
    offers("block-anchor", "{\naaaaaaaaaaaabbbbbbbb\n}", "{\naaaaaaaaaaaacccccccc\n}", &[]);
}

#[test]
fn whitespace_normalized_offers_lines_parts_and_blocks() {
    offers("whitespace-normalized", "  a   =  b\n", "a = b", &["  a   =  b"]);
    offers("whitespace-normalized", "if a   =\tb {\n", "a = b", &["a   =\tb"]);
    offers("whitespace-normalized", "if ab = b {\n", "a = b", &[]);
    offers("whitespace-normalized", "a  b\n c d\n", "a b\nc   d\n", &["a  b\n c d\n"]);
    offers("whitespace-normalized", "a\nb c\n", "a b\nc", &["a\nb c"]);
    offers("whitespace-normalized", "a b\n", " \n ", &[]);
}

#[test]
fn indentation_flexible_moves_a_block_as_a_whole() {
    let content = "    if x {\n        y\n    }\n";
    offers("indentation-flexible", content, "if x {\n    y\n}\n", &[content]);
    offers("indentation-flexible", content, "if x {\n  y\n}\n", &[]);
}

#[test]
fn escape_normalized_reads_backslashes() {
    offers("escape-normalized", "a\n\tb\n", "a\\n\\tb", &["a\n\tb"]);
    offers("escape-normalized", "say(\\\"hi\\\")\n", "say(\"hi\")", &["say(\\\"hi\\\")"]);
    offers("escape-normalized", "a\\xb\n", "a\\xb", &["a\\xb"]);
    offers("escape-normalized", "ab\n", "\\n\\t", &[]);
}

#[test]
fn trimmed_boundary_drops_surrounding_whitespace() {
    offers("trimmed-boundary", "x a b y\n", "\n a b \n", &["a b"]);
    offers("trimmed-boundary", "\n  a\n\nb\n", "a\n\n", &["a", "\n  a", "  a\n"]);
    offers("trimmed-boundary", "a\n", "a", &[]);
    offers("trimmed-boundary", "a\n", "  ", &[]);
}

#[test]
fn context_aware_wants_both_ends_and_half_of_the_rest() {
    let content = "{\n  one\n  two\n}\n";
    offers("context-aware", content, "{\none\nsomething\n}\n", &[content]);
    offers("context-aware", content, "{\nnone\nsomething\n}\n", &[]);
    offers("context-aware", content, "{\none\n}\n", &[]);
    offers("context-aware", content, "[\none\ntwo\n}\n", &[]);
}

#[test]
fn loose_readings_are_used_in_order() {
    // Not similar enough for the anchors; half of the lines are equal for the context.
    check(
        "f {\n  keep();\n  xxxxxxxxxxxxxxxxxxxx\n}\n",
        "f {\n  keep();\n  yyyyyyyyyyyyyyyyyyyy\n}\n",
        "g\n",
        Ok("g\n"),
    );
    check("a = 1;\nb   =  2;\n", "b = 2;", "c", Ok("a = 1;\nc\n"));
    check("print(\"a\tb\")\n", "\\\"a\\tb\\\"", "x", Ok("print(x)\n"));
}

#[test]
fn an_edit_touches_nothing_outside_its_span() {
    const PIECES: &[&str] = &[
        "a", "b", "ä", "{", "}", " ", "  ", "\t", "\n", "\n", "\n", "\r\n", "\\n", "\\", "\"", "let x", "…",
    ];
    const MARK: &str = "\u{1}new\u{1}";
    let mut numbers = Numbers::new();
    let mut n_replaced = 0;
    for _ in 0..20_000 {
        let n_pieces = 1 + numbers.below(30);
        let pieces: Vec<&str> = (0..n_pieces).map(|_| numbers.pick(PIECES)).collect();
        let content = pieces.concat();
        let start = numbers.below(n_pieces);
        let end = start + 1 + numbers.below(n_pieces - start);
        // The model's memory differs slightly from the file.
        let mut remembered = pieces[start..end].to_vec();
        for _ in 0..numbers.below(3) {
            let place = numbers.below(remembered.len());
            remembered[place] = numbers.pick(PIECES);
        }
        let old = remembered.concat();
        let Ok(after) = replace(&content, &old, MARK, false) else { continue };
        n_replaced += 1;
        let (before, behind) = after.split_once(MARK).expect("the new text is there");
        assert!(!behind.contains(MARK));
        let n_kept = before.len() + behind.len();
        assert!(
            content.starts_with(before) && content.ends_with(behind) && n_kept < content.len(),
            "{old:?} in {content:?} gave {after:?}"
        );
        let span = &content[before.len()..content.len() - behind.len()];
        assert!(span == old || !super::is_much_larger(span, &old), "{old:?} took {span:?}");
    }
    assert!(n_replaced > 5000, "only {n_replaced} edits found their place");
}

#[test]
fn a_large_file_of_equal_lines_does_not_hold_the_tool_up() {
    // Every line is an anchor and nothing is found: the worst case of each reading.
    let content = "  x = y\n".repeat(200_000);
    let old = format!("{}z", "x = y\n".repeat(500));
    let begun = std::time::Instant::now();
    assert_eq!(replace(&content, &old, "new", false), Err(MatchError::NotFound));
    // Generous, for unoptimized builds on busy machines; a quadratic search takes minutes.
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn replacements_that_would_make_a_file_too_large_are_not_made() {
    let content = "a".repeat(600_000);
    let check = |n_new: usize, expected: Option<usize>| {
        let replaced = replace(&content, "a", &"b".repeat(n_new), true);
        assert_eq!(replaced.map(|it| it.len()), expected.ok_or(MatchError::TooLong), "{n_new}");
    };
    check(100, Some(60_000_000));
    check(800, None);
    check(600_000, None);
}
