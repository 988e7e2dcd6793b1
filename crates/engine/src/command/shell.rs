//! Runs the shell commands in a template, once every one of them is allowed, and puts their output in their place.

use std::time::Duration;

use futures_util::{StreamExt, stream::FuturesUnordered};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    time::{sleep, timeout},
};
use windlass_base::{clock, ids, process::Child, text};
use windlass_core::{
    config::policy::Policy,
    library::{Agent, commands::template::Piece},
};
use windlass_protocol::opencode::{
    part::{PartKind, PartTime, ToolPart, ToolState, ToolTime},
    permission::ToolRef,
};
use windlass_services::tool::{
    ToolError, bash,
    path::{self, Target},
};

use crate::{
    EngineError,
    asking::asks::Asker,
    session::{
        context::TurnCx,
        state::{Journal, SessionState},
    },
    turn::toolbox,
};

/// Between the request to end and the kill.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the output of a background child that keeps the pipe after the command has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// Bytes that are kept of a command's output.
const MAX_OUTPUT: usize = 256 * 1024;

/// Result of a template.
pub enum Filled {
    Whole(String),
    /// A command may not run, so none did; why.
    Refused(String),
    /// The turn was cancelled.
    Interrupted,
}

/// Puts the commands' output in their place.
///
/// Each command is shown as a `bash` call of the prompt's own message, asked for under the `bash` permission,
/// and none
/// runs before all are allowed. The rules of the `subagent` that is to carry the command out limit it as well.
pub async fn fill(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    pieces: Vec<Piece>,
    subagent: Option<&Agent>,
) -> Result<Filled, EngineError> {
    if let Some(command) = pieces.iter().find_map(unfillable) {
        let reason = format!(
            "What you typed cannot be put into `{command}` so that it stays a word of it; without characters that \
             mean something to a shell it can."
        );
        return Ok(Filled::Refused(reason));
    }
    let commands: Vec<String> = pieces.iter().filter_map(command_of).collect();
    if commands.is_empty() {
        return Ok(Filled::Whole(join(&pieces, &mut std::iter::empty())));
    }
    let mut policy = toolbox::policy(cx, state, &[]);
    if let Some(agent) = subagent {
        policy = policy.below(&agent.policy.for_children());
    }
    let mut journal = Journal::default();
    let first = show(state, &commands, &mut journal);
    cx.commit(&mut journal).await?;
    let sandbox = match ask_all(cx, state, first, &commands, &policy).await {
        Ok(()) => {
            let above = cx.parent_limits.agents.iter().map(String::as_str);
            let agents = [Some(&*cx.agent.name), subagent.map(|agent| &*agent.name)].into_iter().flatten();
            bash::around_template(&cx.loaded.config, agents.chain(above))
                .await
                .map_err(|refused| (0, refused))
        }
        Err(refused) => Err(refused),
    };
    let sandbox = match sandbox {
        Ok(sandbox) => sandbox,
        Err((index, refused)) => return refuse(cx, state, first, &commands, index, refused).await,
    };
    show_running(state, first, commands.len(), &mut journal);
    cx.commit(&mut journal).await?;
    let mut said = vec![String::new(); commands.len()];
    {
        let sandbox = sandbox.as_ref();
        let calls = (first..).map_while(|part| call_id(state, part));
        let commands: Vec<(&String, String)> = commands.iter().zip(calls).collect();
        let run = async |index, command, call| (index, run(cx, command, call, sandbox).await);
        let mut running: FuturesUnordered<_> =
            commands.iter().enumerate().map(|(index, (command, call))| run(index, command, call)).collect();
        while let Some((index, ended)) = running.next().await {
            said[index] = ended.for_template();
            settle(state, first + index, Ok(ended), &mut journal);
            cx.commit(&mut journal).await?;
        }
    }
    if let Some(mut sandbox) = sandbox
        && let Ok(Some(moved)) = sandbox.clear().await
        && let Some(last) = said.last_mut()
    {
        last.push_str(&format!("\n\n<sandbox>\n{moved}\n</sandbox>"));
    }
    Ok(if cx.cancel.is_cancelled() {
        Filled::Interrupted
    } else {
        Filled::Whole(join(&pieces, &mut said.into_iter()))
    })
}

/// Ends the commands' calls when one of them, by its index, may not run.
async fn refuse(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    first: usize,
    commands: &[String],
    index: usize,
    refused: ToolError,
) -> Result<Filled, EngineError> {
    if cx.cancel.is_cancelled() {
        return Ok(Filled::Interrupted);
    }
    let command = &commands[index];
    let mut journal = Journal::default();
    for (other, _) in commands.iter().enumerate() {
        let reason = if other == index {
            refused.to_string()
        } else {
            "Not run, since another command was refused.".to_owned()
        };
        settle(state, first + other, Err(reason), &mut journal);
    }
    cx.commit(&mut journal).await?;
    let reason = match refused {
        ToolError::Denied { .. } | ToolError::Dismissed => {
            format!("You refused `{command}`, so none of the commands ran.")
        }
        ToolError::Model(reason) | ToolError::Forbidden(reason) | ToolError::Internal(reason) => {
            format!("`{command}` is not allowed, so none of the commands ran: {reason}")
        }
        ToolError::Cancelled { .. } => return Ok(Filled::Interrupted),
    };
    Ok(Filled::Refused(reason))
}

