//! The meaning of a line that is typed in the chat. Pure, but for the files that it names.

use std::path::Path;

use windlass_engine::{PromptInput, PromptPart, Slash, unknown_command};
use windlass_protocol::opencode::model_ref::ModelRef;

use super::{
    super::{
        daemon::sessions::Sessions,
        output,
        run::{
            dropped,
            failure::Failure,
            waiting::{Lines, Meaning},
        },
    },
    names, texts,
};

/// Meaning of a line.
pub enum Line<'a> {
    Nothing,
    Leave,
    /// A command of the chat itself, and the words behind it.
    Own(&'a str, &'a str),
    Unknown(&'a str),
    /// More lines stand behind a command of the chat itself, which would be lost.
    Joined(&'a str),
    /// A command for the shell.
    Shell(&'a str),
    Prompt,
}

/// Reads a line.
pub fn read<'a>(sessions: &Sessions, line: &'a str) -> Line<'a> {
    if line.trim().is_empty() {
        return Line::Nothing;
    }
    // As in OpenCode, only at the very beginning: a space before it makes it words.
    if let Some(command) = line.strip_prefix('!').map(str::trim).filter(|it| !it.is_empty()) {
        return Line::Shell(command);
    }
    let (word, rest) = line.trim_end().split_once(char::is_whitespace).unwrap_or((line.trim_end(), ""));
    match word.strip_prefix('/').filter(|word| names::is_own(word)) {
        Some(name) if line.trim().contains('\n') => Line::Joined(name),
        Some("exit" | "quit") => Line::Leave,
        Some(name) => Line::Own(name, rest.trim()),
        None => match sessions.slash(line) {
            Some(Slash::Unknown(name)) => Line::Unknown(name),
            Some(Slash::Known(_)) | None => Line::Prompt,
        },
    }
}

/// Returns why a command is not known, with the way to send it all the same.
pub fn unknown(sessions: &Sessions, name: &str) -> String {
    let choices = sessions.choices();
    let mut names: Vec<&str> = names::names().collect();
    names.extend(choices.commands.iter().map(|choice| choice.name.as_str()));
    let unknown = unknown_command(name, names.into_iter());
    texts::unknown(&(sessions.fault_of_command(name) + &unknown))
}

/// Returns the words behind `/undo` that name a prompt; `None` for a number of prompts, a message's id, and other lines.
pub fn wanted_undo(line: &str) -> Option<&str> {
    let words = line.trim().strip_prefix("/undo ")?.trim();
    (!words.starts_with("msg_") && words.parse::<usize>().is_err()).then_some(words)
}

/// Says if the pictures are attached whose paths a line names; `None` where it names none.
pub fn pictures_of(line: &str, input: &PromptInput) -> Option<String> {
    let named = dropped::pictures(line);
    let attached = input.parts.iter().filter_map(|part| match part {
        PromptPart::File(file) if file.mime.starts_with("image/") => file.filename.as_deref(),
        _other => None,
    });
    let attached: Vec<String> = attached.map(output::plain).collect();
    match (named.as_slice(), attached.as_slice()) {
        ([], _) => None,
        (_, []) => {
            Some("No picture is attached, since this model takes none: its path goes as words.".to_owned())
        }
        (_, names) => Some(format!("Attached: {}.", names.join(", "))),
    }
}

/// Lines that are typed during a turn.
pub struct Beside<'a> {
    pub sessions: &'a Sessions,
    pub directory: &'a Path,
    pub label: String,
}

impl Lines for Beside<'_> {
    fn label(&self) -> &str {
        &self.label
    }

    fn meaning(&self, line: &str) -> Meaning {
        let prompt = || self.sessions.prompt(line, self.directory);
        match read(self.sessions, line) {
            Line::Nothing | Line::Leave | Line::Own(..) => Meaning::Later,
            Line::Unknown(name) => Meaning::Refused(unknown(self.sessions, name)),
            Line::Joined(name) => Meaning::Refused(texts::joined(name)),
            // A server takes one command after another.
            Line::Shell(_) if self.sessions.is_shared() => Meaning::Later,
            Line::Prompt if self.sessions.is_shared() && self.sessions.slash(line).is_some() => {
                Meaning::Later
            }
            Line::Shell(command) => Meaning::Turn(self.sessions.shell(command).into()),
            Line::Prompt if self.sessions.slash(line).is_some() => sent(prompt(), Meaning::Turn),
            Line::Prompt => sent(prompt(), Meaning::Words),
        }
    }

    fn model(&self, model: &ModelRef) -> Option<(String, u64)> {
        self.sessions.model(model)
    }
}

fn sent(input: Result<PromptInput, Failure>, meaning: fn(Box<PromptInput>) -> Meaning) -> Meaning {
    match input {
        Ok(input) => meaning(input.into()),
        Err(Failure::Misuse(reason) | Failure::Failed(reason)) => Meaning::Refused(reason),
        Err(Failure::Output(error)) => Meaning::Refused(error.to_string()),
    }
}
