//! `windlass attach`, and `run` and `acp` with `--attach`: work at a server that runs already.

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use windlass_core::config::Environment;

use super::{
    chat,
    daemon::{
        http::{CredentialArgs, Http},
        sessions::Sessions,
    },
    output,
    run::args::TalkArgs,
    runtime,
    view::look::Look,
};

mod pipe;
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
    if !chat::is_at_terminal() {
        let reason = "An attached chat needs a terminal on standard input and output; `windlass run --attach URL` takes \
                      prompts from pipes.";
        return output::misuse(reason);
    }
    let AttachArgs { url, prompt, credential, talk } = args;
    let look = Look::new(&environment, true, PathBuf::new());
    runtime::block_on(async move {
        let sessions = Sessions::at_server(&environment, &url, &credential, &talk);
        match chat::converse(sessions, &talk, prompt.unwrap_or_default(), look, environment.clone()).await {
            Ok(id) => {
                if let Some(id) = id {
                    output::note(&format!("Continue with: windlass attach {url} -s {id}"));
                }
                ExitCode::SUCCESS
            }
            Err(code) => code,
        }
    })
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
