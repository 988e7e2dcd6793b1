//! Parsing and matching of rules.

use std::path::Path;

use serde_json::{Value, json};

use super::{read_rules, rules_from_config, rules_from_tools, wildcard};

fn rules(value: &Value) -> Vec<String> {
    let (rules, problems) = read_rules(value, Path::new("/home/u"));
    assert_eq!(problems, []);
    rules.iter().map(|rule| format!("{} {} {:?}", rule.permission, rule.pattern, rule.action)).collect()
}

#[test]
fn every_form_becomes_rules_in_order() {
    assert_eq!(rules(&json!("ask")), ["* * Ask"]);
    assert_eq!(
        rules(&json!({"edit": "deny", "bash": {"git *": "allow", "*": "ask"}, "*": "allow"})),
        ["edit * Deny", "bash git * Allow", "bash * Ask", "* * Allow"]
    );
    assert_eq!(
        rules(&json!({"read": {"~": "ask", "~/x": "ask", "$HOME/y": "ask", "~x": "ask", "a/~/b": "ask"}})),
        ["read /home/u Ask", "read /home/u/x Ask", "read /home/u/y Ask", "read ~x Ask", "read a/~/b Ask"]
    );
}

#[test]
fn a_wrong_action_is_told_and_asks() {
    let value = json!({"bash": {"rm *": "dney"}, "edit": 1, "read": "allow"});
    let (rules, problems) = read_rules(&value, Path::new("/"));
    let actions: Vec<String> = rules.iter().map(|rule| format!("{:?}", rule.action)).collect();
    assert_eq!(actions, ["Ask", "Ask", "Allow"]);
    let paths: Vec<&[String]> = problems.iter().map(|problem| problem.path.as_slice()).collect();
    assert_eq!(paths, [&["bash".to_owned(), "rm *".to_owned()][..], &["edit".to_owned()]]);
    assert_eq!(
        rules_from_config(&value, Path::new("/")),
        Err("bash.rm *: \"dney\" is not an action; use \"allow\", \"ask\" or \"deny\"".to_owned())
    );
}

#[test]
fn tools_switches_are_rules_of_their_permission() {
    let rules = rules_from_tools([("write", false), ("patch", true), ("bash", false)]);
    let rules: Vec<String> =
        rules.iter().map(|rule| format!("{} {:?}", rule.permission, rule.action)).collect();
    assert_eq!(rules, ["edit Deny", "edit Allow", "bash Deny"]);
}

#[test]
fn wildcards_match_whole_texts() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("*", "a\nb/c", true),
        ("git *", "git", true),
        ("git *", "git log", true),
        ("git *", "gitlog", false),
        ("git*", "gitlog", true),
        ("*.env", "a/b/.env", true),
        ("*.env", "x.env.local", false),
        ("a?c", "aéc", true),
        ("a?c", "ac", false),
        ("src\\*", "src/x", true),
        ("src/*", "src\\x", true),
        ("a.c", "abc", false),
        ("", "", true),
        ("", "a", false),
        ("*?", "é", true),
        ("*?é", "éé", true),
        ("Git", "git", false),
    ] {
        assert_eq!(wildcard(pattern, text), expected, "{pattern:?} on {text:?}");
    }
}

#[test]
fn many_stars_cost_little() {
    let pattern = "*a".repeat(500);
    let text = "a".repeat(499) + &"b".repeat(20_000);
    assert!(!wildcard(&pattern, &text));
}
