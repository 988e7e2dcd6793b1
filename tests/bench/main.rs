//! Measures an agent that speaks ACP on stdio: `acp [--only NAME,…] [--json FILE] [--env NAME=VALUE]… PROGRAM
//! ARG…`.
//!
//! `REFERENCE="opencode acp"` measures another agent in the same run; the default is `opencode` if it is
//! installed, and an empty value omits it. Where there is a C compiler, the floor is measured too: a program that does
//! the least that an agent can do. `RUNS` (7) is the number of repetitions of the short measures. `turns` runs
//! only when it is named; `TURNS` (20000) is its number of turns.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program of its own: it prints a table, reads its settings and starts what it measures"
)]

mod agent;
mod cancels;
mod connections;
mod doctor;
mod endurance;
mod export;
mod floor;
mod history;
mod http;
mod idle;
mod model;
mod models;
mod plugins;
mod sandbox;
mod scenarios;
mod search;
mod servers;
mod setup;
mod streams;
mod table;
mod terminal;
mod tools;
mod usage;
mod worktree;

use std::{error::Error, path::PathBuf, process::ExitCode, time::Duration};

use scenarios::{NAMED, SCENARIOS, Scenario, Subject};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Settings {
    command: Vec<String>,
    env: Vec<(String, String)>,
    only: Option<Vec<String>>,
    json: Option<PathBuf>,
    reference: Option<Vec<String>>,
    runs: usize,
}

fn main() -> ExitCode {
    let settings = match settings() {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    // `cargo test --all-targets` starts every bench without arguments; that must not measure anything.
    if settings.command.is_empty() {
        println!("no agent named, nothing measured: acp [--only NAME,…] [--json FILE] PROGRAM ARG…");
        return ExitCode::SUCCESS;
    }
    match measure(settings) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures everything requested and prints it. Returns false if a measure failed; a missed budget is no
/// failure.
fn measure(settings: Settings) -> Result<bool> {
    let model = model::Model::start()?;
    let mut subjects = vec![Subject::new("windlass", settings.command, settings.env, &model)?];
    if let Some(command) = settings.reference {
        subjects.push(Subject::new("reference", command, Vec::new(), &model)?);
    }
    let floor_home = tempfile::tempdir()?;
    match floor::command(floor_home.path(), &model) {
        Ok(command) => subjects.push(Subject::new(floor::NAME, command, Vec::new(), &model)?),
        Err(error) => eprintln!("without the floor: {error}"),
    }
    let mut is_whole = true;
    let is_named = |scenario: &&Scenario| {
        settings.only.as_ref().is_some_and(|only| only.iter().any(|name| name == scenario.name))
    };
    let usual = SCENARIOS.iter().filter(|scenario| settings.only.is_none() || is_named(scenario));
    for (scenario, limit) in usual
        .map(|scenario| (scenario, if scenario.is_long { 3 } else { usize::MAX }))
        .chain(NAMED.iter().filter(is_named).map(|scenario| (scenario, 1)))
    {
        let runs = settings.runs.min(limit);
        let mut failed = vec![false; subjects.len()];
        for run in 0..runs {
            for (subject, has_failed) in subjects.iter_mut().zip(&mut failed) {
                // A failed measure is not repeated.
                if *has_failed || subject.name == floor::NAME && !floor::SCENARIOS.contains(&scenario.name) {
                    continue;
                }
                eprintln!("{}, {} of {runs}: {}", scenario.name, run + 1, subject.name);
                if let Err(error) = (scenario.run)(subject, &model) {
                    eprintln!("{}: {}: {error}", scenario.name, subject.name);
                    *has_failed = true;
                    is_whole &= subject.name != "windlass";
                }
                subject.kill_rest(Duration::from_secs(1));
            }
        }
    }
    print!("{}{}", table::render(&subjects), table::missing(&subjects));
    if let Some(path) = settings.json {
        std::fs::write(&path, table::json(&subjects)?)
            .map_err(|error| format!("write {}: {error}", path.display()))?;
    }
    Ok(is_whole)
}

fn settings() -> Result<Settings> {
    let mut settings = Settings {
        command: Vec::new(),
        env: Vec::new(),
        only: None,
        json: None,
        reference: reference(),
        runs: match std::env::var("RUNS") {
            Ok(runs) => runs.parse().map_err(|_| "RUNS is not a number")?,
            Err(_) => 7,
        },
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            // Cargo passes it to every bench.
            "--bench" => {}
            "--only" => settings.only = Some(names(&value()?)?),
            "--json" => settings.json = Some(value()?.into()),
            "--env" => {
                let value = value()?;
                let (name, value) = value.split_once('=').ok_or("--env takes NAME=VALUE")?;
                settings.env.push((name.to_owned(), value.to_owned()));
            }
            _ => {
                settings.command.push(argument);
                settings.command.extend(arguments.by_ref().filter(|argument| argument != "--bench"));
            }
        }
    }
    Ok(settings)
}

fn names(list: &str) -> Result<Vec<String>> {
    let names: Vec<String> = list.split(',').map(str::to_owned).collect();
    let known: Vec<&str> = SCENARIOS.iter().chain(NAMED).map(|scenario| scenario.name).collect();
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(names),
        Some(unknown) => {
            Err(format!("no measure is called {unknown}; there are {}", known.join(", ")).into())
        }
    }
}

fn reference() -> Option<Vec<String>> {
    if let Ok(command) = std::env::var("REFERENCE") {
        let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
        return (!command.is_empty()).then_some(command);
    }
    let path = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&path).map(|entry| entry.join("opencode")).find(|path| path.is_file())?;
    Some(vec![found.to_str()?.to_owned(), "acp".to_owned()])
}
