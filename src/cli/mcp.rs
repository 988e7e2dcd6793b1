//! `windlass mcp`: starts the MCP servers of the configuration and says how each fares; logs in at them, and adds
//! and removes them.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use windlass_base::text::visible_line;
use windlass_core::config::{Environment, paths::Paths, secrets};
use windlass_engine::{Engine, ServerReport, ServerStatus};

use super::{
    options::{Format, FormatArgs},
    output, runtime, trust,
};

#[derive(Debug, Args)]
pub struct McpArgs {
    #[command(subcommand)]
    command: McpCommand,
}

#[derive(Debug, Subcommand)]
enum McpCommand {
    /// Start the servers and list their tools; exits with 1 when one failed.
    #[command(alias = "ls")]
    List {
        #[command(flatten)]
        format: FormatArgs,
        /// Directory to look at; the working directory unless given.
        #[arg(long, alias = "cwd", value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Wait at most this many seconds for the servers.
        #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
    },
    /// Log in at a remote server in the browser.
    Auth(login::NameArgs),
    /// Forget the login at a remote server.
    Logout(login::NameArgs),
    /// Say how a remote server answers, and how it takes logins.
    Debug(login::NameArgs),
    /// Name a server in the project's configuration: `add NAME --url URL`, or `add NAME -- COMMAND…`.
    Add(change::AddArgs),
    /// Take a server out of the project's configuration.
    #[command(alias = "rm")]
    Remove(change::RemoveArgs),
    /// Offer this agent to programs as an MCP server on standard input and output.
    Serve(serve::ServeArgs),
}

mod change;
mod login;
mod serve;

pub fn run(environment: Environment, args: McpArgs) -> ExitCode {
    let (format, dir, timeout) = match args.command {
        McpCommand::List { format, dir, timeout } => (format.get(), dir, timeout),
        McpCommand::Auth(args) => return login::run(environment, login::Action::LogIn, args),
        McpCommand::Logout(args) => return login::run(environment, login::Action::LogOut, args),
        McpCommand::Debug(args) => return login::run(environment, login::Action::Probe, args),
        McpCommand::Add(args) => return change::add(environment, args),
        McpCommand::Remove(args) => return change::remove(environment, args),
        McpCommand::Serve(args) => return serve::run(environment, args),
    };
    let directory = match output::directory(dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let held = trust::held(&environment, &directory);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        let (reports, hidden) =
            match engine.diagnostics().mcp_servers(&directory, Duration::from_secs(timeout)).await {
                Ok(found) => found,
                Err(error) => return output::fail(&format!("{error}.")),
            };
        for warning in &hidden {
            output::note(&warning.to_string());
        }
        let is_held = trust::note_held(&held);
        let code = match format {
            Format::Json => {
                output::print_answer(&format!("{:#}", reports.iter().map(row).collect::<Value>()))
            }
            Format::Text if reports.is_empty() && !hidden.is_empty() => ExitCode::FAILURE,
            Format::Text if reports.is_empty() && is_held => ExitCode::SUCCESS,
            Format::Text if reports.is_empty() => {
                output::note("There are no MCP servers; `mcp` in opencode.json names them.");
                ExitCode::SUCCESS
            }
            Format::Text => output::print_answer(&reports.iter().map(draw).collect::<Vec<_>>().join("\n")),
        };
        let is_broken = |report: &ServerReport| match report.status {
            ServerStatus::Connected | ServerStatus::Disabled => false,
            ServerStatus::Connecting
            | ServerStatus::Failed { .. }
            | ServerStatus::NeedsAuth
            | ServerStatus::NeedsClientRegistration { .. } => true,
        };
        let is_wrong = !hidden.is_empty() || reports.iter().any(is_broken);
        if is_wrong { ExitCode::FAILURE } else { code }
    })
}

/// Returns the word for a status, and why it is so.
fn status(report: &ServerReport) -> (&'static str, Option<String>) {
    match &report.status {
        ServerStatus::Connected => ("connected", None),
        ServerStatus::Connecting => ("connecting", Some("it did not answer in time".to_owned())),
        ServerStatus::Disabled => ("disabled", None),
        ServerStatus::Failed { error } => ("failed", Some(secrets::text(error))),
        ServerStatus::NeedsClientRegistration { error } => {
            ("needs_client_registration", Some(secrets::text(error)))
        }
        ServerStatus::NeedsAuth => {
            let name = &report.name;
            let remedy = format!(
                "the server wants a login: `windlass mcp auth {name}`, or a token in `mcp.{name}.headers`"
            );
            ("needs_auth", Some(remedy))
        }
    }
}

fn draw(report: &ServerReport) -> String {
    let (word, reason) = status(report);
    let place = secrets::text(&report.place);
    let mut lines = vec![visible_line(&format!("{}: {word} ({place})", report.name)).into_owned()];
    lines.extend(reason.map(|reason| format!("  {}", visible_line(&reason))));
    lines.extend(report.tools.iter().map(|(name, description)| {
        let first = description.lines().next().unwrap_or_default();
        let gap = if first.is_empty() { "" } else { ": " };
        visible_line(&format!("  {name}{gap}{}", secrets::text(first))).into_owned()
    }));
    lines.join("\n")
}

fn row(report: &ServerReport) -> Value {
    let (word, reason) = status(report);
    let tools =
        report.tools.iter().map(|(name, description)| json!({"name": name, "description": description}));
    json!({
        "name": report.name,
        "status": word,
        "reason": reason,
        "place": secrets::text(&report.place),
        "tools": tools.collect::<Vec<_>>(),
    })
}
