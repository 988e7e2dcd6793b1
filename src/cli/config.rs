//! `windlass config`: shows the configuration, where each value is from, and what is wrong with it.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{output, runtime};
use crate::{
    config::{Environment, Warning, layers, paths::Paths, schema, sources},
    engine::Engine,
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
    /// Check every file; the exit code is 1 when something in them is ignored.
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
    let engine = Engine::new(environment.clone(), paths.clone());
    runtime::block_on(async move {
        if args.refresh {
            engine.fetch_remote_config().await;
            engine.fetch_agents(&directory).await;
        }
        match args.command {
            None => show(&environment, &paths, &directory, &args),
            Some(ConfigCommand::Check | ConfigCommand::Schema) => {
                let loaded = match engine.inspect_files(&directory).await {
                    Ok(loaded) => Arc::new(loaded),
                    Err(error) => return output::fail(&format!("{error}.")),
                };
                let unread = layers::unread(&environment, &paths, &directory);
                let instructions = engine.instruction_problems(&loaded, args.refresh).await;
                let warnings = [loaded.warnings.clone(), unread.warnings, instructions].concat();
                check(&warnings, &[loaded.config.notes.clone(), unread.notes].concat())
            }
        }
    })
}

fn show(
    environment: &Environment,
    paths: &Paths,
    directory: &std::path::Path,
    args: &ConfigArgs,
) -> ExitCode {
    let (config, leaves) = layers::explain(environment, paths, directory);
    let said = match (args.sources, args.show_secrets) {
        (true, show_secrets) => output::say(sources::render(&leaves, !show_secrets).trim_end()),
        (false, true) => output::say(&format!("{:#}", Value::Object(config.raw))),
        (false, false) => output::say(&format!("{:#}", Value::Object(sources::masked(&config.raw)))),
    };
    if !config.warnings.is_empty() {
        output::note(&format!(
            "{} ignored; `windlass config check` says what.",
            count(config.warnings.len(), "thing is", "things are")
        ));
    }
    said
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
    output::fail(&format!("{} ignored.", count(warnings.len(), "thing is", "things are")))
}

fn count(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
