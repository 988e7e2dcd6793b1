//! Accepted texts of JSON with comments, and positions of errors.

use serde_json::{Value, json};

use super::{Substitutes, parse, parse_value};

/// Returns the value and the problems as `line:column message`.
fn parsed(text: &str) -> (Value, Vec<String>) {
    let substitutes = Substitutes {
        variable: &|name| match name {
            "KEY" => Some("a\"b\\c\nd".to_owned()),
            "NUMBER" => Some("12345678901234".to_owned()),
            "NAME" => Some("prompt".to_owned()),
            _ => None,
        },
        file: &|path| match path {
            "./prompt.txt" => Ok("two\nlines".to_owned()),
            "./long.txt" => Ok("x".repeat(1 << 20)),
            other => Err(format!("no {other}")),
        },
    };
    let document = parse(text, &substitutes);
    let problems = document.problems.iter().map(|(offset, message)| {
        let before = &text[..*offset];
        let (line, column) =
            (before.split('\n').count(), before.rsplit('\n').next().unwrap().chars().count() + 1);
        format!("{line}:{column} {message}")
    });
    let problems = problems.collect();
    (Value::Object(document.value), problems)
}

#[track_caller]
fn check(text: &str, expected: Value) {
    assert_eq!(parsed(text), (expected, Vec::new()), "{text}");
}

#[track_caller]
fn check_broken(text: &str, expected: Value, problem: &str) {
    assert_eq!(parsed(text), (expected, vec![problem.to_owned()]), "{text}");
}

#[test]
fn comments_and_trailing_commas_are_read() {
    check(
        "{ // one\n \"a\": [1, 2.5, -3,], /* two */ \"b\": {\"c\": null,}, }",
        json!({"a": [1, 2.5, -3], "b": {"c": null}}),
    );
    check("", json!({}));
    check("  // nothing\n", json!({}));
    check(
        r#"{"a": "// no {comment} /* here", "b": "\"//\u00e9"}"#,
        json!({"a": "// no {comment} /* here", "b": "\"//é"}),
    );
}

#[test]
fn substitutions_are_values_whatever_they_hold() {
    check(r#"{"a": "x{env:KEY}y"}"#, json!({"a": "xa\"b\\c\ndy"}));
    check(r#"{"a": "{env:NOT_SET}"}"#, json!({"a": ""}));
    check(r#"{"a": {env:NUMBER}}"#, json!({"a": 12_345_678_901_234_u64}));
    check(r#"{"a": "{file:./prompt.txt}"}"#, json!({"a": "two\nlines"}));
    check("{\n// \"{file:gone}\"\n/* {file:gone} */ \"a\": 1}", json!({"a": 1}));
    check(r#"{"{env:KEY}": "{env:", "b": "{file"}"#, json!({"a\"b\\c\nd": "{env:", "b": "{file"}));
    check(
        r#"{"a": "{file:./{env:NAME}.txt}", "b": "{file:{env:"}"#,
        json!({"a": "two\nlines", "b": "{file:{env:"}),
    );
    check_broken(
        r#"{"a": "{file:{env:NOT_SET}/x}"}"#,
        json!({"a": ""}),
        "1:8 names a file by {env:NOT_SET}, which is not set; it counts as empty",
    );
    check_broken("{\n  \"a\": \"{file:gone}\", \"b\": 1}", json!({"a": "", "b": 1}), "2:9 no gone");
}

#[test]
fn a_source_that_grows_without_end_is_ignored_and_its_mistakes_are_counted_only_so_far() {
    let text = format!(r#"{{"a": [{}]}}"#, r#""{file:./long.txt}","#.repeat(40));
    check_broken(&text, json!({}), "1:1 is longer than 16 MiB with its files; all of it is ignored");
    let (value, problems) = parsed(&format!("{{{}}}", r#""a": 1,"#.repeat(50_000)));
    assert_eq!((value, problems.len()), (json!({"a": 1}), 20));
}

#[test]
fn errors_tell_line_and_column_of_the_text_as_written() {
    let empty = || json!({});
    check_broken(
        "{\n  \"a\": 1\n  \"b\": 2\n}",
        empty(),
        "2:9 is not valid JSON: expected comma; all of it is ignored",
    );
    check_broken(
        "{\"a\": \"{env:NUMBER}\" x}",
        empty(),
        "1:22 is not valid JSON: unexpected token; all of it is ignored",
    );
    check_broken("[1]", empty(), "1:1 is not a JSON object; all of it is ignored");
    check_broken(
        "{'a': 1}",
        empty(),
        "1:2 is not valid JSON: single-quoted strings are not allowed; all of it is ignored",
    );
    check_broken(
        "{\"a\": ",
        empty(),
        "1:7 is not valid JSON: expected value after colon in object property; all of it is ignored",
    );
    check_broken(
        "{} {}",
        empty(),
        "1:4 is not valid JSON: text cannot contain more than one JSON value; all of it is ignored",
    );
    check_broken("{\"é\": tru}", empty(), "1:7 is not valid JSON: unexpected token; all of it is ignored");
}

#[test]
fn deep_nesting_is_refused_before_it_is_parsed() {
    let text = format!("{{\"a\": {}", "[".repeat(1_000_000));
    check_broken(&text, json!({}), "1:1 is nested deeper than 100 levels; all of it is ignored");
}

#[test]
fn of_a_key_that_is_there_twice_the_last_counts_and_both_places_are_told() {
    check_broken(
        "{\n \"permission\": {\"bash\": \"deny\"},\n \"model\": \"a/b\",\n \"permission\": {\"edit\": \"ask\"}\n}",
        json!({"permission": {"edit": "ask"}, "model": "a/b"}),
        "4:2 permission: duplicate key, on line 2 and on line 4; the first is ignored",
    );
    check_broken(
        r#"{"a": {"b/c": 1, "b/c": 2}}"#,
        json!({"a": {"b/c": 2}}),
        "1:18 a.b/c: duplicate key, on line 1; the first is ignored",
    );
    check(r#"{"a": [{"b": 1}, {"b": 2}], "c": {"b": 3}}"#, json!({"a": [{"b": 1}, {"b": 2}], "c": {"b": 3}}));
    let document = parse_value("{\"x\": {\"y\": 1}, \"x\": 2}", "permission");
    assert!(!document.offsets.contains_key("/permission/x/y"), "{document:?}");
}

#[test]
fn a_text_may_be_any_value_of_a_key() {
    let value = |text: &str| Value::Object(parse_value(text, "permission").value);
    assert_eq!(value(" \"ask\" "), json!({"permission": "ask"}));
    assert_eq!(value("{\"bash\": \"{env:KEY}\"}"), json!({"permission": {"bash": "{env:KEY}"}}));
    let document = parse_value("{\n \"bash\": {\"*\": \"ask\"}}", "permission");
    assert_eq!(document.offsets["/permission/bash/*"], 12);
    assert!(parse_value("\"ask\", \"model\": \"a/b\"", "permission").is_broken);
    assert!(parse_value("{", "permission").is_broken);
}
