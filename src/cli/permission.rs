//! `windlass permission`: lists and revokes the answers that are remembered for a project.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_base::{clock, text};
use windlass_core::config::Environment;
use windlass_engine::{
    EngineError,
    approvals::{self, Approval, Which},
};

use super::options::{Format, FormatArgs};

#[derive(Debug, Args)]
pub struct PermissionArgs {
    #[command(subcommand)]
    command: PermissionCommand,
    /// Directory of the project; the working directory unless given.
    #[arg(long, alias = "cwd", global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum PermissionCommand {
    /// List this project's remembered answers.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Revoke an answer, by number or by permission and pattern; running sessions ask again.
    Revoke {
        /// Number in the list, or the permission, such as `bash`.
        #[arg(value_name = "NUMBER|PERMISSION")]
        first: String,
        /// The pattern as listed, such as `git push *`.
        pattern: Option<String>,
    },
}

pub fn run(environment: &Environment, args: PermissionArgs) -> ExitCode {
    let directory = match args.dir.map_or_else(std::env::current_dir, std::path::absolute) {
        Ok(directory) => directory,
        Err(error) => return fail(&format!("The directory cannot be used: {error}.")),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("The runtime cannot be started: {error}.")),
    };
    let done = runtime.block_on(async {
        match args.command {
            PermissionCommand::List { format } => {
                let rows = approvals::list(environment, &directory).await?;
                Ok(match format.get() {
                    Format::Text => Done::Listed(rows),
                    Format::Json => Done::Encoded(rows.iter().map(value).collect()),
                })
            }
            PermissionCommand::Revoke { first, pattern } => {
                let which = match (pattern, first.parse()) {
                    (Some(pattern), _) => Which::Rule { permission: first, pattern },
                    (None, Ok(number)) => Which::Number(number),
                    (None, Err(_)) => return Ok::<Done, EngineError>(Done::Unclear),
                };
                approvals::revoke(environment, &directory, &which).await.map(Done::Revoked)
            }
        }
    });
    match done {
        Ok(Done::Listed(rows)) if rows.is_empty() => print_line("Nothing is remembered for this project."),
        Ok(Done::Listed(rows)) => print_line(&rows.iter().map(row).collect::<Vec<_>>().join("\n")),
        Ok(Done::Encoded(rows)) => print_line(&format!("{rows:#}")),
        Ok(Done::Revoked(Some(approval))) => print_line(&format!("Revoked: {}", row(&approval))),
        Ok(Done::Revoked(None)) => fail("There is no such answer. See `windlass permission list`."),
        Ok(Done::Unclear) => {
            fail("Give a number from `windlass permission list`, or a permission and a pattern.")
        }
        Err(error) => fail(&format!("The store cannot be used: {}.", error.message)),
    }
}

enum Done {
    Listed(Vec<Approval>),
    Encoded(Value),
    Revoked(Option<Approval>),
    Unclear,
}

fn value(approval: &Approval) -> Value {
    let Approval { number, rule, created } = approval;
    json!({
        "number": number, "permission": rule.permission, "pattern": rule.pattern, "action": rule.action,
        "created": created,
    })
}

fn row(approval: &Approval) -> String {
    let action = approval.rule.action.name();
    let Approval { number, rule, created } = approval;
    // A pattern holds a model's text; it must not steer the terminal.
    let pattern: String = rule.pattern.chars().flat_map(printable).collect();
    format!("{number}\t{action}\t{}\t{pattern}\t{}", rule.permission, clock::short(*created))
}

fn printable(c: char) -> Vec<char> {
    if text::is_hidden(c) { c.escape_default().collect() } else { vec![c] }
}

fn print_line(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(text: &str) -> ExitCode {
    // If standard error has no reader, the exit code says it.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::FAILURE
}
