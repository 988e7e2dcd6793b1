//! A command that runs in the background: begun, looked at, and stopped.

use std::{
    convert::Infallible,
    future::pending,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    process::{ChildStderr, ChildStdout},
    sync::{mpsc, oneshot, watch},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, lock::lock, process::Child, text};
use windlass_protocol::opencode::tool_metadata::{Command, encode};

use super::{
    DRAIN, Ending, GRACE, Pipe, call::Line, failure, hosts::Hosts, output::Output, plugin_variables,
    sandbox::Sandbox, start,
};
use crate::tool::{ToolCx, ToolError, ToolOutput, path::display};

/// Looks that may wait for the task that reads a command's output.
const N_LOOKS: usize = 16;
/// Time between two looks for files that a command in the sandbox may not leave.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A command that runs, or ran, in the background.
pub struct Job {
    /// `job_` and a number.
    pub id: String,
    pub command: String,
    pub description: Option<String>,
    /// Milliseconds since the epoch.
    pub started: i64,
    looks: mpsc::Sender<oneshot::Sender<Printed>>,
    end: watch::Receiver<Option<Arc<JobEnd>>>,
    stop: CancellationToken,
    /// Bytes of the output that the model has read.
    n_read: Mutex<usize>,
    /// The model has read of the end.
    is_end_known: AtomicBool,
    /// Calls of the model that read or await it.
    n_lookers: watch::Sender<usize>,
}

/// A call that reads or awaits a command. It tells the model of an end that comes meanwhile.
pub struct Look<'a>(&'a Job);

/// Output so far.
#[derive(Debug, Clone, Default)]
struct Printed {
    /// The last part of it.
    text: String,
    /// Bytes of all of it.
    n_bytes: usize,
}

/// Output that the model has not read.
#[derive(Debug, Clone, Default)]
pub struct Unread {
    pub text: String,
    /// Bytes before it that are left out.
    pub n_missing: usize,
}

/// End of a command.
#[derive(Debug)]
pub struct JobEnd {
    /// The sentence about it, such as `Command exited with code 1.`
    pub sentence: String,
    printed: Printed,
    /// The file with all its output, where that is long.
    pub saved: Option<String>,
    /// It was stopped by the user, the model or the end of its session.
    pub is_stopped: bool,
}

/// A command that is about to begin.
pub struct NewJob {
    pub job: Job,
    /// Starts the command and reads its output until it ends; `None` if it could not be started.
    pub work: BoxFuture<'static, Option<Arc<JobEnd>>>,
}

/// The engine's answer about a command that it runs.
pub struct Kept {
    pub id: String,
    /// The model is told of the end without asking.
    pub is_end_told: bool,
}

impl Job {
    /// Returns its end, once it has one.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.end.borrow().clone()
    }

    /// Returns true unless it has ended, or its reader is gone.
    pub fn is_running(&self) -> bool {
        self.end().is_none() && self.end.has_changed().is_ok()
    }

    /// Ends the command, as far as it runs.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Notes that a call reads or awaits it, until the look is dropped.
    pub fn look(&self) -> Look<'_> {
        self.n_lookers.send_modify(|n_lookers| *n_lookers += 1);
        Look(self)
    }

    /// Ends when no call reads or awaits it.
    pub async fn left_alone(&self) {
        // The sender lives as long as this.
        let _ = self.n_lookers.subscribe().wait_for(|n_lookers| *n_lookers == 0).await;
    }

    /// Notes that the model reads of the end; false if it has done so before.
    pub fn note_end_known(&self) -> bool {
        !self.is_end_known.swap(true, Ordering::Relaxed)
    }

    /// Waits for its end, for so long.
    pub async fn wait(&self, limit: Duration) {
        let _ = timeout(limit, self.end_or_loss()).await;
    }

    /// Waits for its end, or until its reader is gone.
    async fn end_or_loss(&self) {
        let mut end = self.end.clone();
        let _ = end.wait_for(Option::is_some).await;
    }

    /// Returns the last bytes of the output that was not read before. Output beyond `max_bytes` counts as not read.
    pub async fn read(&self, max_bytes: usize) -> Unread {
        self.unread(&self.printed().await, max_bytes)
    }

    /// Does the same behind its end, without a wait.
    pub fn read_at_end(&self, end: &JobEnd, max_bytes: usize) -> Unread {
        self.unread(&end.printed, max_bytes)
    }

    fn unread(&self, printed: &Printed, max_bytes: usize) -> Unread {
        let mut n_read = lock(&self.n_read);
        let n_new = printed.n_bytes.saturating_sub(*n_read);
        let start = printed.text.ceil_char_boundary(printed.text.len().saturating_sub(n_new));
        let text = text::tail(&printed.text[start..], max_bytes);
        if text.len() == printed.text.len() - start {
            *n_read = (*n_read).max(printed.n_bytes);
        }
        Unread { text: text.to_owned(), n_missing: n_new.saturating_sub(text.len()) }
    }

    async fn printed(&self) -> Printed {
        let (sender, printed) = oneshot::channel();
        if self.looks.send(sender).await.is_ok()
            && let Ok(printed) = printed.await
        {
            return printed;
        }
        // It is ending.
        self.end_or_loss().await;
        self.end().map(|end| end.printed.clone()).unwrap_or_default()
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.n_lookers.send_modify(|n_lookers| *n_lookers = n_lookers.saturating_sub(1));
    }
}

