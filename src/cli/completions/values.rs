//! The values that a shell completes, read where they are asked for: models, agents, and sessions of the directory.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
    sync::Arc,
};

use clap::{Arg, Command};
use clap_complete::{
    ArgValueCandidates, CompletionCandidate,
    env::{EnvCompleter, Shells},
};
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::Engine;
use windlass_protocol::opencode::session::ArchiveFilter;

use crate::cli::{output, runtime};

/// The variable by which a shell's script asks, with the shell's name.
pub const VARIABLE: &str = "WINDLASS_COMPLETE";
/// Sessions that are named, the latest first.
const MAX_SESSIONS: usize = 50;

#[derive(Clone, Copy)]
enum Kind {
    Model,
    Agent,
    Session,
}

/// Returns the shell by this name.
pub fn shell(name: &str) -> Option<&'static dyn EnvCompleter> {
    let Shells(known) = Shells::builtins();
    known.iter().copied().find(|shell| shell.is(name))
}

/// Answers a shell's question about the words of a line, which stand behind `--`.
pub fn answer(environment: &Environment, shell: &str, command: Command, words: Vec<OsString>) -> ExitCode {
    let Some(shell) = self::shell(shell) else { return ExitCode::FAILURE };
    let words: Vec<OsString> = words.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let mut command = with_values(command, &Arc::new(environment.clone()));
    let directory = std::env::current_dir().ok();
    let mut answer = Vec::new();
    match shell.write_complete(&mut command, words, directory.as_deref(), &mut answer) {
        Ok(()) => {
            // A shell that has gone needs no answer.
            let _ = io::stdout().write_all(&answer);
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// Gives every argument that names a model, an agent or a session its values.
fn with_values(command: Command, environment: &Arc<Environment>) -> Command {
    let with_argument = |argument: Arg| match kind(&argument) {
        Some(kind) => {
            let environment = environment.clone();
            argument.add(ArgValueCandidates::new(move || candidates(&environment, kind)))
        }
        None => argument,
    };
    let command = command.mut_args(with_argument);
    command.mut_subcommands(|below| {
        let is_of_session = below.get_name() == "session";
        let below = with_values(below, environment);
        // A session to delete is named in full.
        let takes_piece = |it: &Command| it.get_name() != "delete";
        if is_of_session {
            below.mut_subcommands(|it| if takes_piece(&it) { with_session(it, environment) } else { it })
        } else {
            below
        }
    })
}

/// Gives the id that the commands of sessions take its values.
fn with_session(command: Command, environment: &Arc<Environment>) -> Command {
    command.mut_args(|argument| {
        if argument.get_id() != "id" || !argument.is_positional() {
            return argument;
        }
        let environment = environment.clone();
        argument.add(ArgValueCandidates::new(move || candidates(&environment, Kind::Session)))
    })
}

fn kind(argument: &Arg) -> Option<Kind> {
    match argument.get_long()? {
        "model" => Some(Kind::Model),
        "agent" => Some(Kind::Agent),
        "session" => Some(Kind::Session),
        _ => None,
    }
}

/// Returns the values of a kind.
fn candidates(environment: &Environment, kind: Kind) -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    runtime::block_on(async {
        found = values(environment.clone(), kind).await;
        ExitCode::SUCCESS
    });
    let candidate = |(name, about): (String, String)| {
        let about = output::plain(&about);
        CompletionCandidate::new(name).help(Some(about).filter(|it| !it.is_empty()).map(Into::into))
    };
    found.into_iter().map(candidate).collect()
}

/// Returns values, each with words about it; none where they cannot be read: a line that is typed is no place for an error.
async fn values(environment: Environment, kind: Kind) -> Vec<(String, String)> {
    let Ok(directory) = std::env::current_dir() else { return Vec::new() };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    if let Kind::Session = kind {
        let here = engine.sessions().of_project(&directory, ArchiveFilter::Exclude, MAX_SESSIONS).await;
        let here = here.unwrap_or_default().into_iter();
        let latest = ("latest".to_owned(), "the latest session here".to_owned());
        return std::iter::once(latest).chain(here.map(|it| (it.id.to_string(), it.title))).collect();
    }
    let Ok(loaded) = engine.workspaces().read_files(&directory).await else { return Vec::new() };
    match kind {
        Kind::Model => {
            loaded.catalog.models().map(|it| (it.reference().to_string(), it.name.clone())).collect()
        }
        Kind::Agent | Kind::Session => {
            let agents = loaded.agents.iter().filter(|agent| agent.is_primary());
            agents.map(|it| (it.name.clone(), it.description.clone().unwrap_or_default())).collect()
        }
    }
}
