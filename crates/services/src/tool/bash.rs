//! Runs a shell command.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    ffi::{OsStr, OsString},
    future::pending,
    io,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    path::{Path, PathBuf},
    pin::pin,
    process::ExitStatus,
    time::Duration,
};

use nix::sys::signal::Signal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStderr, ChildStdout},
    time::{Instant, sleep, sleep_until, timeout},
};
use windlass_base::{
    home,
    path::absolute,
    process::{Child, Spawn, spawn},
    proxy::gate::Asking,
};
use windlass_core::{
    config::{Config, sandbox::secret_variables},
    permission::{self, Ask, Verdict},
};
use windlass_protocol::opencode::{
    id::SessionId,
    tool_metadata::{self, RunningCommand, encode},
};

use crate::plugin::host::Host;

use super::{
    AllowedBy, ToolCx, ToolError, ToolOutput,
    arguments::arguments,
    blocking,
    path::{self, Target, display},
};

pub mod background;
pub(super) mod call;
mod hosts;
mod line;
mod named;
mod output;
pub(super) mod sandbox;
mod unasked;

use call::{Ended, Line, described};
use hosts::Hosts;
use named::Named;
use output::Output;
pub use sandbox::{Sandbox, around_projects_program, around_template};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
/// The child may end by itself right at its deadline.
const TIMEOUT_SLACK: Duration = Duration::from_millis(100);
/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(3);
/// Time for the output of a background child that keeps the pipe after the command has ended.
const DRAIN: Duration = Duration::from_millis(100);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const CHUNK_BYTES: usize = 32 * 1024;
/// Shells with the language of `sh`, as far as models write it.
const SHELLS_LIKE_SH: [&str; 15] = [
    "ash", "bash", "dash", "hush", "ksh", "lksh", "mksh", "oksh", "osh", "posh", "rbash", "sash", "sh",
    "yash", "zsh",
];
/// Variables that keep programs from asking, from paging and from opening an editor, where the user has not set them:
/// nobody is there to answer. Git then says itself how a message is given to it.
const UNATTENDED: [(&str, &str); 7] = [
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "false"),
    ("GIT_EDITOR", "false"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("PAGER", "cat"),
    ("VISUAL", "false"),
];

/// Command to run.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The command line, run by a shell.
    pub command: String,
    /// Milliseconds after which the command is ended (default 120000).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout: Option<f64>,
    /// The directory to run in; use this instead of `cd`. Leave it out for the working directory.
    pub workdir: Option<String>,
    /// Description of the command, in five to ten words.
    pub description: Option<String>,
    /// True to run it in the background: the call returns at once, and you are told when the command has ended. It has no
    /// time limit unless `timeout` is given, and ends with the session.
    pub background: Option<bool>,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("bash", input)?;
    let timeout_ms = match args.timeout {
        None => default_timeout_ms(cx.config),
        // Parts of a millisecond are nothing to wait for; a time beyond every clock is cut by the cast.
        Some(given) if given > 0.0 => given.ceil() as u64,
        Some(given) => {
            return Err(ToolError::Model(format!(
                "Invalid timeout value: {given}. Timeout must be a positive number."
            )));
        }
    };
    if args.command.trim().is_empty() {
        return Err(ToolError::Model("command is required".to_owned()));
    }
    let workdir = args.workdir.as_deref().filter(|it| !it.is_empty()).unwrap_or(".");
    let workdir = absolute(cx.directory(), home::expand(&cx.config.environment.home, workdir));
    let (needs, surroundings) = tokio::join!(needs(cx.config, &args.command, &workdir), sandbox::begin(cx));
    let Needs { asks, targets } = needs?;
    let line = Line { command: args.command, workdir, timeout_ms };
    let drawing = sandbox::around(cx, surroundings?, &line, &asks).await?;
    let shows_line = is_line_shown(cx, &asks).await;
    let mut was_asked = false;
    for (mut ask, is_opaque) in asks {
        if args.background == Some(true) {
            ask.metadata.insert("background".to_owned(), true.into());
        }
        let is_shown = shows_line && ask.permission == "edit" && !is_opaque;
        if is_shown || drawing.as_ref().is_some_and(|it| it.answers(cx, &ask, is_opaque)) {
            continue;
        }
        let by = if is_opaque { cx.host.ask_opaque(ask).await? } else { cx.host.ask_who(ask).await? };
        was_asked |= by != AllowedBy::Rules;
    }
    let sandbox = match drawing {
        Some(drawing) => Some(drawing.finished(was_asked).await?),
        None => None,
    };
    path::all_unmoved(cx.config, targets).await?;
    if !tokio::fs::metadata(&line.workdir).await.is_ok_and(|it| it.is_dir()) {
        let workdir = line.workdir.display();
        return Err(ToolError::Model(format!("workdir is not a directory: {workdir}")));
    }
    if args.background == Some(true) {
        let limit = args.timeout.map(|_| Duration::from_millis(timeout_ms));
        return background::begin(cx, line, args.description, limit, sandbox).await;
    }
    let ended = execute(cx, &line, sandbox.as_ref()).await?;
    match sandbox {
        Some(sandbox) => sandbox.explain(cx, ended, execute(cx, &line, None)).await,
        None => Ok(ended.tool_output),
    }
}