impl Unread {
    /// Returns the text with a word about output that is left out.
    pub fn shown(&self) -> String {
        let missing = match self.n_missing {
            0 => String::new(),
            n_missing => format!("[{n_missing} bytes before are not shown]\n"),
        };
        format!("{missing}{}", self.text.trim_end())
    }
}

/// Hands a command to the engine, which starts it; returns the call's result.
pub(super) async fn begin(
    cx: &ToolCx<'_>,
    line: Line,
    description: Option<String>,
    limit: Option<Duration>,
    sandbox: Option<Sandbox>,
) -> Result<ToolOutput, ToolError> {
    let host = cx.plugins.map(|plugins| &*plugins.host);
    let variables =
        plugin_variables(host, cx.session_id, cx.call_id, &line.workdir, sandbox.is_some()).await?;
    // The questions end with this call: a host that no setting names is refused without one.
    let is_by_name = sandbox.as_ref().is_some_and(Sandbox::is_network_by_name);
    let (_, asking) = Hosts::new(cx, is_by_name).await;
    if cx.cancel.is_cancelled() {
        return Err(ToolError::Cancelled { partial: None });
    }
    let (looks, wanted) = mpsc::channel(N_LOOKS);
    let (sender, end) = watch::channel(None);
    let (started, begun) = oneshot::channel();
    let stop = CancellationToken::new();
    let job = Job {
        id: String::new(),
        command: line.command.clone(),
        description,
        started: clock::now_ms(),
        looks,
        end,
        stop: stop.clone(),
        n_read: Mutex::default(),
        is_end_known: AtomicBool::new(false),
        n_lookers: watch::Sender::new(0),
    };
    let (config, title) = (cx.config.clone(), line.command.clone());
    let work = Box::pin(async move {
        if stop.is_cancelled() {
            return None;
        }
        let child = start(&config, &line.command, &line.workdir, &variables, sandbox.as_ref(), asking);
        let (child, error) = match child {
            Ok(child) => (Some(child), None),
            Err(error) => (None, Some(error)),
        };
        // A call that was dropped meanwhile leaves a command that is listed.
        let _ = started.send(error);
        let output = Output::new(config.tool_output, config.paths.tool_output());
        let end = Arc::new(supervise(child?, output, sandbox, wanted, stop, limit).await);
        sender.send_replace(Some(end.clone()));
        Some(end)
    });
    let Kept { id, is_end_told } = cx.host.keep_running(NewJob { job, work })?;
    match begun.await {
        Ok(None) => {}
        Ok(Some(error)) => return Err(ToolError::Model(error.to_string())),
        Err(_) => return Err(ToolError::Cancelled { partial: None }),
    }
    let told = if is_end_told {
        "You will be told when it has ended; do not wait for it by sleeping."
    } else {
        "It ends with your answer, and nobody tells you of its end before: wait for it with the tool `job` if you need it."
    };
    let output = format!(
        "The command runs in the background as {id}. {told} The tool `job` reads its output, waits for it or stops it."
    );
    // Clients that show commands in terminals show this there.
    let command = Command { output: Some(&output), ..Command::default() };
    let mut metadata = encode(&command);
    metadata.insert("job".to_owned(), id.into());
    Ok(ToolOutput { title, output, metadata, attachments: Vec::new() })
}

