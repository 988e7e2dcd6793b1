//! The reading that is used, and the refusals.

use std::borrow::Cow;

use super::{MatchError, Replacer, replace, replace_with};

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
    // As OpenCode does: uniqueness is that of the text found, not of the reading.
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
    fn whole<'a>(content: &'a str, _old: &'a str) -> Vec<Cow<'a, str>> {
        vec![Cow::Borrowed(content)]
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
