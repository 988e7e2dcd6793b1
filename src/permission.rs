//! Rules and their evaluation: the last matching rule decides (facts: OpenCode §4).

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use crate::config::rules::{covers, deciding, wildcard};

pub mod bash;
pub mod obeyed;

/// What a tool wants to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Permission name, such as `bash`, `edit` or `external_directory`.
    pub permission: String,
    /// What exactly is asked for; every pattern must be allowed.
    pub patterns: Vec<String>,
    /// Patterns that `always` allows from then on.
    pub always: Vec<String>,
    /// What the user is shown.
    pub metadata: Map<String, Value>,
}

/// What the rules say of a whole [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The user decides.
    Ask,
    Deny {
        /// Every rule about this permission, for the model to see what is possible.
        rules: Vec<Rule>,
    },
}

/// What the rules say of one pattern; `Ask` when none matches.
pub fn evaluate(permission: &str, pattern: &str, rules: &[Rule]) -> Action {
    deciding(permission, pattern, rules.iter()).map_or(Action::Ask, |rule| rule.action)
}

/// What the rules say of every pattern together.
///
/// Answers are what the user said before and wants remembered: they stand in where the rules would ask, and nowhere
/// else. A user who once approved `git *` has not taken back `git push *: deny`.
pub fn evaluate_all(ask: &Ask, rules: &[Rule], answers: &[Rule]) -> Verdict {
    let mut verdict = Verdict::Allow;
    for pattern in &ask.patterns {
        match resolve(&ask.permission, pattern, rules, answers) {
            Action::Allow => {}
            Action::Ask => verdict = Verdict::Ask,
            Action::Deny => {
                let all = rules.iter().chain(answers.iter().filter(|answer| answer.action == Action::Deny));
                let relevant = all.filter(|rule| wildcard(&rule.permission, &ask.permission)).cloned();
                return Verdict::Deny { rules: relevant.collect() };
            }
        }
    }
    verdict
}

/// What the rules say of one pattern, with the user's remembered answers where they would ask.
pub fn resolve(permission: &str, pattern: &str, rules: &[Rule], answers: &[Rule]) -> Action {
    match evaluate(permission, pattern, rules) {
        Action::Ask => evaluate(permission, pattern, answers),
        decided @ (Action::Allow | Action::Deny) => decided,
    }
}

/// Whether there is anything that the rules ask about or deny: what may turn out to be anything has to ask then.
pub fn is_restricted(permission: &str, rules: &[Rule]) -> bool {
    let mut later: Vec<&Rule> = Vec::new();
    for rule in rules.iter().rev().filter(|rule| wildcard(&rule.permission, permission)) {
        match rule.action {
            Action::Allow if rule.pattern == "*" => return false,
            Action::Allow => {}
            Action::Ask | Action::Deny => {
                if !later.iter().any(|later| covers(&later.pattern, &rule.pattern)) {
                    return true;
                }
            }
        }
        later.push(rule);
    }
    true
}

/// Whether what may turn out to be anything has to be asked for: a file that rules are read from or that git obeys can
/// allow or run whatever a command could.
pub fn is_anything_restricted(permission: &str, rules: &[Rule]) -> bool {
    is_restricted(permission, rules) || (permission == "edit" && is_restricted("bash", rules))
}

/// What the model is told when a rule forbids the call.
pub fn denied_message(rules: &[Rule]) -> String {
    let rules = serde_json::to_string(rules).unwrap_or_default();
    format!(
        "The user has specified a rule which prevents you from using this specific tool call. \
         Here are some of the relevant rules {rules}"
    )
}

/// Whether tools of this permission are kept from the model: a rule about it denies everything, and none behind it
/// does anything else.
pub fn is_tool_hidden(permission: &str, rules: &[Rule]) -> bool {
    let about = rules.iter().rev().filter(|rule| wildcard(&rule.permission, permission));
    let mut denials = about.take_while(|rule| rule.action == Action::Deny);
    denials.any(|rule| rule.pattern == "*")
}

/// The rules that speak of this permission, the general ones too, in order.
pub fn about(permission: &str, rules: &[Rule]) -> Vec<Rule> {
    rules.iter().filter(|rule| wildcard(&rule.permission, permission)).cloned().collect()
}

#[cfg(test)]
mod tests;