fn command_of(piece: &Piece) -> Option<String> {
    match piece {
        Piece::Text(_) | Piece::Unfillable(_) => None,
        Piece::Shell(command) => Some(command.trim().to_owned()),
    }
}

fn unfillable(piece: &Piece) -> Option<&str> {
    match piece {
        Piece::Unfillable(command) => Some(command),
        Piece::Text(_) | Piece::Shell(_) => None,
    }
}

fn join(pieces: &[Piece], said: &mut dyn Iterator<Item = String>) -> String {
    let mut whole = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => whole.push_str(text),
            Piece::Shell(_) | Piece::Unfillable(_) => whole.push_str(&said.next().unwrap_or_default()),
        }
    }
    whole
}

/// Shows the commands as calls; the index of the first one's part.
fn show(state: &mut SessionState, commands: &[String], journal: &mut Journal) -> usize {
    let first = state.history.last().map_or(0, |message| message.parts.len());
    for command in commands {
        let tool = ToolPart {
            call_id: format!("call_{}", ids::random(24)),
            tool: "bash".to_owned(),
            state: ToolState::Running {
                input: json!({ "command": command }),
                title: Some(command.clone()),
                metadata: None,
                time: PartTime { start: clock::now_ms(), end: None },
            },
            metadata: None,
        };
        state.push_part(PartKind::Tool(Box::new(tool)), journal);
    }
    first
}

fn call_id(state: &SessionState, part: usize) -> Option<String> {
    let PartKind::Tool(tool) = &state.history.last()?.parts.get(part)?.kind else { return None };
    Some(tool.call_id.clone())
}

/// Shows that the commands are allowed, which a call's first metadata says.
fn show_running(state: &mut SessionState, first: usize, n_commands: usize, journal: &mut Journal) {
    for index in first..first + n_commands {
        let Some(part) = state.part_mut(index) else { continue };
        let PartKind::Tool(tool) = &mut part.kind else { continue };
        let ToolState::Running { metadata, .. } = &mut tool.state else { continue };
        *metadata = Some(serde_json::Map::new());
        journal.part(part);
    }
}

/// Asks about one after another, then checks that the paths they name still lead where they did; the index of the first
/// that may not run.
async fn ask_all(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    first: usize,
    commands: &[String],
    policy: &Policy,
) -> Result<(), (usize, ToolError)> {
    let mut judged = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        let asked = ask(cx, state, first + index, command, policy).await;
        judged.push(asked.map_err(|refused| (index, refused))?);
    }
    for (index, targets) in judged.into_iter().enumerate() {
        let unmoved = path::all_unmoved(&cx.loaded.config, targets).await;
        unmoved.map_err(|refused| (index, refused))?;
    }
    Ok(())
}

/// Asks as a `bash` call would; returns the paths that were judged for it.
async fn ask(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    part: usize,
    command: &str,
    policy: &Policy,
) -> Result<Vec<Target>, ToolError> {
    let Some(part) = state.part_mut(part) else { return Err(ToolError::Cancelled { partial: None }) };
    let PartKind::Tool(tool) = &part.kind else { return Err(ToolError::Cancelled { partial: None }) };
    let tool = ToolRef { message_id: part.message_id.clone(), call_id: tool.call_id.clone() };
    let config = &cx.loaded.config;
    let granted = cx.session.engine.asking().granted(&cx.session.id);
    let approvals = cx.session.approvals().with_grants(granted);
    let bash::Needs { asks, targets } = bash::needs(config, command, &config.directory).await?;
    for (ask, is_opaque) in asks {
        let asker = Asker {
            session_id: &cx.session.id,
            tool: tool.clone(),
            policy,
            approvals: &approvals,
            cancel: &cx.cancel,
            plugins: cx.plugins.as_deref(),
        };
        tokio::select! {
            biased;
            () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
            answer = cx.session.engine.asks().ask(asker, ask, is_opaque) => answer?,
        }
    }
    Ok(targets)
}

/// A command that has run.
#[derive(Default)]
struct Ended {
    stdout: String,
    stderr: String,
    /// Its exit code; `None` when a signal or we ended it.
    exit: Option<i32>,
    /// Reason why it was ended, or could not begin.
    note: Option<String>,
}

impl Ended {
    /// Returns the command's output; with its errors if it failed.
    fn for_template(&self) -> String {
        let mut said = self.stdout.trim_end().to_owned();
        let complaint = self.stderr.trim();
        if self.exit != Some(0) && !complaint.is_empty() {
            said.push_str(if said.is_empty() { "" } else { "\n" });
            said.push_str(complaint);
        }
        if let Some(note) = &self.note {
            said.push_str(if said.is_empty() { "" } else { "\n" });
            said.push_str(note);
        }
        said
    }

