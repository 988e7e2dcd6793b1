//! `windlass acp`: serves one client on standard input and output until it hangs up.

use std::{future::Future, io::IsTerminal, os::fd::AsFd, path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncReadExt, Interest, unix::AsyncFd};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_base::sandbox;
use windlass_core::config::{Environment, paths::Paths};
use windlass_engine::Engine;

use super::{attach, daemon::http::CredentialArgs, input, output, runtime, stdio};
use crate::acp;

/// Bytes of a first line that is looked at; no prompt is as long.
const MAX_FIRST_LINE: usize = 1 << 20;
/// Time between two looks for a reader that is gone.
const LOOK_FOR_READER: Duration = Duration::from_millis(300);
const WAY_OUT: &str = "for a prompt: `windlass run`";

/// Flags of `windlass acp`.
///
/// Entries that editors have for `opencode acp` go on to work: its flags of an HTTP server and of plugins, which there
/// are none of here, are accepted and have no effect.
#[derive(Debug, Default, Args)]
pub struct AcpArgs {
    /// Working directory of the process; sessions name their own.
    #[arg(long, alias = "cwd", value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Append every line of the protocol, in both directions, to this file (also `WINDLASS_TRACE`).
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Log in with a provider key instead of serving.
    #[arg(long)]
    pub login: bool,
    /// Carry the protocol to the server at this address instead of serving here.
    #[arg(long, value_name = "URL")]
    attach: Option<String>,
    #[command(flatten)]
    credential: CredentialArgs,
    #[arg(long, hide = true)]
    port: Option<u16>,
    #[arg(long, hide = true)]
    hostname: Option<String>,
    #[arg(long, hide = true)]
    mdns: bool,
    #[arg(long, hide = true)]
    mdns_domain: Option<String>,
    #[arg(long, hide = true)]
    cors: Vec<String>,
    /// Called without a command, so that it may be meant for a prompt.
    #[arg(skip)]
    is_bare: bool,
}

impl AcpArgs {
    /// Returns the arguments of a call without a command.
    pub fn bare() -> Self {
        Self { is_bare: true, ..Self::default() }
    }
}

impl AcpArgs {
    /// Returns true if a server does the work.
    pub fn is_client(&self) -> bool {
        self.attach.is_some()
    }
}

pub fn run(environment: Environment, args: AcpArgs) -> ExitCode {
    if let Some(cwd) = &args.dir
        && let Err(error) = std::env::set_current_dir(cwd)
    {
        tracing::error!(%error, "--dir {} cannot be used", cwd.display());
        return ExitCode::from(2);
    }
    if let Some(url) = &args.attach {
        return attach::pipe(&environment, url, &args.credential);
    }
    sandbox::begin();
    runtime::block_on(async move {
        match serve(environment, args).await {
            Ok(code) => code,
            Err(error) => {
                tracing::error!(%error, "windlass acp failed");
                ExitCode::FAILURE
            }
        }
    })
}

async fn serve(environment: Environment, args: AcpArgs) -> std::io::Result<ExitCode> {
    let paths = Paths::new(&environment);
    let stop = CancellationToken::new();
    let signals = tokio::spawn(stop_on(runtime::signalled(), stop.clone()));
    // Behind the handlers of signals: a Ctrl-C that it asks for is not lost, even where the parent ignores SIGINT.
    if std::io::stdin().is_terminal() {
        let program = login_command().swap_remove(0);
        output::note(&format!(
            "This is windlass for editors: it waits for the Agent Client Protocol on standard input. An editor starts it \
             as `{program} acp`; `windlass editor NAME` prints its entry. To talk here, run `windlass chat`. Ctrl-C ends it."
        ));
    }
    let mut input = stdio::input();
    let mut first = Vec::new();
    if args.is_bare {
        let is_protocol = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            is_protocol = begins_with_protocol(&mut input, &mut first) => is_protocol?,
        };
        if !is_protocol {
            return Ok(output::misuse(&format!(
                "Without a command and a terminal, windlass speaks the Agent Client Protocol, and the first line is no \
                 JSON of it; {WAY_OUT}."
            )));
        }
    }
    let hangup = tokio::spawn(stop_on_broken_output(stop.clone()));
    let hung_up = CancellationToken::new();
    let watched = tokio::spawn(watch_input(hung_up.clone()));
    let gone = tokio::spawn(stop_on_gone_reader(hung_up.clone(), stop.clone()));
    let trace = args.trace.or_else(|| environment.get("WINDLASS_TRACE").map(PathBuf::from));
    let max_line = environment.get("WINDLASS_MAX_LINE_BYTES").and_then(|bytes| bytes.parse().ok());
    let max_line = max_line.unwrap_or(acp::MAX_LINE);
    let options =
        acp::Options { trace, login_command: login_command(), max_line, is_of_fleet: false, stop, hung_up };
    let engine = Engine::new(environment, paths);
    runtime::serve_plugins(&engine);
    let result = acp::serve(engine, std::io::Cursor::new(first).chain(input), stdio::output(), options).await;
    signals.abort();
    hangup.abort();
    watched.abort();
    gone.abort();
    result.map(|()| ExitCode::SUCCESS)
}

