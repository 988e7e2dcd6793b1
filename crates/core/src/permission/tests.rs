//! Decisions of rulesets about requests.

use windlass_protocol::opencode::permission::{Action, Rule};

use super::{Ask, Verdict, denied_message, evaluate, evaluate_all};
use crate::config::{
    policy::Policy,
    rules::{rule, wildcard},
};

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
    let verdict =
        |patterns: &[&str]| evaluate_all(&ask("bash", patterns), &Policy::new(rules.clone()), &approvals);
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
    let verdict = evaluate_all(&ask("bash", &["git push -f"]), &Policy::new(rules.to_vec()), &approvals);
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
    let hides = |permission: &str, rules: &[Rule]| Policy::new(rules.to_vec()).hides(permission);
    assert!(hides("task", &deny_all));
    assert!(!hides("edit", &with_exception));
    assert!(!hides("edit", &denied_path));
    assert!(!hides("edit", &[]));
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

#[test]
fn a_whole_ask_agrees_with_the_naive_model() {
    let mut generator = Generator(11);
    let actions = [Action::Allow, Action::Ask, Action::Deny];
    let mut n_seen = [0; 3];
    for _ in 0..5_000 {
        let mut list = |max_len: usize| -> Vec<Rule> {
            let n_rules = generator.below(max_len);
            let mut word = |alphabet: &[char], len| generator.word(alphabet, len);
            let words: Vec<(String, String)> =
                (0..n_rules).map(|_| (word(&['a', '*'], 1), word(&['a', 'b', '*', ' '], 3))).collect();
            words
                .into_iter()
                .map(|(name, pattern)| rule(&name, &pattern, actions[generator.below(3)]))
                .collect()
        };
        let (rules, answers) = (list(5), list(3));
        let patterns: Vec<String> =
            (0..generator.below(3)).map(|_| generator.word(&['a', 'b', ' '], 3)).collect();
        let naive = |rules: &[Rule], pattern: &str| {
            let mut matching = rules.iter().filter(|rule| {
                naive_wildcard(&rule.permission, "a") && naive_wildcard(&rule.pattern, pattern)
            });
            matching.next_back().map_or(Action::Ask, |rule| rule.action)
        };
        let decided: Vec<Action> = patterns
            .iter()
            .map(|pattern| match naive(&rules, pattern) {
                Action::Ask => naive(&answers, pattern),
                other => other,
            })
            .collect();
        let expected = [Action::Deny, Action::Ask].into_iter().find(|action| decided.contains(action));
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let actual = match evaluate_all(&ask("a", &patterns), &Policy::new(rules.clone()), &answers) {
            Verdict::Allow => Action::Allow,
            Verdict::Ask => Action::Ask,
            Verdict::Deny { .. } => Action::Deny,
        };
        n_seen[actions.iter().position(|action| *action == actual).unwrap()] += 1;
        assert_eq!(actual, expected.unwrap_or(Action::Allow), "{patterns:?} {rules:?} {answers:?}");
        // Nothing that the naive model refuses may count as unrestricted.
        if patterns.iter().any(|pattern| naive(&rules, pattern) != Action::Allow) {
            assert!(Policy::new(rules.clone()).is_restricted("a"), "{patterns:?} {rules:?}");
        }
    }
    assert!(n_seen.iter().all(|n| *n > 200), "{n_seen:?}");
}

#[test]
fn anything_is_free_only_where_nothing_asks() {
    let check = |rules: &[(&str, Action)], expected: bool| {
        let rules: Vec<Rule> = rules.iter().map(|(pattern, action)| rule("bash", pattern, *action)).collect();
        assert_eq!(Policy::new(rules.clone()).is_restricted("bash"), expected, "{rules:?}");
    };
    check(&[], true);
    check(&[("*", Action::Allow)], false);
    check(&[("ls *", Action::Allow)], true);
    check(&[("*", Action::Allow), ("rm *", Action::Deny)], true);
    check(&[("rm *", Action::Deny), ("*", Action::Allow)], false);
    check(&[("*", Action::Allow), ("rm -rf *", Action::Ask), ("rm *", Action::Allow)], false);
    check(&[("*", Action::Allow), ("rm *", Action::Ask), ("rm -rf *", Action::Allow)], true);
}

/// Matches as §4.1 says word by word: recursive and exponential, but plain.
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
