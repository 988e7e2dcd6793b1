//! `windlass attach`, and `run` and `acp` with `--attach`: work at a server that runs already.

use std::process::ExitCode;

use clap::Args;
use windlass_core::config::Environment;

use super::{
    daemon::http::{CredentialArgs, Http},
    run::{args::TalkArgs, failure::Failure},
    runtime,
};

mod chat;
mod pipe;
mod place;
pub mod prompt;

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Address of the server, such as http://127.0.0.1:4096.
    url: String,
    /// The first prompt.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    #[command(flatten)]
    credential: CredentialArgs,
    #[command(flatten)]
    talk: TalkArgs,
}

pub fn run(environment: Environment, args: AttachArgs) -> ExitCode {
    chat::run(environment, args)
}

/// Carries an editor's protocol to a server.
pub fn pipe(environment: &Environment, url: &str, credential: &CredentialArgs) -> ExitCode {
    let directory = std::env::current_dir().unwrap_or_default();
    runtime::block_on(async move {
        let carried = async {
            let http = Http::new(environment, url, credential, &directory)?;
            pipe::run(&http).await
        };
        tokio::select! {
            biased;
            signal = runtime::signalled() => ExitCode::from(128 + signal),
            carried = carried => match carried {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.report(),
            },
        }
    })
}

/// Makes a server's reason the command's.
fn failed(reason: String) -> Failure {
    Failure::Failed(reason)
}
