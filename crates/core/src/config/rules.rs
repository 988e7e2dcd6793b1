//! Rules as data: from configuration to a list, and which rule of a list decides (facts: OpenCode §3.2, §4.1).

use std::path::Path;

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use super::paths::Paths;

/// Names of permissions that somebody asks for without a server or a plugin.
pub const PERMISSIONS: [&str; 23] = [
    "bash",
    "batch",
    "codesearch",
    "doom_loop",
    "edit",
    "external_directory",
    "glob",
    "grep",
    "list",
    "lsp",
    "network",
    "plan_enter",
    "plan_exit",
    "question",
    "read",
    "sampling",
    "sandbox",
    "skill",
    "task",
    "todoread",
    "todowrite",
    "webfetch",
    "websearch",
];

/// Returns true for the names of tools that ask under `edit`.
pub fn is_edit(tool: &str) -> bool {
    matches!(tool, "edit" | "write" | "patch" | "multiedit" | "apply_patch" | "notebookedit")
}

/// A part of a `permission` value that is not a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Keys from the `permission` value down to the part.
    pub path: Vec<String>,
    pub message: String,
}

/// Returns the rules of a `permission` value: an action for everything, or `{tool: action | {pattern:
/// action}}`.
pub fn rules_from_config(value: &Value, home: &Path) -> Result<Vec<Rule>, String> {
    let (rules, problems) = read_rules(value, home);
    match problems.first() {
        None => Ok(rules),
        Some(problem) => Err(format!("{}{}", prefix(&problem.path), problem.message)),
    }
}

/// Does the same as [`rules_from_config`], but keeps the usable rules.
///
/// An unusable action becomes `ask`: a typing error must not widen the permissions.
pub fn read_rules(value: &Value, home: &Path) -> (Vec<Rule>, Vec<Problem>) {
    let mut rules = Vec::new();
    let mut problems = Vec::new();
    match value {
        Value::Object(permissions) => {
            for (permission, actions) in permissions {
                let Value::Object(patterns) = actions else {
                    let action = action(actions, &[permission], &mut problems);
                    rules.push(rule(permission, "*", action));
                    continue;
                };
                for (pattern, pattern_action) in patterns {
                    let action = action(pattern_action, &[permission, pattern], &mut problems);
                    rules.push(rule(permission, &expand_home(pattern, home), action));
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            rules.push(rule("*", "*", action(value, &[], &mut problems)));
        }
    }
    (rules, problems)
}

/// Returns the rules of a deprecated `tools` value.
pub fn rules_from_tools<'a>(tools: impl IntoIterator<Item = (&'a str, bool)>) -> Vec<Rule> {
    tools
        .into_iter()
        .map(|(tool, is_enabled)| {
            // The other names of `edit` are no words of OpenCode's, and only restrict.
            let is_edit = matches!(tool, "write" | "edit" | "patch") || !is_enabled && is_edit(tool);
            let permission = if is_edit { "edit" } else { tool };
            rule(permission, "*", if is_enabled { Action::Allow } else { Action::Deny })
        })
        .collect()
}

/// Returns the rules of the deprecated `tools`, and those of `permission` over them.
pub fn rules_of(owner: &Map<String, Value>, home: &Path) -> Vec<Rule> {
    let tools = owner.get("tools").and_then(Value::as_object).into_iter().flatten();
    let tools = tools.filter_map(|(tool, is_enabled)| Some((tool.as_str(), is_enabled.as_bool()?)));
    let mut rules = rules_from_tools(tools);
    rules.extend(owner.get("permission").into_iter().flat_map(|permission| read_rules(permission, home).0));
    rules
}

/// Returns the lowest rules of every agent.
///
/// OpenCode's `<tmp>/opencode/*` is left out: nothing of ours writes there, and anybody may.
pub fn defaults(paths: &Paths) -> Vec<Rule> {
    let tool_output = format!("{}/*", paths.tool_output().display());
    vec![
        rule("*", "*", Action::Allow),
        rule("doom_loop", "*", Action::Ask),
        rule("external_directory", "*", Action::Ask),
        rule("sampling", "*", Action::Ask),
        rule("external_directory", &tool_output, Action::Allow),
        rule("question", "*", Action::Deny),
        rule("plan_enter", "*", Action::Deny),
        rule("plan_exit", "*", Action::Deny),
        rule("read", "*", Action::Allow),
        rule("read", "*.env", Action::Ask),
        rule("read", "*.env.*", Action::Ask),
        rule("read", "*.env.example", Action::Allow),
    ]
}

