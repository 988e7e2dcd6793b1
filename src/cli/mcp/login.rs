//! `windlass mcp auth`, `logout` and `debug`: logins at remote servers.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use windlass_base::process::desktop;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::{Engine, ServerStatus};

use super::draw;
use crate::cli::{output, runtime};

#[derive(Debug, Args)]
pub struct NameArgs {
    /// The server's name in the configuration.
    name: String,
    /// Directory whose configuration is meant; the working directory unless given.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Show the page's address without opening a browser.
    #[arg(long)]
    no_browser: bool,
}

/// A wish about a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    LogIn,
    LogOut,
    Probe,
}

pub fn run(environment: Environment, action: Action, args: NameArgs) -> ExitCode {
    let NameArgs { name, dir, no_browser } = args;
    let directory = match output::directory(dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    let paths = Paths::new(&environment);
    let engine = Engine::new(environment, paths);
    runtime::block_on(async move {
        let show = |page: &str| {
            output::note(&format!("Log in at {page}"));
            if !no_browser && let Err(error) = desktop::open(page) {
                tracing::debug!(%error, "the browser was not opened");
            }
        };
        match action {
            Action::LogIn => match engine.workspaces().log_in_at_server(&directory, &name, show).await {
                Ok(Some(report)) if report.status == ServerStatus::NeedsAuth => output::fail(&format!(
                    "{name} rejects the token of this login: it may be meant for another server or have expired. `windlass mcp debug {name}` shows what the server says of logins.",
                )),
                Ok(Some(report)) => {
                    let code = output::print_answer(&draw(&report));
                    if report.status == ServerStatus::Connected { code } else { ExitCode::FAILURE }
                }
                Ok(None) => output::fail(&format!("MCP server {name} is gone.")),
                Err(error) => output::fail(&format!("{error}.")),
            },
            Action::LogOut => match engine.workspaces().log_out_of_server(&directory, &name).await {
                Ok(true) => output::print_answer(&format!("The login at {name} is forgotten.")),
                Ok(false) => output::print_answer(&format!("There is no login at {name}.")),
                Err(error) => output::fail(&format!("{error}.")),
            },
            Action::Probe => match engine.workspaces().probe_server(&directory, &name).await {
                Ok(lines) => output::print_answer(&lines.join("\n")),
                Err(error) => output::fail(&format!("{error}.")),
            },
        }
    })
}
