//! A command that runs on behind its call: begun, looked at, and stopped.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use windlass_base::{clock, lock::lock, process::Child};
use windlass_protocol::opencode::tool_metadata::{Command, encode};

use super::{
    DRAIN, Ending, GRACE, Pipe, call::Line, failure, hosts::Hosts, output::Output, plugin_variables,
    sandbox::Sandbox, start,
};
use crate::tool::{ToolCx, ToolError, ToolOutput, path::display};

/// Looks that may wait for the task that reads a command's output.
const N_LOOKS: usize = 16;

/// A command that runs, or ran, behind its call.
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
}

/// Output so far.
#[derive(Debug, Clone, Default)]
pub struct Printed {
    /// Its end.
    pub text: String,
    /// Bytes of all of it.
    pub n_bytes: usize,
}

/// End of a command.
#[derive(Debug)]
pub struct JobEnd {
    /// The sentence about it, such as `Command exited with code 1.`
    pub sentence: String,
    /// Its last output.
    pub printed: Printed,
    /// The file with all its output, where that is long.
    pub saved: Option<String>,
    /// It was stopped by the user, the model or the end of its session.
    pub is_stopped: bool,
}

/// A command that was started, beside the work that reads its output until it ends.
pub struct Started {
    pub job: Job,
    pub work: BoxFuture<'static, Arc<JobEnd>>,
}

impl Job {
    /// Returns its end, once it has one.
    pub fn end(&self) -> Option<Arc<JobEnd>> {
        self.end.borrow().clone()
    }

    /// Ends the command, as far as it runs.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for its end, for so long.
    pub async fn wait(&self, limit: Duration) {
        let mut end = self.end.clone();
        // Its task is gone, or it goes on.
        let _ = timeout(limit, end.wait_for(Option::is_some)).await;
    }

    /// Returns the output that was not read before, and the number of bytes between that are not there any more.
    pub async fn read(&self) -> (String, usize) {
        let printed = match self.end() {
            Some(end) => end.printed.clone(),
            None => self.printed().await,
        };
        let mut n_read = lock(&self.n_read);
        let n_new = printed.n_bytes.saturating_sub(*n_read);
        *n_read = printed.n_bytes;
        let start = printed.text.len().saturating_sub(n_new);
        let start = printed.text.ceil_char_boundary(start);
        (printed.text[start..].to_owned(), n_new.saturating_sub(printed.text.len()))
    }

    async fn printed(&self) -> Printed {
        let (sender, printed) = oneshot::channel();
        if self.looks.send(sender).await.is_ok()
            && let Ok(printed) = printed.await
        {
            return printed;
        }
        self.end().map(|end| end.printed.clone()).unwrap_or_default()
    }
}

/// Starts a command and hands it to the engine; returns the call's result.
pub(super) async fn begin(
    cx: &ToolCx<'_>,
    line: Line,
    description: Option<String>,
    limit: Option<Duration>,
    sandbox: Option<&Sandbox>,
) -> Result<ToolOutput, ToolError> {
    let host = cx.plugins.map(|plugins| &*plugins.host);
    let variables =
        plugin_variables(host, cx.session_id, cx.call_id, &line.workdir, sandbox.is_some()).await?;
    // Nobody is asked about hosts behind the call: one that no setting names is refused.
    let (_, asking) = Hosts::new(cx, sandbox.is_some_and(Sandbox::is_network_by_name)).await;
    let child = start(cx.config, &line.command, &line.workdir, &variables, sandbox, asking);
    let child = child.map_err(|error| ToolError::Model(error.to_string()))?;
    let output = Output::new(cx.config.tool_output, cx.config.paths.tool_output());
    let (looks, wanted) = mpsc::channel(N_LOOKS);
    let (sender, end) = watch::channel(None);
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
    };
    let work = Box::pin(async move {
        let end = Arc::new(supervise(child, output, wanted, stop, limit).await);
        sender.send_replace(Some(end.clone()));
        end
    });
    let id = cx.host.keep_running(Started { job, work })?;
    let output = format!(
        "The command runs in the background as {id}. You will be told when it has ended; do not wait for it by sleeping. \
         The tool `job` reads its output, waits for it or stops it."
    );
    // Clients that show commands in terminals show this there.
    let command = Command { output: Some(&output), ..Command::default() };
    let mut metadata = encode(&command);
    metadata.insert("job".to_owned(), id.into());
    Ok(ToolOutput { title: line.command, output, metadata, attachments: Vec::new() })
}

/// Reads a command's output until it ends or has to be ended.
async fn supervise(
    mut child: Child,
    mut output: Output,
    mut wanted: mpsc::Receiver<oneshot::Sender<Printed>>,
    stop: CancellationToken,
    limit: Option<Duration>,
) -> JobEnd {
    let (mut stdout, mut stderr) = (Pipe::new(child.stdout.take()), Pipe::new(child.stderr.take()));
    let mut deadline = std::pin::pin!(async move {
        match limit {
            Some(limit) => sleep(limit).await,
            None => std::future::pending().await,
        }
    });
    let mut ending = loop {
        output.save().await;
        tokio::select! {
            status = child.wait() => break Ending::Exited(status.ok()),
            () = &mut deadline => break Ending::TimedOut(None),
            () = stop.cancelled() => break Ending::Aborted,
            Some(look) = wanted.recv() => {
                // The one that looks may have gone.
                let _ = look.send(printed(&output));
            }
            chunk = stdout.read(), if !stdout.is_closed() => output.push(chunk),
            chunk = stderr.read(), if !stderr.is_closed() => output.push(chunk),
        }
    };
    match &mut ending {
        Ending::Exited(_) => child.kill_group(),
        Ending::TimedOut(status) => *status = child.end(GRACE).await,
        Ending::Aborted => _ = child.end(GRACE).await,
    }
    let rest = async {
        while !stdout.is_closed() || !stderr.is_closed() {
            output.save().await;
            tokio::select! {
                chunk = stdout.read(), if !stdout.is_closed() => output.push(chunk),
                chunk = stderr.read(), if !stderr.is_closed() => output.push(chunk),
            }
        }
    };
    // A child of its that left the group may hold the pipes for ever.
    let _ = timeout(DRAIN, rest).await;
    let sentence = match &ending {
        Ending::Exited(status) => match status.and_then(failure) {
            None => "Command exited with code 0.".to_owned(),
            Some(failure) => format!("Command ended: {failure}."),
        },
        Ending::TimedOut(_) => "Command timed out before completion.".to_owned(),
        Ending::Aborted => "Command was stopped.".to_owned(),
    };
    let printed = printed(&output);
    let saved = output.finish().await.saved.map(|path| display(&path));
    JobEnd { sentence, printed, saved, is_stopped: matches!(ending, Ending::Aborted) }
}

fn printed(output: &Output) -> Printed {
    Printed { text: output.live().to_owned(), n_bytes: output.n_printed() }
}
