//! Rules and their evaluation: the last matching rule decides (facts: OpenCode §4).

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use crate::config::{
    policy::Policy,
    rules::{last_match, wildcard},
};

pub mod protected;

/// A tool's request to do something.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Permission name, such as `bash`, `edit` or `external_directory`.
    pub permission: String,
    /// Subjects of the request; every pattern must be allowed.
    pub patterns: Vec<String>,
    /// Patterns that `always` allows from then on.
    pub always: Vec<String>,
    /// Details for the user.
    pub metadata: Map<String, Value>,
}

/// Decision of the rules about a whole [`Ask`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// The user decides.
    Ask,
    Deny {
        /// Every rule about this permission, for the model to see the possible calls.
        rules: Vec<Rule>,
    },
}

/// Evaluates the rules for one pattern; `Ask` when none matches.
pub fn evaluate(permission: &str, pattern: &str, rules: &[Rule]) -> Action {
    last_match(permission, pattern, rules.iter()).map_or(Action::Ask, |rule| rule.action)
}

/// Evaluates a policy for all patterns together.
///
/// Answers are the rules that the user wants remembered: they stand in where the rules would ask, and nowhere
/// else. A user that once approved `git *` has not taken back `git push *: deny`.
pub fn evaluate_all(ask: &Ask, policy: &Policy, answers: &[Rule]) -> Verdict {
    let mut verdict = Verdict::Allow;
    for pattern in &ask.patterns {
        match resolve(&ask.permission, pattern, policy, answers) {
            Action::Allow => {}
            Action::Ask => verdict = Verdict::Ask,
            Action::Deny => {
                let mut rules = policy.denial(&ask.permission, pattern);
                let denials = answers.iter().filter(|answer| answer.action == Action::Deny);
                let denials = denials.filter(|rule| wildcard(&rule.permission, &ask.permission));
                if rules.is_empty() {
                    rules = policy.about(&ask.permission);
                }
                rules.extend(denials.cloned());
                return Verdict::Deny { rules };
            }
        }
    }
    verdict
}

/// Evaluates a policy for one pattern, with the user's remembered answers where it would ask.
pub fn resolve(permission: &str, pattern: &str, policy: &Policy, answers: &[Rule]) -> Action {
    match policy.evaluate(permission, pattern) {
        Action::Ask => evaluate(permission, pattern, answers),
        decided @ (Action::Allow | Action::Deny) => decided,
    }
}

/// Returns true if a call that may do anything has to be asked for: a file that rules are read from, or that
/// git obeys,
/// can allow or run anything that a command could.
pub fn is_anything_restricted(permission: &str, policy: &Policy) -> bool {
    policy.is_restricted(permission) || (permission == "edit" && policy.is_restricted("bash"))
}

/// Beginning of the error for the model when a rule forbids the call; the rules follow.
const DENIED: &str = "The user has specified a rule which prevents you from using this specific tool call. \
                      Here are some of the relevant rules ";

/// Returns the error for the model when a rule forbids the call.
pub fn denied_message(rules: &[Rule]) -> String {
    format!("{DENIED}{}", serde_json::to_string(rules).unwrap_or_default())
}

/// Reads the rules back from the message to the model, for people, because they read no JSON.
pub fn denying_rules(message: &str) -> Option<Vec<Rule>> {
    serde_json::from_str(message.strip_prefix(DENIED)?).ok()
}

#[cfg(test)]
mod tests;
