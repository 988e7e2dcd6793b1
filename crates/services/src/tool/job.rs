//! Reads, awaits and stops a command that runs in the background.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{ToolCx, ToolError, ToolOutput, arguments::arguments, bash::background::Job};

/// Time that a call waits at most unless it says so.
const USUAL_WAIT_MS: u64 = 30_000;
/// Time that a call may wait.
const MAX_WAIT_MS: u64 = 600_000;

/// The command, and the wish about it.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Args {
    /// The command's id.
    pub id: String,
    /// `read` if left out.
    #[serde(default)]
    pub action: Action,
    /// Milliseconds to wait at most (default 30000).
    #[schemars(range(min = 1, max = MAX_WAIT_MS))]
    pub timeout: Option<u64>,
}

/// A wish about a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    #[default]
    Read,
    Wait,
    Stop,
}

pub(super) async fn run(cx: &ToolCx<'_>, input: Value) -> Result<ToolOutput, ToolError> {
    let args: Args = arguments("job", input)?;
    let jobs = cx.host.jobs();
    let Some(job) = jobs.iter().find(|job| job.id == args.id.trim()) else {
        let known: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(ToolError::Model(format!(
            "No command of this session has the id \"{}\". Commands in the background: {known}",
            args.id
        )));
    };
    let _look = job.look();
    let limit = Duration::from_millis(args.timeout.unwrap_or(USUAL_WAIT_MS).min(MAX_WAIT_MS));
    match args.action {
        Action::Read => {}
        Action::Wait => {
            tokio::select! {
                () = job.wait(limit) => {}
                () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
            }
        }
        Action::Stop => {
            job.stop();
            job.wait(limit).await;
        }
    }
    let output = tokio::select! {
        output = report(job) => output,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    let metadata = Map::from_iter([("job".to_owned(), job.id.clone().into())]);
    Ok(ToolOutput { title: job.command.clone(), output, metadata, attachments: Vec::new() })
}

/// Returns the new output of a command, and its state.
async fn report(job: &Job) -> String {
    let end = job.end();
    let mut report = job.read(usize::MAX).await.shown();
    if report.is_empty() {
        report.push_str("(no new output)");
    }
    report.push_str("\n\n");
    match end {
        None => report.push_str("The command is still running."),
        Some(end) => {
            job.note_end_known();
            report.push_str(&end.sentence);
            if let Some(file) = &end.saved {
                report.push_str(&format!(" All of its output is in {file}."));
            }
        }
    }
    report
}
