//! `windlass run --attach`: has one prompt answered by a server.

use std::{
    io::{self, IsTerminal},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};

use windlass_core::config::Environment;
use windlass_engine::{Invocation, PromptInput, PromptPart};

use super::super::{
    daemon::{Daemon, place, remote::Remote},
    run::{self, args::RunArgs, attach, failure::Failure, schema, shown::Shown},
    runtime::{self, Interrupts},
    view::look::Look,
};

pub fn run(environment: Environment, url: &str, args: RunArgs) -> ExitCode {
    let look = Look::new(&environment, io::stdout().is_terminal(), PathBuf::new());
    runtime::block_on(async move {
        let mut signalled = std::pin::pin!(runtime::signalled());
        let remote = tokio::select! {
            biased;
            signal = &mut signalled => return ExitCode::from(128 + signal),
            remote = place::connect(&environment, url, &args.credential, &args.talk) => match remote {
                Ok(remote) => remote,
                Err(failure) => return failure.report(),
            },
        };
        let mut shown = Shown::new(&Daemon::Remote(remote.clone()), args.shown_as(), &args.talk, look);
        let ended = tokio::select! {
            biased;
            signal = &mut signalled => Err(signal),
            result = answer(&remote, &mut shown, args) => Ok(result),
        };
        let code = match ended {
            Ok(Ok(code)) => code,
            Ok(Err(failure)) => failure.report(),
            Err(signal) => {
                remote.cancel_all();
                shown.abandon().await;
                ExitCode::from(128 + signal)
            }
        };
        remote.finish().await;
        code
    })
}

/// Runs the turn and shows it.
async fn answer(remote: &Arc<Remote>, shown: &mut Shown, mut args: RunArgs) -> Result<ExitCode, Failure> {
    let command = args.command.take().map(|name| name.strip_prefix('/').unwrap_or(&name).to_owned());
    let given = args.given();
    let (mut parts, piped) = attach::given(&given.files).await?;
    let message = run::message(&given.words.join(" "), piped);
    if message.is_empty() && command.is_none() {
        let reason = "No prompt: give one as arguments or on standard input.";
        return Err(Failure::Misuse(reason.to_owned()));
    }
    let format = args.schema.as_deref().map(schema::read).transpose()?;
    let model = place::model(&args.talk)?;
    let (session, _) = place::open(&remote.http, &args.talk, &message).await?;
    parts.push(PromptPart::Text { text: message, is_synthetic: false, is_ignored: false });
    let is_object = format.is_some();
    let input = PromptInput {
        parts,
        agent: args.talk.agent,
        model,
        invocation: command.map_or(Invocation::None, Invocation::Named),
        format,
        ..PromptInput::default()
    };
    shown.bound(&session, args.timeout);
    let ended = shown.turn(&session.id, input, None, &mut Interrupts::none()).await?;
    let code = run::conclude(shown, &ended, is_object, None).await?;
    shown.tell_rest(&session.id).await?;
    Ok(code)
}