    /// Returns the metadata that the user is shown.
    fn shown(&self) -> String {
        let texts =
            [self.stdout.trim_end(), self.stderr.trim_end(), self.note.as_deref().unwrap_or_default()];
        let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        if texts.is_empty() { "(no output)".to_owned() } else { texts.join("\n") }
    }
}

async fn run(cx: &TurnCx<'_>, command: &str, call: &str, sandbox: Option<&bash::Sandbox>) -> Ended {
    let config = &cx.loaded.config;
    let (host, directory) = (cx.plugins.as_deref(), &config.directory);
    let failed = |note: String| Ended { note: Some(note), ..Ended::default() };
    let variables = tokio::select! {
        biased;
        () = cx.cancel.cancelled() => return failed("(cancelled)".to_owned()),
        variables = bash::plugin_variables(host, &cx.session.id, call, directory, sandbox.is_some()) => {
            match variables {
                Ok(variables) => variables,
                Err(error) => return failed(format!("({error})")),
            }
        }
    };
    let mut child = match bash::start(config, command, directory, &variables, sandbox, None) {
        Ok(child) => child,
        Err(error) => return failed(format!("({error})")),
    };
    let (mut stdout, mut stderr) = (Captured::default(), Captured::default());
    let pipes = (child.stdout.take(), child.stderr.take());
    let limit_ms = bash::default_timeout_ms(config);
    let (exit, note) = {
        let mut reading = std::pin::pin!(async {
            tokio::join!(stdout.read(pipes.0), stderr.read(pipes.1));
        });
        let mut is_read = false;
        let deadline = sleep(Duration::from_millis(limit_ms));
        let mut deadline = std::pin::pin!(deadline);
        let ended = loop {
            tokio::select! {
                biased;
                () = cx.cancel.cancelled() => break Err("(cancelled)".to_owned()),
                status = child.wait() => break Ok(status.ok().and_then(|status| status.code())),
                () = &mut deadline => break Err(format!("(ended after {limit_ms} ms)")),
                () = &mut reading, if !is_read => is_read = true,
            }
        };
        if !is_read {
            finish(&mut child, ended.is_err(), reading).await;
        } else if ended.is_err() {
            child.end(GRACE).await;
        } else {
            child.kill_group();
        }
        match ended {
            Ok(exit) => (exit, None),
            Err(note) => (None, Some(note)),
        }
    };
    let max_bytes = config.tool_output.max_bytes;
    Ended { stdout: stdout.text(max_bytes), stderr: stderr.text(max_bytes), exit, note }
}

/// Ends the processes that are left of a command and reads the rest of the output.
async fn finish(
    child: &mut Child,
    must_end: bool,
    mut reading: std::pin::Pin<&mut impl Future<Output = ()>>,
) {
    if must_end {
        tokio::select! {
            _status = child.end(GRACE) => {}
            () = &mut reading => {
                child.end(GRACE).await;
                return;
            }
        }
        let _ = timeout(DRAIN, reading).await;
    } else {
        let _ = timeout(DRAIN, reading).await;
        // A process that is left in the background may hold the pipe open for ever.
        child.kill_group();
    }
}

/// The beginning of the bytes that came through a pipe.
#[derive(Default)]
struct Captured {
    bytes: Vec<u8>,
    n_dropped: usize,
}

impl Captured {
    /// Reads to the end, so that the child never waits for us.
    async fn read(&mut self, pipe: Option<impl AsyncRead + Unpin>) {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(n_read @ 1..) = pipe.read(&mut buffer).await {
            let n_kept = n_read.min(MAX_OUTPUT - self.bytes.len());
            self.bytes.extend_from_slice(&buffer[..n_kept]);
            self.n_dropped += n_read - n_kept;
        }
    }

    fn text(&self, max_bytes: usize) -> String {
        let whole = String::from_utf8_lossy(&self.bytes);
        let shown = text::head(&whole, max_bytes);
        match whole.len() - shown.len() + self.n_dropped {
            0 => shown.to_owned(),
            n_left => format!("{shown}\n({n_left} more bytes are left out)"),
        }
    }
}

/// Writes into a call's part how it ended.
fn settle(state: &mut SessionState, part: usize, result: Result<Ended, String>, journal: &mut Journal) {
    let Some(part) = state.part_mut(part) else { return };
    let PartKind::Tool(tool) = &mut part.kind else { return };
    let now = clock::now_ms();
    let start = match &tool.state {
        ToolState::Running { time, .. } => time.start,
        ToolState::Pending { .. } | ToolState::Completed { .. } | ToolState::Error { .. } => now,
    };
    let time = ToolTime { start, end: now, compacted: None };
    let input = tool.state.input().clone();
    tool.state = match result {
        Ok(ended) => {
            let title = input["command"].as_str().unwrap_or_default().to_owned();
            let mut metadata = Map::new();
            metadata.insert("output".to_owned(), ended.shown().into());
            metadata.insert("exit".to_owned(), ended.exit.map_or(Value::Null, Value::from));
            let output = ended.shown();
            ToolState::Completed { input, output, title, metadata, time, attachments: None }
        }
        Err(error) => ToolState::Error { input, error, metadata: None, time },
    };
    journal.part(part);
}