/// The command's pipes and its output so far.
struct Pipes {
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    output: Output,
}

impl Pipes {
    /// Ends when both pipes are closed. Dropping it loses nothing: it can be called again.
    async fn read_to_end(&mut self) {
        while !self.stdout.is_closed() || !self.stderr.is_closed() {
            self.output.save().await;
            tokio::select! {
                chunk = self.stdout.read(), if !self.stdout.is_closed() => self.output.push(chunk),
                chunk = self.stderr.read(), if !self.stderr.is_closed() => self.output.push(chunk),
            }
        }
        self.output.save().await;
    }

    async fn run(&mut self) -> Infallible {
        self.read_to_end().await;
        pending().await
    }

    fn printed(&self) -> Printed {
        Printed { text: self.output.live().to_owned(), n_bytes: self.output.n_printed() }
    }
}

/// Reads a command's output until it ends or has to be ended.
async fn supervise(
    mut child: Child,
    output: Output,
    mut sandbox: Option<Sandbox>,
    mut wanted: mpsc::Receiver<oneshot::Sender<Printed>>,
    stop: CancellationToken,
    limit: Option<Duration>,
) -> JobEnd {
    let (stdout, stderr) = (Pipe::new(child.stdout.take()), Pipe::new(child.stderr.take()));
    let mut pipes = Pipes { stdout, stderr, output };
    let mut deadline = pin!(async move {
        match limit {
            Some(limit) => sleep(limit).await,
            None => pending().await,
        }
    });
    let mut sweeps = interval(SWEEP_INTERVAL);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut moved = Vec::new();
    let mut ending = loop {
        tokio::select! {
            status = child.wait() => break Ending::Exited(status.ok()),
            () = &mut deadline => break Ending::TimedOut(None),
            () = stop.cancelled() => break Ending::Aborted,
            Some(look) = wanted.recv() => {
                // The call that looks may have ended.
                let _ = look.send(pipes.printed());
            }
            _ = sweeps.tick(), if sandbox.is_some() => {
                if let Some(sandbox) = &sandbox {
                    moved.extend(sandbox.sweep().await);
                }
            }
            never = pipes.run() => match never {},
        }
    };
    if let Ending::TimedOut(_) | Ending::Aborted = ending {
        // A child that is told to end may have something to say.
        let status = tokio::select! {
            status = child.end(GRACE) => status,
            never = pipes.run() => match never {},
        };
        if let Ending::TimedOut(ended) = &mut ending {
            *ended = status;
        }
    }
    // Processes that it leaves may hold the pipes for ever.
    let _ = timeout(DRAIN, pipes.read_to_end()).await;
    child.kill_group();
    let mut sentence = match &ending {
        Ending::Exited(status) => match status.and_then(failure) {
            None => "Command exited with code 0.".to_owned(),
            Some(failure) => format!("Command ended: {failure}."),
        },
        Ending::TimedOut(_) => "Command timed out before completion.".to_owned(),
        Ending::Aborted => "Command was stopped.".to_owned(),
    };
    if let Some(sandbox) = &mut sandbox {
        let has_failed = !matches!(ending, Ending::Exited(Some(status)) if status.success());
        for said in sandbox.words_at_end(moved, has_failed).await {
            sentence = format!("{sentence} {said}");
        }
    }
    let mut printed = pipes.printed();
    let finished = pipes.output.finish().await;
    // Short enough to be read as a whole.
    if !finished.is_truncated {
        printed.text = finished.text;
    }
    let saved = finished.saved.map(|path| display(&path));
    JobEnd { sentence, printed, saved, is_stopped: matches!(ending, Ending::Aborted) }
}