/// Returns true if the user reads the whole line anyway, and with it the files that its redirections write.
async fn is_line_shown(cx: &ToolCx<'_>, asks: &[(Ask, bool)]) -> bool {
    let about = |permission: &str| asks.iter().find(|(ask, _)| ask.permission == permission);
    let (Some((edit, _)), Some((bash, _))) = (about("edit"), about("bash")) else { return false };
    let (policy, answers) = (cx.host.policy(), cx.host.answers().await);
    [edit, bash].iter().all(|ask| permission::evaluate_all(ask, &policy, &answers) == Verdict::Ask)
}

async fn execute(cx: &ToolCx<'_>, line: &Line, sandbox: Option<&Sandbox>) -> Result<Ended, ToolError> {
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled { partial: None });
    }
    let host = cx.plugins.map(|plugins| &*plugins.host);
    let variables =
        plugin_variables(host, cx.session_id, cx.call_id, &line.workdir, sandbox.is_some()).await?;
    let (hosts, asking) = Hosts::new(cx, sandbox.is_some_and(Sandbox::is_network_by_name)).await;
    let child = start(cx.config, &line.command, &line.workdir, &variables, sandbox, asking);
    let child = child.map_err(|error| ToolError::Model(error.to_string()))?;
    let timeout_ms = line.timeout_ms;
    let (ending, output) = supervise(cx, child, line, hosts).await;

    let metadata_output = output.live().to_owned();
    let finished = output.finish().await;
    let mut text = finished.text;
    let is_silent = text.is_empty();
    if is_silent {
        text.push_str("(no output)");
    }
    let note = match ending {
        // Nothing else tells that it failed.
        Ending::Exited(status) if is_silent => status.and_then(failure),
        Ending::Exited(_) => None,
        Ending::TimedOut(_) => Some(format!(
            "shell tool terminated command after exceeding timeout {timeout_ms} ms. If this command is expected to take longer and is not waiting for interactive input, retry with a larger timeout value in milliseconds."
        )),
        Ending::Aborted => Some("User aborted the command".to_owned()),
    };
    if let Some(note) = note {
        text.push_str(&format!("\n\n<shell_metadata>\n{note}\n</shell_metadata>"));
    }
    let (exit, status) = match ending {
        Ending::Exited(status) => (status.and_then(|it| it.code()), status),
        Ending::TimedOut(status) => (None, status),
        Ending::Aborted => (None, None),
    };
    let signal = status.and_then(|it| it.signal()).map(signal_name);
    let saved = finished.saved.map(|path| display(&path));
    let metadata = encode(&tool_metadata::Command {
        output: Some(&metadata_output),
        exit: exit.map(i64::from),
        truncated: Some(finished.is_truncated),
        signal: signal.as_deref(),
        output_path: saved.as_deref(),
    });
    if matches!(ending, Ending::Aborted) {
        // Shown as a call that failed, with all that is known of one that ended (facts: OpenCode §5.1).
        cx.host.progress(None, metadata);
        return Err(ToolError::Cancelled { partial: Some(text) });
    }
    let tool_output =
        ToolOutput { title: line.command.clone(), output: text, metadata, attachments: Vec::new() };
    Ok(Ended { tool_output, has_failed: !status.is_some_and(|it| it.success()) })
}

