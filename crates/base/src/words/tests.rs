//! Search for words: matches and their positions.

use super::Words;

#[test]
fn every_word_must_occur_in_any_case() {
    let words = Words::new(["parser", "ÜBER"]).expect("words");
    assert!(words.are_in("Über den Parser"));
    assert!(!words.are_in("Über den Lexer"));
    assert_eq!(words.spans("Parser über Parsern"), [0..6, 7..12, 13..19]);
    assert!(Words::new(["", "  "]).is_none());
}

#[test]
fn overlapping_words_have_one_span() {
    let words = Words::new(["abc", "bcd"]).expect("words");
    assert_eq!(words.spans("xabcdx"), vec![1..5; 1]);
}

#[test]
fn words_are_found_in_escaped_json() {
    let words = Words::new(["say \"hi\"", "a.b"]).expect("words");
    assert!(words.may_be_in(r#"{"text":"say \"hi\" a.b"}"#));
    assert!(!words.may_be_in(r#"{"text":"say \"hi\" axb"}"#));
}

#[test]
fn the_best_line_has_the_most_words() {
    let words = Words::new(["fix", "parser"]).expect("words");
    assert_eq!(words.best_line("fix it\nfix the parser\nparser fix"), Some("fix the parser"));
    assert_eq!(words.best_line("nothing"), None);
}
