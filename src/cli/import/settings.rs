//! `windlass import --claude`, `--codex`, `--gemini`: settings of another agent, shown first and then written.

use std::{
    fmt::Write as _,
    fs,
    io::{self, IsTerminal, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::ExitCode,
};

use windlass_base::{diff, text};
use windlass_core::config::{
    Environment,
    patch::{self, PatchError},
    secrets,
};

use crate::cli::{
    other_agents::{
        Agent, Place,
        changes::{self, Changes, ChangesError},
    },
    output::{self, plain},
    trust,
};

pub fn run(environment: &Environment, agent: Agent, is_sure: bool, directory: &Path) -> ExitCode {
    match import(environment, agent, is_sure, directory) {
        Ok(code) | Err(Failure::Output(code)) => code,
        Err(Failure::Said(reason)) => output::fail(&format!("{reason}.")),
    }
}

enum Failure {
    Said(String),
    Output(ExitCode),
}

impl From<ChangesError> for Failure {
    fn from(error: ChangesError) -> Self {
        Self::Said(error.to_string())
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        Self::Said(error.to_string())
    }
}

fn import(
    environment: &Environment,
    agent: Agent,
    is_sure: bool,
    directory: &Path,
) -> Result<ExitCode, Failure> {
    let places = agent.places(environment, directory);
    let all: Result<Vec<Changes>, ChangesError> =
        places.iter().map(|place| changes::find(environment, place)).collect();
    let all = all?;
    let mut shown = String::new();
    for change in &all {
        let (before, after) = if change.patch.is_empty() {
            Default::default()
        } else {
            patch::preview(&change.file, &change.patch)?
        };
        for (path, before, after) in std::iter::once((&change.file, before.as_str(), after.as_str()))
            .chain(change.new.iter().map(|(path, text)| (path, "", text.as_str())))
        {
            if before != after {
                shown.push_str(&drawn(path, before, after));
            }
        }
    }
    let of_place = |place: &Place| [place.taken.lost.clone(), place.taken.left.clone()].concat();
    let left = places.iter().flat_map(of_place).chain(all.iter().flat_map(|change| change.left.clone()));
    let left: Vec<String> = left.collect();
    if !left.is_empty() {
        shown.push_str("Not taken over, or not whole:\n");
        left.iter().for_each(|line| _ = writeln!(shown, "- {line}"));
    }
    if all.iter().all(Changes::is_empty) {
        let word = if all.is_empty() { "There is nothing" } else { "There is nothing to take over" };
        let from = format!("{word} of {} in {} or in your home.", agent.name(), directory.display());
        return Ok(output::print_answer(&format!("{shown}{from}")));
    }
    output::print(shown.trim_end()).map_err(Failure::Output)?;
    if !is_sure && !is_agreed()? {
        return Ok(ExitCode::FAILURE);
    }
    let held = trust::held(environment, directory);
    for change in &all {
        write(change)?;
    }
    trust::trust_written(environment, directory, &held);
    Ok(output::print_answer(
        "It is written. `windlass config check` reads it; `windlass doctor` looks at all of it.",
    ))
}

/// Asks at the terminal. A model's command has none, so that it cannot say yes.
fn is_agreed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        output::note("Nothing is written. `--yes` writes it, or run this in a terminal.");
        return Ok(false);
    }
    output::print("Write this, and trust what it brings into the project? [y/N]").map_err(Failure::Output)?;
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok();
    let is_agreed = is_read && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    if !is_agreed {
        output::note("Nothing is written.");
    }
    Ok(is_agreed)
}

fn write(changes: &Changes) -> Result<(), Failure> {
    let cannot = |path: &Path, error: io::Error| {
        Failure::Said(format!("{} cannot be written: {error}", plain(&path.display().to_string())))
    };
    if !changes.patch.is_empty() {
        if changes.is_users && !changes.file.exists() {
            // A new file is the user's alone: a server may have a key in it.
            made(changes, &changes.file, "").map_err(|error| cannot(&changes.file, error))?;
        }
        patch::change(&changes.file, changes.patch.clone())?;
    }
    for (path, text) in &changes.new {
        made(changes, path, text).map_err(|error| cannot(path, error))?;
    }
    Ok(())
}

/// Makes a file that is not there.
fn made(changes: &Changes, path: &Path, text: &str) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mode = if changes.is_users { 0o600 } else { 0o666 };
    fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}

/// Returns a difference for people, without characters that steer a terminal.
fn drawn(path: &Path, before: &str, after: &str) -> String {
    let patch = diff::unified(&plain(&path.display().to_string()), before, after).patch;
    // Keys are written, and not shown.
    let line = |line: &str| format!("{}\n", text::visible(&hidden(line)));
    // The first two lines are for programs.
    patch.lines().skip(2).map(line).collect()
}

/// Returns a line of JSON or of a file without the value of a key whose name says that it is secret.
fn hidden(line: &str) -> String {
    let masked = secrets::text(line);
    let Some((name, value)) = masked.split_once(": \"") else { return masked };
    let name = name.trim_start_matches(['+', '-', ' ']).trim_matches('"').to_ascii_lowercase();
    let is_secret =
        ["key", "token", "secret", "password", "authorization"].iter().any(|it| name.contains(it));
    let is_reference = value.starts_with("{env:") || value.starts_with("{file:");
    if !is_secret || is_reference {
        return masked;
    }
    let (head, tail) = (&masked[..masked.len() - value.len()], value.rsplit_once('"').map_or("", |it| it.1));
    format!("{head}********\"{tail}")
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn the_value_of_a_key_is_not_shown() {
        for (line, shown) in [
            (r#"+      "API_KEY": "plain-words","#, r#"+      "API_KEY": "********","#),
            (r#"+      "API_KEY": "{env:API_KEY}""#, r#"+      "API_KEY": "{env:API_KEY}""#),
            (r#"+      "command": ["npx", "server"],"#, r#"+      "command": ["npx", "server"],"#),
        ] {
            assert_eq!(hidden(line), shown);
        }
    }
}