/// Starts a command line in the shell, with these variables set. `asking` is the way to ask about hosts. The error names
/// the shell.
pub fn start(
    config: &Config,
    command: &str,
    directory: &Path,
    variables: &BTreeMap<String, String>,
    sandbox: Option<&Sandbox>,
    asking: Option<Asking>,
) -> io::Result<Child> {
    let shell = shell(config);
    let environment = shell_environment(config, variables);
    let hidden = match sandbox {
        None if config.environment.hides_keys() => {
            let kept = config.settings.windlass.sandbox.environment.as_deref();
            secret_variables(config, kept.unwrap_or_default())
        }
        Some(_) | None => Vec::new(),
    };
    let without = sandbox.map_or(hidden.as_slice(), |it| &it.without);
    let spawned = Spawn {
        program: &shell,
        args: &["-c".into(), OsString::from(command)],
        directory,
        environment: &environment,
        without,
        stdin: false,
        is_parent: true,
    };
    let child = match sandbox {
        Some(sandbox) => sandbox.spawn(&spawned, asking),
        None => spawn(&spawned),
    };
    child.map_err(|error| {
        io::Error::new(error.kind(), format!("Cannot start the shell {}: {error}", shell.to_string_lossy()))
    })
}

/// Returns the variables that are set for a command line.
fn shell_environment<'a>(
    config: &'a Config,
    variables: &BTreeMap<String, String>,
) -> Cow<'a, BTreeMap<String, String>> {
    let mut environment = Cow::Borrowed(&config.environment.variables);
    let unset: Vec<_> = UNATTENDED.iter().filter(|(name, _)| !environment.contains_key(*name)).collect();
    if !unset.is_empty() {
        environment
            .to_mut()
            .extend(unset.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }
    if !variables.is_empty() {
        let more = variables.iter().map(|(name, value)| (name.clone(), value.clone()));
        environment.to_mut().extend(more);
    }
    environment
}

/// Returns the variables that plugins want set for a command.
pub async fn plugin_variables(
    host: Option<&Host>,
    session_id: &SessionId,
    call_id: &str,
    directory: &Path,
    is_in_sandbox: bool,
) -> Result<BTreeMap<String, String>, ToolError> {
    let Some(host) = host else { return Ok(BTreeMap::new()) };
    let input = json!({ "cwd": directory, "sessionID": session_id, "callID": call_id });
    let variables = host.shell_variables(input, is_in_sandbox).await;
    variables.map_err(|error| ToolError::Model(error.message))
}

/// Returns the failure of a command, if it failed.
fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) | (None, None) => None,
        (Some(code), _) => Some(format!("exit code {code}")),
        (None, Some(signal)) => Some(format!("ended by {}", signal_name(signal))),
    }
}

fn signal_name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("SIG{number}"), |signal| signal.as_str().to_owned())
}

/// Returns the configured shell, else the user's own if it is there and speaks the language of `sh`, else bash, else
/// `/bin/sh`.
pub fn shell(config: &Config) -> OsString {
    if let Some(shell) = config.shell.as_deref().filter(|it| !it.is_empty()) {
        return home::expand(&config.environment.home, shell).into();
    }
    let own = config.environment.get("SHELL").map(Path::new);
    let speaks_sh = |shell: &Path| {
        let name = shell.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| SHELLS_LIKE_SH.contains(&name)) && is_program(shell)
    };
    // An account's shell may be `nologin`, or one that this machine lacks.
    if let Some(own) = own.filter(|shell| speaks_sh(shell)) {
        return own.into();
    }
    let path = config.environment.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    let bash = std::env::split_paths(path).map(|directory| directory.join("bash")).find(|it| it.is_file());
    bash.map_or_else(|| "/bin/sh".into(), PathBuf::into_os_string)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

