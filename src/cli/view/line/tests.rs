//! Measuring, wrapping and writing of styled text.

use super::{BOLD, Line, PLAIN, RED, width, wrapped};
use crate::cli::view::look::{Colors, Look};

fn rows(rows: Vec<Line>) -> Vec<String> {
    rows.iter().map(Line::text).collect()
}

#[test]
fn words_stay_whole_and_wide_characters_take_two_columns() {
    let line = Line::new("one two three", PLAIN);
    assert_eq!(rows(line.wrap(8)), ["one two", "three"]);
    assert_eq!(rows(line.wrap(7)), ["one two", "three"]);
    assert_eq!(rows(line.wrap(4)), ["one", "two", "thre", "e"]);
    assert_eq!(rows(Line::new("你好世界", PLAIN).wrap(5)), ["你好", "世界"]);
    assert_eq!(width("e\u{301}你"), 3);
    assert_eq!(rows(Line::new("a  b", PLAIN).fold(2)), ["a ", " b"]);
}

#[test]
fn an_indented_line_goes_on_further_in() {
    let text = "one two three\n\n  /new  begin a new session";
    assert_eq!(rows(wrapped(text, 15)), ["one two three", "", "  /new  begin", "    a new", "    session"]);
}

#[test]
fn a_word_of_two_styles_is_one_word() {
    let line = Line::new("aa b", PLAIN).with("old", BOLD).with("er", PLAIN);
    let wrapped = line.wrap(7);
    assert_eq!(rows(wrapped.clone()), ["aa", "bolder"]);
    assert_eq!(wrapped[1].spans.len(), 3);
}

#[test]
fn a_cut_is_marked_and_never_splits_a_wide_character() {
    assert_eq!(Line::new("你好世界", PLAIN).cut(6).text(), "你好…");
    assert_eq!(Line::new("short", PLAIN).cut(5).text(), "short");
}

#[test]
fn nothing_that_steers_a_terminal_gets_through() {
    let line = Line::new("a\x1b[2Jb\u{202e}c\td\u{9b}\re", PLAIN);
    assert_eq!(line.text(), "a\\u{1b}[2Jb\\u{202e}c    d\\u{9b}e");
    assert_eq!(Line::new("👩\u{200d}💻❤\u{fe0f}", PLAIN).text(), "👩\u{200d}💻❤");
}

#[test]
fn colours_and_links_are_written_only_where_they_may_be() {
    let mut line = Line::new("red", RED.bold());
    line.push_link("file", PLAIN, Some("file://host/a".into()));
    let written = |look: &Look| {
        let mut bytes = String::new();
        line.encode(look, &mut bytes);
        bytes
    };
    assert_eq!(
        written(&Look::full()),
        "\x1b[1m\x1b[31mred\x1b[0m\x1b]8;;file://host/a\x1b\\file\x1b]8;;\x1b\\"
    );
    assert_eq!(written(&Look { colors: Colors::None, links: None, ..Look::full() }), "\x1b[1mred\x1b[0mfile");
    assert_eq!(written(&Look::plain()), "redfile");
}
