//! `windlass config`: shows the configuration, where each value is from, and what is wrong with it.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::{output, runtime};
use crate::{
    base::text::visible_json,
    config::{Environment, Warning, paths::Paths, schema, secrets, sources},
    engine::{Engine, Pages, Report},
};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Option<ConfigCommand>,
    /// Show for each value the file and line that set it, and what it overrode.
    #[arg(long)]
    sources: bool,
    /// Show keys, tokens, headers and environments instead of stars.
    #[arg(long)]
    show_secrets: bool,
    /// Fetch an organisation's configuration, marketplaces' agents and, to check them, pages of instructions first.
    #[arg(long, global = true)]
    refresh: bool,
    /// The directory that is asked about; the working directory unless given.
    #[arg(long, global = true, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check every file; the exit code is 1 when something in them is ignored or cannot work.
    Check,
    /// Print the JSON schema of the configuration, for editors.
    Schema,
}

pub fn run(environment: Environment, args: ConfigArgs) -> ExitCode {
    if let Some(ConfigCommand::Schema) = args.command {
        return output::say(&format!("{:#}", schema::schema()));
    }
    let directory = match args.cwd.as_ref().map_or_else(std::env::current_dir, std::path::absolute) {
        Ok(directory) if directory.is_dir() => directory,
        Ok(directory) => return output::fail(&format!("There is no directory {}.", directory.display())),
        Err(error) => return output::fail(&format!("The directory cannot be used: {error}.")),
    };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        if args.refresh {
            engine.fetch_all(&directory).await;
        }
        let pages = if args.refresh { Pages::AreAsked } else { Pages::AreLeft };
        let report = match engine.examine(&directory, pages).await {
            Ok(report) => report,
            Err(error) => return output::fail(&format!("{error}.")),
        };
        match args.command {
            None => show(report, args.sources, args.show_secrets),
            Some(ConfigCommand::Check | ConfigCommand::Schema) => check(&report.warnings, &report.notes),
        }
    })
}

fn show(report: Report, with_sources: bool, show_secrets: bool) -> ExitCode {
    let Report { config, leaves, warnings, .. } = report;
    let said = match (with_sources, show_secrets) {
        (true, show_secrets) => output::say(sources::render(&leaves, !show_secrets).trim_end()),
        (false, true) => output::say(&json(config.raw)),
        (false, false) => output::say(&json(secrets::masked(&config.raw))),
    };
    if !warnings.is_empty() {
        output::note(&format!("{} `windlass config check` says what.", count(&warnings)));
    }
    said
}

fn json(config: Map<String, Value>) -> String {
    visible_json(&format!("{:#}", Value::Object(config)))
}

fn check(warnings: &[Warning], notes: &[Warning]) -> ExitCode {
    let mut lines: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    lines.extend(notes.iter().map(|note| format!("{note} (note)")));
    if lines.is_empty() {
        return output::say("Nothing is wrong.");
    }
    let said = output::say(&lines.join("\n"));
    if warnings.is_empty() {
        return said;
    }
    output::fail(&count(warnings))
}

/// How much is wrong.
fn count(warnings: &[Warning]) -> String {
    match warnings.len() {
        1 => "1 thing is wrong.".to_owned(),
        n => format!("{n} things are wrong."),
    }
}
