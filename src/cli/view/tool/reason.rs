//! Puts the reason that a call failed into words for people: the model reads rules as JSON and notes between marks.

use std::borrow::Cow;

use serde_json::{Map, Value};
use windlass_engine as engine;
use windlass_protocol::opencode::{
    permission::Action,
    tool_metadata::{Failure, decode},
};

/// Marks around notes for the model beside a command's output.
const NOTE: [&str; 2] = ["<shell_metadata>\n", "\n</shell_metadata>"];
/// Text before the reason of a refusal.
const FEEDBACK: &str = "with the following feedback: ";

/// Returns the reason that a call failed.
pub fn of<'a>(error: &'a str, metadata: Option<&Map<String, Value>>) -> Cow<'a, str> {
    let Failure { denied, interrupted } = metadata.and_then(decode).unwrap_or_default();
    if denied {
        return refusal(error).into();
    }
    match note(error) {
        Some(note) => note.into(),
        None if error == engine::TOOL_LOST => {
            "interrupted: its machine is gone, and its result is unknown".into()
        }
        None if interrupted => "cancelled".into(),
        None => error.into(),
    }
}

/// Returns the note behind a command's output, such as that its time was up: its first sentence.
pub fn note(output: &str) -> Option<&str> {
    let (_, note) = output.rsplit_once(NOTE[0])?;
    let note = note.strip_suffix(NOTE[1])?;
    Some(note.split_once(". ").map_or(note, |(first, _)| first))
}

fn refusal(error: &str) -> String {
    let Some(rules) = engine::denying_rules(error) else {
        return match error.split_once(FEEDBACK) {
            Some((_, reason)) => format!("refused: {reason}"),
            None => "refused".to_owned(),
        };
    };
    let denials = rules.iter().filter(|rule| rule.action == Action::Deny);
    let denials: Vec<String> = denials
        .map(|rule| match rule.pattern.as_str() {
            "*" => format!("`{}`", rule.permission),
            pattern => format!("`{}` of `{pattern}`", rule.permission),
        })
        .collect();
    format!("denied by the rules: {}", denials.join(", "))
}

#[cfg(test)]
mod tests;