/// Reads the first line, with the bytes that come with it, into `first`. False if it is no message of the protocol.
async fn begins_with_protocol(
    input: &mut (impl AsyncRead + Unpin),
    first: &mut Vec<u8>,
) -> std::io::Result<bool> {
    let waits_for = format!("windlass waits for the Agent Client Protocol on standard input; {WAY_OUT}.");
    loop {
        let is_begun = !first.is_empty();
        let reading = input.read_buf(first);
        let n_read = if is_begun { reading.await? } else { input::read(reading, &waits_for).await? };
        let text = first.trim_ascii_start();
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        if n_read == 0 || line.len() < text.len() {
            let is_message = line.starts_with(b"{") || line.starts_with(b"[");
            let is_json = is_message && serde_json::from_slice::<IgnoredAny>(line).is_ok();
            return Ok(is_json || text.is_empty());
        }
        if first.len() >= MAX_FIRST_LINE {
            return Ok(true);
        }
    }
}

/// Returns the command that starts this very program for a login in a terminal.
pub fn login_command() -> Vec<String> {
    let program = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    vec![program.unwrap_or_else(|| "windlass".to_owned()), "auth".to_owned(), "login".to_owned()]
}

/// Cancels `stop` at the end of `signalled`, which is made before: from then on no signal is lost.
pub async fn stop_on(signalled: impl Future<Output = u8>, stop: CancellationToken) {
    signalled.await;
    stop.cancel();
}

/// Asks the kernel for the moment the reader hangs up: without it a turn that says nothing would run on unseen.
pub async fn stop_on_broken_output(stop: CancellationToken) {
    #[expect(unsafe_code, reason = "registering a descriptor is unsafe; this one is never closed")]
    // SAFETY: the descriptor is standard output's own, which stays open for as long as the process lives.
    let output = unsafe { AsyncFd::register_with_interest(std::io::stdout(), Interest::ERROR) };
    // A file or terminal cannot be watched, and does not hang up.
    let Ok(output) = output else { return };
    if output.ready(Interest::ERROR).await.is_ok() {
        tracing::error!("the output is broken; everything is cancelled");
        stop.cancel();
    }
}

/// Looks, once the input has ended, for a reader that is gone: a socket says so by a hang-up, which is no error.
async fn stop_on_gone_reader(hung_up: CancellationToken, stop: CancellationToken) {
    hung_up.cancelled().await;
    loop {
        let output = std::io::stdout();
        let mut looked = [PollFd::new(output.as_fd(), PollFlags::empty())];
        let is_gone = poll(&mut looked, PollTimeout::ZERO).is_ok_and(|n_changed| n_changed > 0);
        if is_gone {
            tracing::error!("the client is gone; everything is cancelled");
            return stop.cancel();
        }
        sleep(LOOK_FOR_READER).await;
    }
}

/// Asks the kernel for the moment the client closes the input: one that reads nothing is not read either, and its end
/// would not be seen.
async fn watch_input(hung_up: CancellationToken) {
    // Nothing but the end of a pipe is of interest; `PRIORITY` brings no wake-up for each line.
    #[expect(unsafe_code, reason = "registering a descriptor is unsafe; this one is never closed")]
    // SAFETY: the descriptor is standard input's own, which stays open for as long as the process lives.
    let input = unsafe { AsyncFd::register_with_interest(std::io::stdin(), Interest::PRIORITY) };
    // A file cannot be watched, and its end is read.
    let Ok(input) = input else { return };
    if input.ready(Interest::PRIORITY).await.is_ok() {
        hung_up.cancel();
    }
}
