//! The strictest layer decides.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};
use windlass_protocol::opencode::permission::{
    Action::{self, Allow, Ask, Deny},
    Rule,
};

use super::{Above, Origin, Policy};
use crate::config::rules::{last_match, read_rules, rule, strictest};

fn rules(value: &Value) -> Vec<Rule> {
    read_rules(value, Path::new("/h")).0
}

fn under(own: &Value, managed: &Value) -> Policy {
    Policy::new(rules(own)).with(Origin::Administrator, &rules(managed))
}

#[track_caller]
fn check(own: Value, managed: Value, expected: &[(&str, Action)]) {
    let policy = under(&own, &managed);
    for &(pattern, action) in expected {
        assert_eq!(policy.evaluate("bash", pattern), action, "{own} under {managed}: {pattern}");
    }
}

#[test]
fn nothing_is_looser_than_the_administrator_and_what_is_stricter_stays() {
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
    check(
        json!({"bash": {"*": "allow", "git *": "deny"}}),
        json!({"bash": {"*": "allow", "*--force*": "ask"}}),
        &[("git --force", Deny), ("git x", Deny), ("x --force", Ask), ("x", Allow)],
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

#[test]
fn what_is_appended_loosens_the_agent_and_its_floor_and_nothing_else() {
    let floor = rules(&json!({"edit": "deny", "task": "deny"}));
    let managed = rules(&json!({"edit": "deny"}));
    let plain = Policy::new(rules(&json!("allow"))).with(Origin::Floor, &floor);
    let mut loosened = plain.clone().with(Origin::Administrator, &managed);
    loosened.extend(&rules(&json!({"edit": "allow", "task": "allow"})));
    let verdicts = |policy: &Policy| ["edit", "task", "read"].map(|it| policy.evaluate(it, "x"));
    assert_eq!(verdicts(&plain), [Deny, Deny, Allow]);
    assert_eq!(verdicts(&loosened), [Deny, Allow, Allow]);
}

#[test]
fn each_session_above_denies_by_itself_exceptions_included() {
    let reader = Policy::new(rules(&json!({"*": "deny", "read": "allow"})));
    let git = Policy::new(rules(&json!({"*": "allow", "bash": {"*": "deny", "git *": "allow"}})));
    let child = || Policy::new(rules(&json!("allow")));
    let both = child().below(&[git.for_children(), reader.for_children()].concat());
    let only_git = child().below(&git.for_children());
    assert_eq!(["read", "edit"].map(|it| both.evaluate(it, "x")), [Allow, Deny]);
    assert_eq!(both.evaluate("bash", "git log"), Deny, "the upper level lifts nothing");
    assert_eq!(["git log", "rm x"].map(|it| only_git.evaluate("bash", it)), [Allow, Deny]);
    assert!(both.hides("edit") && !both.hides("read") && !only_git.hides("bash"));
    assert!(only_git.is_restricted("bash") && !only_git.is_restricted("edit"));
    assert_eq!(child().below(&Above::new()), child());
}

#[test]
fn a_question_above_is_none_below_and_a_list_is_each_sessions_own() {
    let asking: Above = vec![Arc::from(rules(&json!("ask")))];
    let denying: Above = vec![Arc::from(rules(&json!("deny")))];
    let child = |above: &Above| Policy::new(rules(&json!("allow"))).below(above);
    assert_eq!(child(&asking).evaluate("bash", "ls"), Allow);
    assert!(!child(&asking).is_restricted("bash") && !child(&asking).hides("bash"));
    let alone = child(&denying);
    assert!(!alone.hides("todowrite") && alone.evaluate("todowrite", "*") == Allow);
    assert!(alone.hides("task") && alone.evaluate("task", "general") == Deny);
}

#[test]
fn the_model_is_shown_the_rules_of_the_layer_that_denies() {
    let policy = under(&json!({"bash": "allow"}), &json!({"bash": {"rm *": "deny"}, "edit": "deny"}));
    assert_eq!(policy.denial("bash", "rm x"), [rule("bash", "rm *", Deny)]);
    assert_eq!(policy.last_match("bash", "rm x"), Some(&rule("bash", "rm *", Deny)));
    assert_eq!(policy.last_match("bash", "ls"), Some(&rule("bash", "*", Allow)));
    assert_eq!(Policy::default().evaluate("bash", "ls"), Ask, "without rules everything asks");
}

#[test]
fn restriction_agrees_with_the_verdicts_of_random_layers() {
    let (texts, patterns) = (["a", "a b", "b"], ["*", "a *", "a", "b", "* b"]);
    let permissions = ["*", "bash", "b*", "edit"];
    let mut state = 1_u64;
    let mut pick = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut random = |n: usize| -> Vec<Rule> {
        let one = |_| {
            let (permission, pattern) =
                (permissions[pick(permissions.len())], patterns[pick(patterns.len())]);
            rule(permission, pattern, [Allow, Ask, Deny][pick(3)])
        };
        (0..n).map(one).collect()
    };
    for _ in 0..20_000 {
        let own = [vec![rule("*", "*", Allow)], random(4)].concat();
        let managed = random(3);
        let policy = Policy::new(own.clone()).with(Origin::Administrator, &managed);
        for text in texts {
            let said = |rules: &[Rule]| last_match("bash", text, rules.iter()).map(|rule| rule.action);
            let expected = strictest(said(&own).unwrap(), said(&managed).unwrap_or(Allow));
            let verdict = policy.evaluate("bash", text);
            assert_eq!(verdict, expected, "{text}: {own:?} under {managed:?}");
            assert!(verdict == Allow || policy.is_restricted("bash"), "{own:?} under {managed:?}");
        }
    }
}
