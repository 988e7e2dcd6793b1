//! Limits that are no rules: lists of the tools that an agent has, and restrictions that cannot be understood.

use std::{borrow::Cow, path::Path};

use serde_json::{Map, Value};
use windlass_protocol::opencode::permission::{Action, Rule};

use super::rules::{PERMISSIONS, expand_home, is_edit, read_rules, rule};

/// Permissions that no tool is called by. A list of tools says nothing of them.
const NO_TOOLS: [&str; 5] = ["external_directory", "doom_loop", "network", "sandbox", "sampling"];

/// One source's limit of an agent, or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// None means every agent.
    pub agent: Option<String>,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The only tools that there are.
    Only(Vec<Tool>),
    /// Tools that are denied, or asked about.
    Restricted(Action, Vec<Tool>),
    /// A `permission` that restricts beside another one, and allows nothing.
    Stricter(Map<String, Value>),
    /// Everything asks: a restriction cannot be understood.
    Ask,
    /// The agent is left out: a restriction of its own cannot be understood.
    LeftOut,
}

/// A tool as a list names it: `Read`, `mcp__shop__buy`, `Bash(git diff:*)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub permission: String,
    /// The text in parentheses.
    pub specifier: Option<String>,
}

/// The limits of a configuration as rules. Each is a layer of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    pub agent: Option<String>,
    /// It came over the network, so the user's own rules for the agent may lift it.
    pub is_fetched: bool,
    pub rules: Vec<Rule>,
}

impl Kind {
    pub fn rules(&self, home: &Path) -> Vec<Rule> {
        match self {
            Self::Only(tools) => {
                let general = NO_TOOLS.iter().map(|name| rule(name, "*", Action::Allow));
                let general = std::iter::once(rule("*", "*", Action::Deny)).chain(general);
                general.chain(tools.iter().flat_map(|tool| tool.rules(Action::Allow, home))).collect()
            }
            Self::Restricted(action, tools) => {
                tools.iter().flat_map(|tool| tool.rules(*action, home)).collect()
            }
            Self::Stricter(permission) => {
                let (mut rules, _) = read_rules(&Value::Object(permission.clone()), home);
                rules.retain(|rule| rule.action != Action::Allow);
                rules
            }
            Self::Ask => vec![rule("*", "*", Action::Ask)],
            Self::LeftOut => vec![rule("*", "*", Action::Deny)],
        }
    }
}

impl Tool {
    /// Reads a word of a list; none if it is no tool.
    pub fn parse(word: &str) -> Option<Self> {
        let (name, specifier) = match word.split_once('(') {
            Some((name, rest)) => {
                let text = rest.strip_suffix(')').filter(|text| !text.contains(['(', ')']))?;
                (name, Some(text.trim().to_owned()))
            }
            None => (word, None),
        };
        let is_usual = |letter: char| letter.is_alphanumeric() || "_-.:/@*?".contains(letter);
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_usual) {
            return None;
        }
        let specifier = specifier.filter(|text| !matches!(text.as_str(), "" | "*" | ":*"));
        Some(Self { permission: permission_of(name).into_owned(), specifier })
    }

    /// Returns the rules that give this tool an action. A text in parentheses that means nothing here never
    /// widens: it allows nothing and restricts the whole tool.
    pub fn rules(&self, action: Action, home: &Path) -> Vec<Rule> {
        let patterns = match &self.specifier {
            None => vec!["*".to_owned()],
            Some(text) => self.patterns(text, action != Action::Allow, home),
        };
        patterns.iter().map(|pattern| rule(&self.permission, pattern, action)).collect()
    }

    fn patterns(&self, text: &str, is_restricting: bool, home: &Path) -> Vec<String> {
        match self.permission.as_str() {
            "bash" => vec![text.strip_suffix(":*").map_or(text.to_owned(), |command| format!("{command} *"))],
            "read" | "edit" | "list" | "glob" | "grep" => {
                let below_root = text.strip_prefix("./").or_else(|| text.strip_prefix('/'));
                match below_root {
                    Some(absolute) if absolute.starts_with('/') => vec![absolute.to_owned()],
                    Some(inner) => vec![inner.to_owned()],
                    // A path without a beginning is looked for in every directory.
                    None if is_restricting && !text.starts_with('~') => {
                        vec![text.to_owned(), format!("*/{text}")]
                    }
                    None => vec![expand_home(text, home)],
                }
            }
            "webfetch" => match text.strip_prefix("domain:") {
                Some(domain) if is_restricting => vec![format!("*{domain}*")],
                Some(domain) => vec![format!("https://{domain}/*"), format!("http://{domain}/*")],
                None if is_restricting => vec!["*".to_owned()],
                None => Vec::new(),
            },
            "task" | "skill" => text.split(',').map(|name| name.trim().to_owned()).collect(),
            _ if is_restricting => vec!["*".to_owned()],
            _ => Vec::new(),
        }
    }
}

/// Reads a list of tools: words between commas or spaces, or a list of such texts. An error names the other values.
pub fn tools(value: &Value) -> Result<Vec<Tool>, String> {
    let texts = match value {
        Value::String(text) => vec![text.as_str()],
        Value::Array(list) => {
            if let Some(odd) = list.iter().find(|element| !element.is_string()) {
                return Err(odd.to_string());
            }
            list.iter().filter_map(Value::as_str).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return Err(value.to_string()),
    };
    let mut tools = Vec::new();
    for word in texts.into_iter().flat_map(words) {
        tools.push(Tool::parse(word).ok_or_else(|| format!("{word:?}"))?);
    }
    Ok(tools)
}

/// Returns the words of a text. Commas and spaces in parentheses are a word's own.
fn words(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let between = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    text.split(between).filter(|word| !word.is_empty()).collect()
}

/// Returns the permission of a tool that a list names as Claude Code or windlass does.
fn permission_of(name: &str) -> Cow<'_, str> {
    match own_name(name) {
        name if is_edit(&name) => Cow::Borrowed("edit"),
        name => name,
    }
}

/// Returns windlass's name of a tool that Claude Code calls otherwise.
///
/// Only a name with capitals is another's: `ls` may be a tool of a plugin.
pub fn own_name(name: &str) -> Cow<'_, str> {
    if let Some(of_server) = name.strip_prefix("mcp__") {
        let is_usual = |letter: char| letter.is_ascii_alphanumeric() || "_-*?".contains(letter);
        let plain: String = of_server.chars().map(|it| if is_usual(it) { it } else { '_' }).collect();
        return Cow::Owned(match plain.split_once("__") {
            Some((server, tool)) => format!("{server}_{tool}"),
            None => format!("{plain}_*"),
        });
    }
    let lower = name.to_ascii_lowercase();
    if lower == name {
        return Cow::Borrowed(name);
    }
    match lower.as_str() {
        "ls" => Cow::Borrowed("list"),
        "agent" => Cow::Borrowed("task"),
        "notebookread" => Cow::Borrowed("read"),
        "askuserquestion" => Cow::Borrowed("question"),
        "enterplanmode" => Cow::Borrowed("plan_enter"),
        "exitplanmode" => Cow::Borrowed("plan_exit"),
        known if is_edit(known) || PERMISSIONS.contains(&known) => Cow::Owned(lower),
        _ => Cow::Borrowed(name),
    }
}

#[cfg(test)]
mod tests;