pub fn default_timeout_ms(config: &Config) -> u64 {
    let given = config.environment.get("OPENCODE_EXPERIMENTAL_BASH_DEFAULT_TIMEOUT_MS");
    given.and_then(|text| text.parse().ok()).filter(|ms| *ms > 0).unwrap_or(DEFAULT_TIMEOUT_MS)
}

/// The questions about a command line, and where it leads.
pub struct Needs {
    /// In order: about the directories outside the project, about the files that its redirections write, then about its
    /// commands. Those of a line that is not plain are marked, and those about files that decide.
    pub asks: Vec<(Ask, bool)>,
    /// Its directory and the paths that it names, as they led when it was judged: [`path::all_unmoved`] compares
    /// them again.
    pub targets: Vec<Target>,
}

/// Finds the [`Needs`] of a command line before it may run.
pub async fn needs(config: &Config, command: &str, workdir: &Path) -> Result<Needs, ToolError> {
    if let Some(reason) = line::refusal(command) {
        return Err(ToolError::Model(reason));
    }
    // Hostile lines take their time.
    let text = command.to_owned();
    let line = blocking(move || Ok(line::read(&text))).await?;
    let mut asks = Vec::new();
    let Named { targets, homes } = named::judge(config, workdir, &line).await?;
    let outside = targets.iter().filter(|it| !it.is_inside).map(Target::directory).chain(homes);
    let outside: BTreeSet<PathBuf> = outside.collect();
    if !outside.is_empty() {
        let directories: Vec<String> = outside.iter().map(|it| display(it)).collect();
        let patterns: Vec<String> = outside.iter().map(|it| display(&it.join("*"))).collect();
        let metadata = described(config, command, workdir, Some((&directories, &patterns)));
        let always = path::offered(&patterns);
        let ask = Ask { permission: "external_directory".to_owned(), always, patterns, metadata };
        asks.push((ask, false));
    }
    asks.extend(named::written(config, workdir, &line, described(config, command, workdir, None)).await?);
    let (mut patterns, mut always) = (line.patterns, line.always);
    if patterns.is_empty() {
        if is_plain_cd(command) {
            return Ok(Needs { asks, targets });
        }
        // Redirections and assignments alone are no commands, yet they do things.
        patterns.push(command.to_owned());
        always.push(command.to_owned());
    }
    let metadata = described(config, command, workdir, None);
    let ask = Ask { permission: "bash".to_owned(), patterns, always, metadata };
    asks.push((ask, !line.is_plain));
    Ok(Needs { asks, targets })
}

/// Returns true if the command only changes a directory, which no later command sees.
fn is_plain_cd(command: &str) -> bool {
    let name = command.split_whitespace().next().unwrap_or_default();
    let has_more = command.trim().contains([';', '&', '|', '<', '>', '$', '`', '(', ')', '\n']);
    matches!(name, "cd" | "chdir" | "pushd" | "popd") && !has_more
}

enum Ending {
    /// Its exit status, if the system reports one.
    Exited(Option<ExitStatus>),
    /// Its exit status after the signal.
    TimedOut(Option<ExitStatus>),
    Aborted,
}

