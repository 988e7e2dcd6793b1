//! Values of front matter, and positions of its errors.

use serde_json::{Value, json};

use super::split;

/// Checks the value of a front matter, or the position of its error.
fn check(yaml: &str, expected: Value) {
    let text = format!("---\n{yaml}\n---\nbody");
    let found = match split(&text) {
        Ok(front_matter) => Value::Object(front_matter.data),
        Err(err) => Value::String(err.to_string()),
    };
    assert_eq!(found, expected, "{yaml}");
}

#[test]
fn a_file_is_split_at_its_fences() {
    let check = |text: &str, data: Value, body: &str| {
        let front_matter = split(text).unwrap();
        assert_eq!((Value::Object(front_matter.data), front_matter.body.as_str()), (data, body), "{text:?}");
    };
    check("---\na: 1\n---\n\nText\n---\nmore", json!({"a": 1}), "\nText\n---\nmore");
    check("\u{feff}---\r\na: 1\r\n---\r\nText\r\n", json!({"a": 1}), "Text\r\n");
    check("---\n---", json!({}), "");
    check("---\n# only a comment\n---\nText", json!({}), "Text");
    check("Text\n---\na: 1\n---\n", json!({}), "Text\n---\na: 1\n---\n");
    check("", json!({}), "");
    check("----\na: 1\n---\n", json!({}), "----\na: 1\n---\n");
}

#[test]
fn values_have_the_types_of_the_core_schema() {
    check(
        "int: 20\nhex: 0x1F\nfloat: 0.5\nexponent: 1e3\nnone:\ntilde: ~\nyes: true\nno: no\ntext: '1'\nversion: 1.2.3\nsign: +\ndate: 2024-01-02\nnan: .nan",
        json!({
            "int": 20, "hex": 31, "float": 0.5, "exponent": 1000.0, "none": null, "tilde": null, "yes": true,
            "no": "no", "text": "1", "version": "1.2.3", "sign": "+", "date": "2024-01-02", "nan": ".nan",
        }),
    );
    check(
        "list: [a, \"b\"]\nlines:\n  - x\n  - y: 1\nblock: |\n  one\n  two\nfolded: >-\n  one\n  two\n1: number",
        json!({
            "list": ["a", "b"], "lines": ["x", {"y": 1}], "block": "one\ntwo\n", "folded": "one two", "1": "number",
        }),
    );
    check("base: &base {a: 1}\nother: *base", json!({"base": {"a": 1}, "other": {"a": 1}}));
}

#[test]
fn keys_keep_their_order_and_their_places() {
    let text = "---\npermission:\n  bash:\n    \"*\": ask\n    git *: allow\n  edit: deny\nlist:\n- a\n- b: 1\n---\n";
    let front_matter = split(text).unwrap();
    let bash = front_matter.data["permission"]["bash"].as_object().unwrap();
    assert_eq!(bash.keys().collect::<Vec<_>>(), ["*", "git *"]);
    let places = ["/permission", "/permission/bash/*", "/permission/edit", "/list/0", "/list/1/b"]
        .map(|pointer| front_matter.key_lines[pointer]);
    assert_eq!(places, [(2, 1), (4, 5), (6, 3), (8, 3), (9, 3)]);
}

#[test]
fn what_people_write_is_understood_at_the_second_try() {
    check(
        "description: Use this agent when: tests fail\nmodel: a/b:free\nmode: subagent",
        json!({"description": "Use this agent when: tests fail", "model": "a/b:free", "mode": "subagent"}),
    );
    check("description: @docs and `code`", json!({"description": "@docs and `code`"}));
    check("description: *very* good: yes", json!({"description": "*very* good: yes"}));
    check("description: [beta] helps", json!({"description": "[beta] helps"}));
    check(
        "permission:\n  *: deny\n  bash:\n    *.sh: ask\nsteps: 3",
        json!({"permission": {"*": "deny", "bash": {"*.sh": "ask"}}, "steps": 3}),
    );
    check(
        "text: |\n  a: b: c\n  *: x\ndescription: Say: \"no\"",
        json!({"text": "a: b: c\n*: x\n", "description": "Say: \"no\""}),
    );
}

#[test]
fn errors_name_their_line_and_column() {
    let error = |yaml: &str| split(&format!("---\n{yaml}\n---\n")).unwrap_err();
    let place = |yaml: &str| (error(yaml).line, error(yaml).column);
    assert_eq!(place("mode: primary\ndescription: \"open\nmore: 1").0, 3);
    assert_eq!(place("mode:\n\tsteps: 1").0, 3);
    assert_eq!(place("a: 1\nb: [1, 2\nc: 3").0, 4);
    check("a: 1\na: 2", json!("3:1: `a` is given twice"));
    check("- a\n- b", json!("2:1: the front matter is not a list of `key: value` lines"));
    check("a: *nowhere: x\nb: {", json!(error("a: *nowhere: x\nb: {").to_string()));
    check("? [a]\n: b", json!("2:3: a list or an object cannot be a key"));
    let open = split("---\na: 1\n").unwrap_err();
    assert_eq!(open.to_string(), "1:1: the front matter that begins here has no closing `---`");
}

#[test]
fn depth_and_aliases_are_bounded() {
    let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
    check(&deep, json!("2:35: is nested deeper than 32 levels"));
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]".to_owned();
    for level in 1..9 {
        let below = format!("*a{}", level - 1);
        bomb.push_str(&format!("\na{level}: &a{level} [{}]", [below.as_str(); 10].join(", ")));
    }
    let err = split(&format!("---\n{bomb}\n---\n")).unwrap_err();
    assert!(err.message.contains("more than") || err.message.contains("alias"), "{err}");
}

#[test]
fn a_tab_may_stand_behind_a_key() {
    check("description:\tx", json!({"description": "x"}));
    check(
        "description:\t Use this: it helps\nmode: \tall\noptions:\n  a:\t\t1",
        json!({"description": "Use this: it helps", "mode": "all", "options": {"a": 1}}),
    );
    check("a:\tx\nb: |\n  c:\td\n", json!({"a": "x", "b": "c:\td\n"}));
    check("a: b:\tc", json!({"a": "b:\tc"}));
    check("a: \"b:\tc\"\nd:\t'e'", json!({"a": "b:\tc", "d": "e"}));
    // Tabs that would nest something are refused by js-yaml too.
    let text = "---\na:\n\tb: 1\n---\n";
    assert!(split(text).is_err());
}

#[test]
fn a_merge_key_lays_objects_below_the_own_keys() {
    check(
        "d: &d\n  a: 1\n  b: 2\nx:\n  <<: *d\n  b: 3\ny:\n  b: 3\n  <<: *d",
        json!({"d": {"a": 1, "b": 2}, "x": {"a": 1, "b": 3}, "y": {"b": 3, "a": 1}}),
    );
    check("x:\n  <<: [{a: 1}, {a: 2, b: 2}]\n  <<: {c: 3}\n  c: 4", json!({"x": {"a": 1, "b": 2, "c": 4}}));
    check("x:\n  '<<': {a: 1}", json!({"x": {"<<": {"a": 1}}}));
    check("x:\n  <<: {a: 1}\n  a: 2\n  a: 3", json!("5:3: `a` is given twice"));
    check("x:\n  <<: text", json!("3:7: `<<` takes an object, or a list of them"));
    let split = split("---\nd: &d {bash: no}\npermission:\n  <<: *d\n---\n").unwrap();
    assert_eq!(split.key_lines.get("/permission/bash"), Some(&(4, 3)));
}
