//! Completion of commands, their arguments, files and subagents while a line is typed.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use rustyline::{
    Context, Helper,
    completion::{Completer, Pair},
    highlight::{CmdKind, Highlighter},
    hint::Hinter,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::{super::daemon::sessions::Choices, reflow::Drawn};

/// Names of a directory that are offered at most.
const MAX_FILES: usize = 200;

/// Words that can be completed; the default completes nothing.
#[derive(Debug, Default)]
pub struct Words {
    directory: PathBuf,
    commands: Vec<String>,
    models: Vec<String>,
    agents: Vec<String>,
    subagents: Vec<String>,
    /// Set once they are read.
    sessions: Arc<OnceLock<Vec<String>>>,
    drawn: Drawn,
}

impl Words {
    /// Completes the names of a directory and the chat's own commands.
    pub fn new(
        directory: &Path,
        choices: Choices,
        sessions: Arc<OnceLock<Vec<String>>>,
        own: impl Iterator<Item = &'static str>,
    ) -> Self {
        let Choices { commands, agents, subagents, models, .. } = choices;
        let commands = commands.into_iter().map(|command| command.name);
        let mut commands: Vec<String> = commands.chain(own.map(str::to_owned)).collect();
        commands.sort();
        commands.dedup();
        let agents = agents.into_iter().map(|(name, _)| name).collect();
        let (directory, drawn) = (directory.to_owned(), Drawn::default());
        Self { directory, commands, models, agents, subagents, sessions, drawn }
    }

    /// Returns where the word begins that is being typed, and its completions.
    fn candidates(&self, typed: &str) -> (usize, Vec<String>) {
        if let Some(name) = typed.strip_prefix('/').filter(|name| !name.contains(char::is_whitespace)) {
            let fits = self.commands.iter().filter(|command| command.starts_with(name));
            return (0, fits.map(|command| format!("/{command} ")).collect());
        }
        let sessions = self.sessions.get().map(Vec::as_slice).unwrap_or_default();
        let lists = [
            ("/model ", self.models.as_slice()),
            ("/agent ", &self.agents),
            ("/mode ", &self.agents),
            ("/sessions ", sessions),
            ("/resume ", sessions),
        ];
        for (command, names) in lists {
            if let Some(begun) = typed.strip_prefix(command) {
                let fits = names.iter().filter(|name| name.starts_with(begun));
                return (command.len(), fits.cloned().collect());
            }
        }
        let start = typed
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
        let Some(name) = typed[start..].strip_prefix('@') else { return (start, Vec::new()) };
        let mut fits = self.files(name);
        let subagents = self.subagents.iter().filter(|agent| agent.starts_with(name));
        fits.extend(subagents.map(|agent| format!("@{agent} ")));
        (start, fits)
    }

    /// Files and directories that a path may become; hidden ones once a dot is typed.
    fn files(&self, typed: &str) -> Vec<String> {
        let (parent, begun) = typed.rsplit_once('/').map_or(("", typed), |(parent, name)| (parent, name));
        let behind = if typed.contains('/') { format!("{parent}/") } else { String::new() };
        let directory = if behind == "/" { PathBuf::from("/") } else { self.directory.join(parent) };
        let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_wanted = name.starts_with(begun) && (begun.starts_with('.') || !name.starts_with('.'));
            let end = if entry.path().is_dir() { "/" } else { " " };
            is_wanted.then(|| format!("@{behind}{name}{end}"))
        });
        let mut names: Vec<String> = names.take(MAX_FILES).collect();
        names.sort();
        names
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, fits) = self.candidates(line.get(..pos).unwrap_or_default());
        let pairs = fits.into_iter().map(|fit| Pair { display: fit.trim_end().to_owned(), replacement: fit });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Words {
    /// Asks for another line after a backslash at the end.
    fn validate(&self, cx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let n_backslashes = cx.input().chars().rev().take_while(|char| *char == '\\').count();
        let is_open = n_backslashes % 2 == 1;
        Ok(if is_open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Hinter for Words {
    type Hint = String;
}

/// Nothing is coloured; the editor says here when it draws.
impl Highlighter for Words {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        let cleared = self.drawn.cleared(prompt);
        if cleared.is_empty() { Cow::Borrowed(prompt) } else { Cow::Owned(cleared + prompt) }
    }

    fn highlight_char(&self, line: &str, cursor: usize, _: CmdKind) -> bool {
        self.drawn.note(line, cursor);
        false
    }
}

impl Helper for Words {}

#[cfg(test)]
mod tests;