/// Returns a rule of these parts.
pub fn rule(permission: &str, pattern: &str, action: Action) -> Rule {
    Rule { permission: permission.to_owned(), pattern: pattern.to_owned(), action }
}

/// Returns true if every text that matches `pattern` surely matches `wider` too.
pub fn covers(wider: &str, pattern: &str) -> bool {
    let matches = |text: &str| !wider.contains('?') && wildcard(wider, text);
    wider == pattern || (matches(pattern) && pattern.strip_suffix(" *").is_none_or(matches))
}

/// Returns the action that allows less.
pub fn strictest(one: Action, other: Action) -> Action {
    match (one, other) {
        (Action::Deny, _) | (_, Action::Deny) => Action::Deny,
        (Action::Ask, _) | (_, Action::Ask) => Action::Ask,
        (Action::Allow, Action::Allow) => Action::Allow,
    }
}

/// Returns the rule that decides: the last one that matches both.
pub fn last_match<'a>(
    permission: &str,
    pattern: &str,
    rules: impl DoubleEndedIterator<Item = &'a Rule>,
) -> Option<&'a Rule> {
    rules.rev().find(|rule| wildcard(&rule.permission, permission) && wildcard(&rule.pattern, pattern))
}

/// Returns true if the whole of `text` matches: `*` is any run of characters, newlines and `/` included, `?` is
/// one.
///
/// Backslashes count as `/` on both sides. A trailing ` *` may be absent: `git *` also matches `git`.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let without_arguments = pattern.strip_suffix(" *");
    without_arguments.is_some_and(|command| glob(command.as_bytes(), text.as_bytes()))
        || glob(pattern.as_bytes(), text.as_bytes())
}

/// Matches greedily and returns only to the latest star, so time is at most pattern × text.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let mut pattern_idx = 0;
    let mut text_idx = 0;
    // Place to continue after a mismatch: behind the latest star, and the text it has not swallowed yet.
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&byte) = text.get(text_idx) {
        match pattern.get(pattern_idx) {
            Some(b'*') => {
                pattern_idx += 1;
                retry = Some((pattern_idx, text_idx));
                continue;
            }
            Some(b'?') => {
                pattern_idx += 1;
                text_idx += char_len(byte);
                continue;
            }
            Some(&expected) if slashed(expected) == slashed(byte) => {
                pattern_idx += 1;
                text_idx += 1;
                continue;
            }
            Some(_) | None => {}
        }
        let Some((after_star, swallowed)) = retry else { return false };
        // Whole characters, or a `?` behind the star could match half of one.
        let next = swallowed + text.get(swallowed).map_or(1, |&byte| char_len(byte));
        pattern_idx = after_star;
        text_idx = next;
        retry = Some((after_star, next));
    }
    pattern.get(pattern_idx..).is_some_and(|rest| rest.iter().all(|&byte| byte == b'*'))
}

fn slashed(byte: u8) -> u8 {
    if byte == b'\\' { b'/' } else { byte }
}

/// Bytes of the UTF-8 character that begins with `first`.
fn char_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

fn action(value: &Value, path: &[&str], problems: &mut Vec<Problem>) -> Action {
    let known = match value {
        Value::String(word) => match word.as_str() {
            "allow" => Some(Action::Allow),
            "ask" => Some(Action::Ask),
            "deny" => Some(Action::Deny),
            _ => None,
        },
        // As in the deprecated `tools`. `true` would widen the permissions by a word that may mean `ask`.
        Value::Bool(false) => Some(Action::Deny),
        Value::Bool(true) | Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    };
    known.unwrap_or_else(|| {
        problems.push(Problem {
            path: path.iter().map(|&key| key.to_owned()).collect(),
            message: format!("{value} is not an action; use \"allow\", \"ask\" or \"deny\""),
        });
        Action::Ask
    })
}

pub fn expand_home(pattern: &str, home: &Path) -> String {
    for variable in ["~", "$HOME"] {
        let Some(rest) = pattern.strip_prefix(variable) else { continue };
        if rest.is_empty() || rest.starts_with('/') {
            return format!("{}{rest}", home.display());
        }
    }
    pattern.to_owned()
}

fn prefix(path: &[String]) -> String {
    if path.is_empty() { String::new() } else { format!("{}: ", path.join(".")) }
}

#[cfg(test)]
mod tests;
