//! The slash commands of a workspace: built-in ones, those of the configuration, and skills.

use std::{collections::BTreeMap, sync::Arc};

use windlass_protocol::opencode::config::CommandConfig;

use super::skills::Skill;
use crate::config::{Config, Warning, formats::name_problem};

pub mod template;

const INIT: &str = include_str!("commands/init.txt");
const REVIEW: &str = include_str!("commands/review.txt");

/// A named prompt, or an action of the daemon itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub name: String,
    pub description: String,
    pub source: Source,
    pub body: Body,
    /// The agent that carries it out.
    pub agent: Option<String>,
    /// The model that carries it out, as `provider/model`.
    pub model: Option<String>,
    pub variant: Option<String>,
    /// True if a subagent carries it out; by default only if `agent` is one.
    pub subtask: Option<bool>,
}

/// The origin of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Builtin,
    /// An entry of `command` in the configuration, or a Markdown file.
    Config,
    Skill,
    /// A prompt of an MCP server.
    Server,
}

/// The action of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Sends this text to the model.
    Template(Arc<str>),
    /// Sends the text of this skill to the model.
    Skill(Skill),
    /// Sends the text that a server gives for these arguments to the model.
    ServerPrompt(ServerPrompt),
    /// Lets the daemon answer by itself, without a model.
    Builtin(BuiltinCommand),
    /// Summarises the conversation so that later turns begin from the summary.
    Compact,
}

/// A prompt that an MCP server keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    pub server: String,
    /// The name that the server uses.
    pub name: String,
    /// The arguments in their order, and true for those that must be given.
    pub arguments: Vec<(String, bool)>,
}

/// An action of the daemon without a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinCommand {
    Help,
    Undo,
    Redo,
    Fork,
    Status,
    Models,
    Permissions,
    Jobs,
    Mcp,
    Share,
    Unshare,
}

impl Command {
    /// Returns the arguments to type behind the name; `None` if the command takes none.
    pub fn hint(&self) -> Option<String> {
        match &self.body {
            Body::Template(text) => template::hint(text),
            Body::Compact => Some("what the summary must not lose".to_owned()),
            Body::Builtin(BuiltinCommand::Undo) => Some("number or message id".to_owned()),
            Body::Builtin(BuiltinCommand::Fork) => Some("message id".to_owned()),
            Body::Builtin(BuiltinCommand::Jobs) => Some("stop job id".to_owned()),
            Body::Builtin(BuiltinCommand::Share) => Some("yes".to_owned()),
            Body::Builtin(BuiltinCommand::Mcp) => Some("connect or disconnect server".to_owned()),
            Body::ServerPrompt(prompt) => {
                let names = prompt.arguments.iter();
                let names = names
                    .map(|(name, is_needed)| if *is_needed { name.clone() } else { format!("[{name}]") });
                let names: Vec<String> = names.collect();
                (!names.is_empty()).then(|| names.join(" "))
            }
            Body::Skill(_) | Body::Builtin(_) => None,
        }
    }
}

/// Returns every command by name, and the problems of those in the configuration.
///
/// A command of the configuration replaces a built-in one of the same name; without a template it only sets how
/// the built-in prompt is carried out. A skill replaces no command.
pub fn commands(config: &Config, skills: &[Skill]) -> (BTreeMap<String, Command>, Vec<Warning>) {
    let mut warnings = Vec::new();
    let mut commands: BTreeMap<String, Command> =
        built_in().into_iter().map(|command| (command.name.clone(), command)).collect();
    for (name, command_config) in &config.commands {
        if let Some(template) = &command_config.template {
            let body = Body::Template(template.clone());
            let command = Command { source: Source::Config, ..command(name, "", body) };
            commands.insert(name.clone(), configured(command, command_config));
            continue;
        }
        match commands.remove(name) {
            Some(built_in @ Command { body: Body::Template(_), .. }) => {
                commands.insert(name.clone(), configured(built_in, command_config));
            }
            other => {
                let rest = if other.is_some() { "; the built-in command stays" } else { "" };
                commands.extend(other.map(|command| (name.clone(), command)));
                warnings.push(Warning {
                    source: format!("command.{name}"),
                    line: None,
                    column: None,
                    message: format!(
                        "is left out: it has no `template`, which is what it says to the model{rest}"
                    ),
                });
            }
        }
    }
    for skill in skills {
        // Any text may be a skill's name, but not every text can be typed behind a slash.
        if name_problem(&skill.name).is_some() {
            continue;
        }
        commands.entry(skill.name.clone()).or_insert_with(|| {
            let body = Body::Skill(skill.clone());
            Command { source: Source::Skill, ..command(&skill.name, &skill.description, body) }
        });
    }
    (commands, warnings)
}

/// Applies the settings of the configuration, except for the template, to a command.
fn configured(command: Command, config: &CommandConfig) -> Command {
    Command {
        description: config.description.clone().unwrap_or(command.description),
        agent: config.agent.clone().or(command.agent),
        model: config.model.clone().or(command.model),
        variant: config.variant.clone().or(command.variant),
        subtask: config.subtask.or(command.subtask),
        ..command
    }
}

fn built_in() -> Vec<Command> {
    let own =
        |name: &str, description: &str, own: BuiltinCommand| command(name, description, Body::Builtin(own));
    let prompt = |name: &str, description: &str, text: &str| {
        command(name, description, Body::Template(text.trim_end().into()))
    };
    vec![
        prompt("init", "Write or improve the AGENTS.md of this project", INIT),
        Command {
            subtask: Some(true),
            ..prompt(
                "review",
                "Review changes: uncommitted ones, or a commit, branch or pull request",
                REVIEW,
            )
        },
        command("compact", "Summarise the conversation and continue from the summary", Body::Compact),
        own("help", "List the commands", BuiltinCommand::Help),
        own(
            "undo",
            "Take the last prompt and its answers back, with the files that they changed in a git repository",
            BuiltinCommand::Undo,
        ),
        own("redo", "Put back what undo took out", BuiltinCommand::Redo),
        own("fork", "Copy the conversation so far into a new session", BuiltinCommand::Fork),
        own(
            "status",
            "Show the session, its model and agent, what it cost, and MCP servers",
            BuiltinCommand::Status,
        ),
        own("models", "List the models", BuiltinCommand::Models),
        own("jobs", "List what runs in the background, or stop a command there", BuiltinCommand::Jobs),
        own("mcp", "List the MCP servers and their tools, or connect or disconnect one", BuiltinCommand::Mcp),
        own(
            "share",
            "Share the session by a link, behind a look at the things that its page lacks",
            BuiltinCommand::Share,
        ),
        own("unshare", "Take the session's page back", BuiltinCommand::Unshare),
        own("permissions", "Show the permission rules and remembered answers", BuiltinCommand::Permissions),
    ]
}

fn command(name: &str, description: &str, body: Body) -> Command {
    Command {
        name: name.to_owned(),
        description: description.to_owned(),
        source: Source::Builtin,
        body,
        agent: None,
        model: None,
        variant: None,
        subtask: None,
    }
}