/// Reads the command's output until it ends or has to be ended.
async fn supervise(cx: &ToolCx<'_>, mut child: Child, line: &Line, mut hosts: Hosts) -> (Ending, Output) {
    let mut pump = Pump {
        cx,
        stdout: Pipe::new(child.stdout.take()),
        stderr: Pipe::new(child.stderr.take()),
        output: Output::new(cx.config.tool_output, cx.config.paths.tool_output()),
        is_unreported: false,
        next_report: Instant::now(),
    };
    let mut deadline = pin!(sleep(Duration::from_millis(line.timeout_ms).saturating_add(TIMEOUT_SLACK)));
    let mut ending = loop {
        let began = tokio::select! {
            status = child.wait() => break Ending::Exited(status.ok()),
            () = &mut deadline => break Ending::TimedOut(None),
            () = cx.cancel.cancelled() => break Ending::Aborted,
            never = pump.run() => match never {},
            () = hosts.next() => Instant::now(),
        };
        // The time limit is the command's, not the user's.
        tokio::select! {
            status = child.wait() => break Ending::Exited(status.ok()),
            () = cx.cancel.cancelled() => break Ending::Aborted,
            never = pump.run() => match never {},
            () = hosts.answer(cx, line) => {}
        }
        let later = deadline.deadline() + began.elapsed();
        deadline.as_mut().reset(later);
    };
    match &mut ending {
        Ending::Exited(_) => {
            // Processes left in the background may hold the pipe open for ever.
            let _ = timeout(DRAIN, pump.read_to_end()).await;
            child.kill_group();
        }
        Ending::TimedOut(_) | Ending::Aborted => {
            // A child that is told to end may have something to say.
            let status = tokio::select! {
                status = child.end(GRACE) => status,
                never = pump.run() => match never {},
            };
            if let Ending::TimedOut(ended) = &mut ending {
                *ended = status;
            }
            let _ = timeout(DRAIN, pump.read_to_end()).await;
        }
    }
    if pump.is_unreported {
        pump.report();
    }
    (ending, pump.output)
}

/// Carries the child's text to the output and, now and then, to the user.
struct Pump<'a> {
    cx: &'a ToolCx<'a>,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    output: Output,
    is_unreported: bool,
    next_report: Instant,
}

impl Pump<'_> {
    async fn run(&mut self) -> Infallible {
        self.read_to_end().await;
        pending().await
    }

    /// Ends when both pipes are closed. Dropping it loses nothing: it can be called again.
    async fn read_to_end(&mut self) {
        loop {
            self.output.save().await;
            if self.stdout.is_closed() && self.stderr.is_closed() {
                return;
            }
            let chunk = tokio::select! {
                chunk = self.stdout.read(), if !self.stdout.is_closed() => chunk,
                chunk = self.stderr.read(), if !self.stderr.is_closed() => chunk,
                () = sleep_until(self.next_report), if self.is_unreported => {
                    self.report();
                    continue;
                }
            };
            if !chunk.is_empty() {
                self.output.push(chunk);
                self.is_unreported = true;
            }
        }
    }

    fn report(&mut self) {
        self.is_unreported = false;
        self.next_report = Instant::now() + PROGRESS_INTERVAL;
        let printed = Some(self.output.n_printed() as u64);
        let running = RunningCommand { output: self.output.live(), printed };
        self.cx.host.progress(None, encode(&running));
    }
}

/// One of the child's pipes; hands out whole characters only.
struct Pipe<R> {
    reader: Option<R>,
    buffer: Vec<u8>,
    /// Bytes at the buffer's start that were handed out by the last read.
    n_given: usize,
}

impl<R: AsyncRead + Unpin> Pipe<R> {
    fn new(reader: Option<R>) -> Self {
        Self { reader, buffer: Vec::with_capacity(CHUNK_BYTES), n_given: 0 }
    }

    fn is_closed(&self) -> bool {
        self.reader.is_none()
    }

    async fn read(&mut self) -> &[u8] {
        self.buffer.drain(..self.n_given);
        self.n_given = 0;
        let Some(reader) = &mut self.reader else { return &[] };
        let read = reader.take(CHUNK_BYTES as u64).read_buf(&mut self.buffer).await;
        self.n_given = match read {
            Ok(n_read) if n_read > 0 => n_complete(&self.buffer),
            // The end, or a pipe that cannot be read any more: the remaining bytes are handed out as they are.
            Ok(_) | Err(_) => {
                self.reader = None;
                self.buffer.len()
            }
        };
        &self.buffer[..self.n_given]
    }
}

/// Returns the number of bytes up to the last whole character.
fn n_complete(bytes: &[u8]) -> usize {
    let n_last = bytes.iter().rev().take(4).position(|byte| byte & 0b1100_0000 != 0b1000_0000);
    let Some(start) = n_last.map(|n_after| bytes.len() - 1 - n_after) else { return bytes.len() };
    match str::from_utf8(&bytes[start..]) {
        Err(error) if error.error_len().is_none() => start,
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
mod tests;
