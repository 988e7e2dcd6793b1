//! Lines of sources, with a caret and without secrets.

use std::fs;

use super::{Found, Warning, draw, sort, token_len};

fn warning(source: &str, line: usize, column: usize) -> Warning {
    Warning {
        source: source.to_owned(),
        line: Some(line),
        column: Some(column),
        message: "is wrong".to_owned(),
    }
}

fn drawn(text: &str, name: &str, line: usize, column: usize) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join(name);
    fs::write(&file, text).unwrap();
    let warning = warning(file.to_str().unwrap(), line, column);
    let drawn = draw(&[Found { warning: &warning, is_note: false }], false);
    drawn.replace(file.to_str().unwrap(), "FILE")
}

#[test]
fn the_line_is_shown_with_a_caret_below_what_it_is_about() {
    assert_eq!(
        drawn("{\n  \"theem\": \"x\"\n}", "a.json", 2, 3),
        "FILE:2:3: is wrong\n  |\n2 |   \"theem\": \"x\"\n  |   ^^^^^^^\n"
    );
    assert_eq!(
        drawn("{\n  \"größe\": 15, // »\n}", "a.json", 2, 12),
        "FILE:2:12: is wrong\n  |\n2 |   \"größe\": 15, // »\n  |            ^^\n"
    );
}

#[test]
fn what_is_secret_in_the_line_is_masked_and_the_caret_moves_with_it() {
    assert_eq!(
        drawn("{\"apiKey\": \"a-long-secret\", \"theem\": 1}", "a.json", 1, 29),
        "FILE:1:29: is wrong\n  |\n1 | {\"apiKey\": \"********\", \"theem\": 1}\n  |                        ^^^^^^^\n"
    );
    // Nothing tells which part of a broken file is secret.
    assert_eq!(drawn("{\"apiKey\": \"a-long-secret\", x", "a.json", 1, 29), "FILE:1:29: is wrong\n");
    assert_eq!(
        drawn("{\"a\": \"b\", x", "a.json", 1, 12),
        "FILE:1:12: is wrong\n  |\n1 | {\"a\": \"b\", x\n  |            ^\n"
    );
}

#[test]
fn places_that_are_not_there_have_no_line() {
    for (line, column) in [(0, 1), (9, 1)] {
        assert_eq!(drawn("{}", "a.json", line, column), format!("FILE:{line}:{column}: is wrong\n"));
    }
    assert!(drawn("{}", "a.json", 1, 99).starts_with("FILE:1:99: is wrong\n"));
    assert_eq!(drawn("", "a.json", 1, 1), "FILE:1:1: is wrong\n");
    let variable = warning("OPENCODE_CONFIG_CONTENT", 1, 1);
    let drawn = draw(&[Found { warning: &variable, is_note: true }], false);
    assert_eq!(drawn, "OPENCODE_CONFIG_CONTENT:1:1: is wrong (note)\n");
}

#[test]
fn findings_are_in_the_order_of_the_sources_and_their_lines() {
    let warnings =
        [warning("b", 2, 1), warning("z", 1, 1), warning("a", 3, 1), warning("b", 1, 9), warning("b", 1, 2)];
    let mut found: Vec<Found> = warnings.iter().map(|warning| Found { warning, is_note: false }).collect();
    sort(&mut found, &["b".to_owned(), "a".to_owned()]);
    let order: Vec<String> = found.iter().map(|it| it.warning.to_string()).collect();
    assert_eq!(
        order,
        ["b:1:2: is wrong", "b:1:9: is wrong", "b:2:1: is wrong", "a:3:1: is wrong", "z:1:1: is wrong"]
    );
}

#[test]
fn tokens_end_where_json_ends_them() {
    for (text, len) in
        [("\"a\\\"b\": 1", 6), ("15, 2", 2), ("true}", 4), ("{}", 1), ("\"open", 5), ("", 0), ("é", 2)]
    {
        assert_eq!(token_len(text), len, "{text}");
    }
}
