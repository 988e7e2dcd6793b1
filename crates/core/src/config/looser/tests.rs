//! Changes of rules that loosen them.

use windlass_protocol::opencode::permission::{Action, Rule};

use super::looser;
use crate::config::{
    policy::{Origin, Policy},
    rules::rule,
};

/// Parses rules such as `bash git *: allow`, one a line; a rule without a pattern is about everything.
fn rules(text: &str) -> Vec<Rule> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let rules = lines.map(|line| {
        let (about, action) = line.rsplit_once(": ").expect("an action");
        let (permission, pattern) = about.split_once(' ').unwrap_or((about, "*"));
        let action = match action {
            "allow" => Action::Allow,
            "ask" => Action::Ask,
            "deny" => Action::Deny,
            other => panic!("{other} is no action"),
        };
        rule(permission, pattern, action)
    });
    rules.collect()
}

fn check(old: &str, new: &str, expected: &[&str]) {
    let found = looser(&Policy::new(rules(old)), &Policy::new(rules(new)));
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "from\n{old}\nto\n{new}");
}

#[test]
fn a_changed_action_loosens_in_one_direction() {
    check("bash: ask", "bash: allow", &["`bash` for `*`: ask → allow"]);
    check("bash: deny", "bash: ask", &["`bash` for `*`: deny → ask"]);
    check("bash: allow", "bash: ask", &[]);
    check("bash: ask", "bash: deny", &[]);
    check("*: allow", "*: allow", &[]);
}

#[test]
fn a_denial_that_goes_loosens_unless_another_holds() {
    check("*: allow\nbash rm *: deny", "*: allow", &["`bash` for `rm *`: deny → allow"]);
    check("*: ask\nbash rm *: deny", "*: ask", &["`bash` for `rm *`: deny → ask"]);
    check("*: allow\nbash rm *: deny", "*: allow\nbash: deny", &[]);
    check("*: allow\nbash rm -rf *: deny", "*: allow\nbash rm *: deny", &[]);
    // Never in force: a later rule spoke of the same.
    check("bash rm *: deny\n*: allow", "*: allow", &[]);
}

#[test]
fn what_is_allowed_more_loosens_unless_it_was_allowed_before() {
    check("*: ask", "*: ask\nbash git push: allow", &["`bash` for `git push`: ask → allow"]);
    check("*: allow", "*: allow\nbash git push: allow", &[]);
    check("*: allow\nbash rm *: deny", "*: allow\nbash rm *: deny\nbash git push *: allow", &[]);
    check("", "bash: allow", &["`bash` for `*`: ask → allow"]);
    check("bash git *: allow", "", &[]);
    check("bash git *: allow", "bash git *: allow\nedit: deny", &[]);
}

#[test]
fn order_counts() {
    let (denied, allowed) = ("bash git *: deny", "bash * status: allow");
    check(&format!("{allowed}\n{denied}"), &format!("{allowed}\n{denied}"), &[]);
    check(&format!("{denied}\n{allowed}"), &format!("{allowed}\n{denied}"), &[]);
    check(
        &format!("{allowed}\n{denied}"),
        &format!("{denied}\n{allowed}"),
        &["`bash` for `* status`: deny → allow"],
    );
    check("*: allow\nbash: deny", "bash: deny\n*: allow", &["`bash` for `*`: deny → allow"]);
}

#[test]
fn an_ask_behind_a_denial_loosens_it() {
    check("bash rm *: deny", "bash rm *: deny\nbash: ask", &["`bash` for `rm *`: deny → ask"]);
    check("*: allow\nedit: deny", "*: allow\nedit: deny\nbash: ask", &[]);
}

#[test]
fn what_another_layer_holds_is_not_looser() {
    let floor = rules("edit: deny\nedit plans/*: allow");
    let agent = |text: &str| {
        let nature = rules("*: allow\nedit: deny\nedit plans/*: allow");
        Policy::new([nature, rules(text)].concat()).with(Origin::Floor, &floor)
    };
    assert_eq!(looser(&agent(""), &agent("edit: allow")), []);
    assert_eq!(looser(&agent("bash: ask"), &agent("bash: allow")).len(), 1);
    let without = Policy::new(rules("*: allow"));
    let administered = without.clone().with(Origin::Administrator, &rules("bash rm *: deny"));
    assert_eq!(looser(&without, &administered), []);
    let found = looser(&administered, &without);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["`bash` for `rm *`: deny → allow"]
    );
}
