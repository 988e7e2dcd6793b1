//! Agents that a user names by `@` in what they say (facts: OpenCode §6.1). Pure.

use crate::library::Agent;

/// Returns the subagents that a text names, each once, in its order.
///
/// An `@` inside a word or behind a backtick is not a mention: it is an address or code.
pub fn subagents(text: &str, agents: &[Agent]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let before = text[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '`')) {
            continue;
        }
        let rest = &text[at + 1..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | '`')).unwrap_or(rest.len());
        // Punctuation at the end of a sentence is not part of a name, unless an agent is named so.
        let word = &rest[..end];
        let bare = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        let name = with_spaces(rest, agents).into_iter().chain([word, bare]);
        let name = name.into_iter().find(|name| is_subagent(name, agents));
        if let Some(name) = name.filter(|name| found.iter().all(|known| known != name)) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Returns the longest name of several words that a text begins with: a file's name may have spaces.
fn with_spaces<'a>(text: &str, agents: &'a [Agent]) -> Option<&'a str> {
    let begins = |name: &&str| {
        text.strip_prefix(name).is_some_and(|behind| !behind.starts_with(|c: char| c.is_alphanumeric()))
    };
    let names = agents.iter().map(|agent| agent.name.as_str());
    names.filter(|name| name.contains(char::is_whitespace)).filter(begins).max_by_key(|name| name.len())
}

fn is_subagent(name: &str, agents: &[Agent]) -> bool {
    agents.iter().any(|agent| agent.name == name && agent.is_subagent())
}
