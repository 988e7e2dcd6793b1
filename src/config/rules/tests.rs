//! How rules are written and matched.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Action, Rule, deciding, impose, read_rules, rule, rules_from_config, rules_from_tools, strictest,
    wildcard,
};

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
fn whatever_stands_before_and_whatever_is_imposed_the_stricter_holds() {
    let patterns = ["*", "git *", "git log *", "git log -x", "rm *", "*--force*", "*.env", "a?"];
    let texts =
        ["git", "git log", "git log -x", "git log --force", "rm --force", "rm .env", "ls", "ab", "git x.env"];
    let permissions = ["*", "bash", "b*", "edit"];
    let mut state = 1_u64;
    let mut pick = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut rules = |n: usize| -> Vec<Rule> {
        let rule = |_| {
            let (permission, pattern) =
                (permissions[pick(permissions.len())], patterns[pick(patterns.len())]);
            rule(permission, pattern, [Action::Allow, Action::Ask, Action::Deny][pick(3)])
        };
        (0..n).map(rule).collect()
    };
    for _ in 0..20_000 {
        let own = [vec![rule("*", "*", Action::Allow)], rules(4)].concat();
        let managed = rules(3);
        let mut all = own.clone();
        impose(&mut all, &managed);
        for text in texts {
            let said = |rules: &[Rule]| deciding("bash", text, rules.iter()).map(|rule| rule.action);
            let (own_says, managed_says) = (said(&own).unwrap(), said(&managed));
            let least = managed_says.map_or(own_says, |managed_says| strictest(own_says, managed_says));
            let holds = said(&all).unwrap();
            assert_eq!(strictest(holds, least), holds, "{text}: {own:?} under {managed:?} gives {all:?}");
        }
    }
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

#[test]
fn what_is_imposed_is_never_looser_than_what_stood_before() {
    let rules = |value: Value| read_rules(&value, Path::new("/h")).0;
    let decided = |own: &Value, managed: &Value, pattern: &str| {
        let mut all = rules(own.clone());
        impose(&mut all, &rules(managed.clone()));
        deciding("bash", pattern, all.iter()).map(|rule| rule.action).unwrap()
    };
    let check = |own: Value, managed: Value, expected: &[(&str, Action)]| {
        for &(pattern, action) in expected {
            assert_eq!(decided(&own, &managed, pattern), action, "{own} under {managed}: {pattern}");
        }
    };
    use Action::{Allow, Ask, Deny};
    check(json!("allow"), json!({"bash": {"rm *": "deny"}}), &[("rm x", Deny), ("ls", Allow)]);
    check(
        json!({"*": "deny", "bash": {"ls": "allow"}}),
        json!({"bash": "ask"}),
        &[("ls", Ask), ("rm", Deny)],
    );
    check(json!({"bash": "allow"}), json!("ask"), &[("ls", Ask)]);
    check(
        json!({"*": "allow", "bash": {"*": "ask", "rm *": "deny", "rm x": "allow"}}),
        json!({"bash": {"rm *": "ask"}}),
        &[("ls", Ask), ("rm x", Ask), ("rm y", Deny)],
    );
    let force = json!({"bash": {"*": "allow", "*--force*": "ask"}});
    check(
        json!({"bash": {"*": "allow", "git *": "deny"}}),
        force,
        &[("git --force", Deny), ("x --force", Deny)],
    );
    let only_git = json!({"bash": {"*": "deny", "git *": "allow"}});
    check(json!("allow"), only_git.clone(), &[("git log", Allow), ("ls", Deny)]);
    check(json!("deny"), only_git.clone(), &[("git log", Deny)]);
    check(
        json!({"bash": {"*": "allow", "git push *": "ask", "git push -f": "deny"}}),
        only_git,
        &[("git log", Allow), ("git push x", Ask), ("git push -f", Deny), ("ls", Deny)],
    );
}
