//! `windlass mcp serve`: an MCP server on standard input and output, until the client closes the input.

use std::{io::IsTerminal, path::PathBuf, process::ExitCode};

use clap::Args;
use tokio_util::sync::CancellationToken;
use windlass_base::sandbox;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::Engine;

use super::super::{acp, output, runtime, stdio};
use crate::mcp_server;

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Directory of sessions that name none; the working directory unless given.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(environment: Environment, args: ServeArgs) -> ExitCode {
    let directory = match output::directory(args.dir.as_deref()) {
        Ok(directory) => directory,
        Err(code) => return code,
    };
    sandbox::begin();
    runtime::block_on(async move {
        let stop = CancellationToken::new();
        let signals = tokio::spawn(acp::stop_on(runtime::signalled(), stop.clone()));
        if std::io::stdin().is_terminal() {
            output::note(
                "This is windlass for programs: it waits for the Model Context Protocol on standard input. To talk here, \
                 run `windlass chat`. Ctrl-C ends it.",
            );
        }
        let hangup = tokio::spawn(acp::stop_on_broken_output(stop.clone()));
        let paths = Paths::new(&environment);
        let engine = Engine::new(environment, paths);
        runtime::serve_plugins(&engine);
        let (input, output) = (stdio::input(), stdio::output());
        let served = mcp_server::serve(engine, directory, input, output, stop).await;
        signals.abort();
        hangup.abort();
        match served {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(error, "windlass mcp serve failed");
                ExitCode::FAILURE
            }
        }
    })
}
