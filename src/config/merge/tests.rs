//! How one layer lies over another.

use serde_json::{Value, json};

use super::{merge, yield_rules};

/// Compares as text, because order matters.
#[track_caller]
fn check(lower: Value, upper: Value, expected: Value) {
    let (Value::Object(mut merged), Value::Object(upper)) = (lower, upper) else { panic!("objects only") };
    merge(&mut merged, &upper);
    assert_eq!(Value::Object(merged).to_string(), expected.to_string());
}

#[test]
fn objects_merge_and_everything_else_is_replaced() {
    check(json!({"a": 1, "b": 2}), json!({"a": 3, "c": 4}), json!({"a": 3, "b": 2, "c": 4}));
    check(
        json!({"a": {"b": {"c": 1}, "d": 2}}),
        json!({"a": {"b": {"e": 3}}}),
        json!({"a": {"b": {"c": 1, "e": 3}, "d": 2}}),
    );
    check(json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]}));
    check(json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2}));
    check(json!({"a": 2}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}}));
    check(json!({"a": 2}), json!({"a": null}), json!({"a": 2}));
    check(
        json!({"x": {"instructions": [1]}}),
        json!({"x": {"instructions": [2]}}),
        json!({"x": {"instructions": [2]}}),
    );
}

#[test]
fn instructions_and_plugins_are_joined_without_repeats() {
    check(
        json!({"instructions": ["a", "b"]}),
        json!({"instructions": ["b", "c"]}),
        json!({"instructions": ["a", "b", "c"]}),
    );
    check(
        json!({"plugin": ["p@1.0", "@scope/q@2", "file:///x@1.js"]}),
        json!({"plugin": [["@scope/q", {"a": 1}], "p@2.0", "file:///x@2.js"]}),
        json!({"plugin": ["file:///x@1.js", ["@scope/q", {"a": 1}], "p@2.0", "file:///x@2.js"]}),
    );
}

#[test]
fn rules_are_merged_like_everything_else_and_keep_their_places() {
    check(
        json!({"permission": {"bash": "allow", "*": "ask"}}),
        json!({"permission": {"bash": "deny"}}),
        json!({"permission": {"bash": "deny", "*": "ask"}}),
    );
    check(
        json!({"permission": {"bash": {"*": "ask", "rm *": "deny"}, "edit": "ask"}}),
        json!({"permission": {"bash": {"*": "allow", "ls": "ask"}}}),
        json!({"permission": {"bash": {"*": "allow", "rm *": "deny", "ls": "ask"}, "edit": "ask"}}),
    );
    check(
        json!({"permission": {"bash": "ask", "edit": "ask"}}),
        json!({"permission": {"bash": {"git *": "allow"}}}),
        json!({"permission": {"bash": {"git *": "allow"}, "edit": "ask"}}),
    );
    check(
        json!({"agent": {"a": {"permission": {"x": "ask", "y": "ask"}, "prompt": "1"}}}),
        json!({"agent": {"a": {"permission": {"x": "deny"}, "prompt": "2"}, "b": {}}}),
        json!({"agent": {"a": {"permission": {"x": "deny", "y": "ask"}, "prompt": "2"}, "b": {}}}),
    );
}

#[test]
fn what_the_administrator_says_stands_behind_the_rest() {
    let mut lower = json!({
        "permission": {"bash": {"rm *": "allow", "*": "allow"}, "edit": "allow", "*": "ask"},
        "agent": {"a": {"permission": {"x": "allow", "*": "ask"}}},
    });
    let managed = json!({
        "permission": {"bash": {"rm *": "deny"}, "edit": "deny"},
        "agent": {"a": {"permission": {"x": "deny"}}, "b": {"permission": "deny"}},
    });
    let (Value::Object(lower), Value::Object(managed)) = (&mut lower, &managed) else { panic!("objects") };
    yield_rules(lower, managed);
    merge(lower, managed);
    let expected = json!({
        "permission": {"bash": {"*": "allow", "rm *": "deny"}, "*": "ask", "edit": "deny"},
        "agent": {"a": {"permission": {"*": "ask", "x": "deny"}}, "b": {"permission": "deny"}},
    });
    assert_eq!(json!(lower).to_string(), expected.to_string());
}
