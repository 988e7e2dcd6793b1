//! What a ruleset says of a request.

use windlass_protocol::opencode::permission::{Action, Rule};

use super::{Ask, Verdict, denied_message, evaluate, evaluate_all, is_tool_hidden, of_tool};
use crate::config::rules::{rule, wildcard};

fn ask(permission: &str, patterns: &[&str]) -> Ask {
    Ask {
        permission: permission.to_owned(),
        patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(),
        always: Vec::new(),
        metadata: Default::default(),
    }
}

#[test]
fn the_last_matching_rule_decides() {
    let rules = [
        rule("*", "*", Action::Allow),
        rule("bash", "*", Action::Ask),
        rule("bash", "git *", Action::Allow),
        rule("bash", "git push *", Action::Deny),
    ];
    let actual: Vec<Action> = [("read", "x"), ("bash", "ls"), ("bash", "git"), ("bash", "git push -f")]
        .iter()
        .map(|(permission, pattern)| evaluate(permission, pattern, &rules))
        .collect();
    assert_eq!(actual, [Action::Allow, Action::Ask, Action::Allow, Action::Deny]);
    assert_eq!(evaluate("read", "x", &[]), Action::Ask);
}

#[test]
fn one_denied_pattern_denies_and_all_must_be_allowed() {
    let agent = [rule("bash", "*", Action::Ask), rule("read", "*", Action::Allow)];
    let session = [rule("bash", "ls *", Action::Allow), rule("bash", "rm *", Action::Deny)];
    let rules = [agent.as_slice(), session.as_slice()].concat();
    let approvals = [rule("bash", "git *", Action::Allow)];
    let verdict = |patterns: &[&str]| evaluate_all(&ask("bash", patterns), &rules, &approvals);
    let denied = Verdict::Deny { rules: vec![agent[0].clone(), session[0].clone(), session[1].clone()] };
    assert_eq!(verdict(&["ls -a"]), Verdict::Allow);
    assert_eq!(verdict(&["ls", "make"]), Verdict::Ask);
    assert_eq!(verdict(&["ls", "git log"]), Verdict::Allow);
    assert_eq!(verdict(&["make", "rm x"]), denied);
    assert_eq!(verdict(&[]), Verdict::Allow);
}

#[test]
fn an_approval_never_lifts_a_deny() {
    let rules = [rule("bash", "git push *", Action::Deny)];
    let approvals = [rule("bash", "git *", Action::Allow)];
    let verdict = evaluate_all(&ask("bash", &["git push -f"]), &rules, &approvals);
    assert_eq!(verdict, Verdict::Deny { rules: rules.to_vec() });
}

#[test]
fn the_model_reads_the_rules_that_denied_it() {
    assert_eq!(
        denied_message(&[rule("bash", "rm *", Action::Deny)]),
        "The user has specified a rule which prevents you from using this specific tool call. Here are some of \
         the relevant rules [{\"permission\":\"bash\",\"pattern\":\"rm *\",\"action\":\"deny\"}]"
    );
}

#[test]
fn a_tool_is_hidden_when_its_last_rule_denies_everything() {
    let deny_all = [rule("*", "*", Action::Deny)];
    let with_exception = [rule("edit", "*", Action::Deny), rule("edit", "plans/*", Action::Allow)];
    let denied_path = [rule("edit", "src/*", Action::Deny)];
    assert!(is_tool_hidden("task", &deny_all));
    assert!(!is_tool_hidden("edit", &with_exception));
    assert!(!is_tool_hidden("edit", &denied_path));
    assert!(!is_tool_hidden("edit", &[]));
    assert_eq!([of_tool("write"), of_tool("apply_patch"), of_tool("bash")], ["edit", "edit", "bash"]);
}

#[test]
fn wildcard_and_evaluate_agree_with_the_naive_model() {
    let mut generator = Generator(7);
    let alphabet = ['a', 'b', ' ', '/', '\\', '*', '?', 'é', '\n'];
    let mut n_matches = 0;
    for _ in 0..20_000 {
        let pattern = generator.word(&alphabet, 7);
        let text = generator.word(&['a', 'b', ' ', '/', '\\', 'é', '\n'], 8);
        let expected = naive_wildcard(&pattern, &text);
        n_matches += usize::from(expected);
        assert_eq!(wildcard(&pattern, &text), expected, "{pattern:?} on {text:?}");
    }
    assert!(n_matches > 500, "{n_matches}");
    for _ in 0..2_000 {
        let rules: Vec<Rule> = (0..generator.below(6))
            .map(|_| {
                let action = [Action::Allow, Action::Ask, Action::Deny][generator.below(3)];
                rule(&generator.word(&['a', 'b', '*'], 2), &generator.word(&['a', 'b', '*', ' '], 4), action)
            })
            .collect();
        let permission = generator.word(&['a', 'b'], 2);
        let pattern = generator.word(&['a', 'b', ' '], 4);
        let mut expected = Action::Ask;
        for rule in &rules {
            if naive_wildcard(&rule.permission, &permission) && naive_wildcard(&rule.pattern, &pattern) {
                expected = rule.action;
            }
        }
        assert_eq!(evaluate(&permission, &pattern, &rules), expected, "{permission:?} {pattern:?} {rules:?}");
    }
}

/// Recursive and exponential, but plainly what §4.1 says.
fn naive_wildcard(pattern: &str, text: &str) -> bool {
    fn matches(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], _) => text.is_empty(),
            (['*', rest @ ..], _) => (0..=text.len()).any(|n_swallowed| matches(rest, &text[n_swallowed..])),
            (['?', rest @ ..], [_, text @ ..]) => matches(rest, text),
            ([expected, rest @ ..], [actual, text @ ..]) => expected == actual && matches(rest, text),
            (_, []) => false,
        }
    }
    let chars = |text: &str| -> Vec<char> { text.replace('\\', "/").chars().collect() };
    let (pattern, text) = (chars(pattern), chars(text));
    matches(&pattern, &text) || pattern.strip_suffix(&[' ', '*']).is_some_and(|rest| matches(rest, &text))
}

struct Generator(u64);

impl Generator {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    fn word(&mut self, alphabet: &[char], max_len: usize) -> String {
        let len = self.below(max_len + 1);
        (0..len).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}
