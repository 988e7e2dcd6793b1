//! Search for words: matches and their positions.

use super::Words;

#[test]
fn every_word_has_to_be_there_in_any_case() {
    let words = Words::new(["parser", "ÜBER"]).expect("words");
    assert!(words.are_in("Über den Parser"));
    assert!(!words.are_in("Über den Lexer"));
    assert_eq!(words.spans("Parser über Parsern"), [0..6, 7..12, 13..19]);
    assert!(Words::new(["", "  "]).is_none());
}

#[test]
fn words_that_overlap_are_marked_once() {
    let words = Words::new(["abc", "bcd"]).expect("words");
    assert_eq!(words.spans("xabcdx"), vec![1..5; 1]);
}

#[test]
fn json_is_read_as_it_is_escaped() {
    let words = Words::new(["say \"hi\"", "a.b"]).expect("words");
    assert!(words.may_be_in(r#"{"text":"say \"hi\" a.b"}"#));
    assert!(!words.may_be_in(r#"{"text":"say \"hi\" axb"}"#));
}

#[test]
fn the_line_with_the_most_words_is_shown() {
    let words = Words::new(["fix", "parser"]).expect("words");
    assert_eq!(words.best_line("fix it\nfix the parser\nparser fix"), Some("fix the parser"));
    assert_eq!(words.best_line("nothing"), None);
}
