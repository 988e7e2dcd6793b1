//! Display of a line with the words.

use windlass_base::words::Words;

use super::{around, mark};
use crate::cli::view::look::Look;

#[test]
fn words_are_marked_where_there_are_colours() {
    let words = Words::new(["fix", "parser"]).expect("words");
    let marked = mark("Fix the parser", &words, &Look::full());
    assert!(marked.contains("Fix\u{1b}[0m the \u{1b}[") && marked.ends_with("parser\u{1b}[0m"), "{marked:?}");
    assert_eq!(mark("Fix the parser", &words, &Look::plain()), "Fix the parser");
}

#[test]
fn a_long_line_is_cut_around_its_first_word() {
    let words = Words::new(["parser"]).expect("words");
    assert_eq!(around("a parser", &words), "a parser");
    let line = format!("{} parser {}", "ä".repeat(300), "b".repeat(300));
    let shown = around(&line, &words);
    assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains(" parser "), "{shown}");
}
