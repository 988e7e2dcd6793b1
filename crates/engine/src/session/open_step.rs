//! A step whose changes of files are not known: it runs, or it was cut off before the snapshot behind it.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_core::snapshot::{SnapshotError, Snapshots};
use windlass_protocol::opencode::{
    id::MessageId,
    message::MessageWithParts,
    part::{Part, PartKind, ToolState},
    tool::Kind,
};
use windlass_services::tool;

use crate::EngineError;

/// The snapshot to take behind a step's calls, once they have run.
pub struct After {
    pub snapshots: Arc<Snapshots>,
    pub before: String,
    /// The time at which the calls began.
    pub began: SystemTime,
}

/// The changes of a step, which are found out and stored beside the work.
pub struct ComingChanges {
    pub message_id: MessageId,
    /// Ends the snapshot; its changes, once found, are stored all the same.
    pub cut: CancellationToken,
    pub found: AbortOnDropHandle<Result<Found, EngineError>>,
}

/// The end of the snapshot behind a step.
pub enum Found {
    Changes {
        tree: String,
        /// The parts of the step's message that changed with it, as they are stored.
        parts: Vec<Part>,
    },
    Failed(SnapshotError),
    Cut,
}

/// A step with calls that may have changed files, and behind which no snapshot was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenStep<'a> {
    /// The tree before its calls.
    pub before: &'a str,
    /// The time at which the first of them began.
    pub began: SystemTime,
}

impl<'a> OpenStep<'a> {
    /// Finds the open step of a message.
    pub fn of(message: &'a MessageWithParts) -> Option<Self> {
        let mut before = None;
        let mut starts = Vec::new();
        for part in &message.parts {
            match &part.kind {
                PartKind::StepStart { snapshot } => {
                    before = snapshot.as_deref();
                    starts.clear();
                }
                PartKind::Patch { .. } | PartKind::StepFinish { snapshot: Some(_), .. } => before = None,
                PartKind::Tool(tool) if may_change(&tool.tool) => match &tool.state {
                    ToolState::Pending { .. } => {}
                    ToolState::Running { time, .. } => starts.push(time.start),
                    ToolState::Completed { time, .. } | ToolState::Error { time, .. } => {
                        starts.push(time.start)
                    }
                },
                PartKind::StepFinish { snapshot: None, .. }
                | PartKind::Tool(_)
                | PartKind::Text(_)
                | PartKind::Reasoning(_)
                | PartKind::File(_)
                | PartKind::Agent { .. }
                | PartKind::Subtask { .. }
                | PartKind::Compaction { .. }
                | PartKind::Snapshot { .. }
                | PartKind::Retry { .. } => {}
            }
        }
        let began = u64::try_from(*starts.iter().min()?).unwrap_or_default();
        Some(Self { before: before?, began: SystemTime::UNIX_EPOCH + Duration::from_millis(began) })
    }
}

/// Returns true for a tool that may change files. Tools from elsewhere may do anything.
pub fn may_change(tool: &str) -> bool {
    match tool::look(tool).kind {
        Kind::Execute | Kind::Edit | Kind::Other => true,
        // A subagent thinks, and works.
        Kind::Think => tool == "task",
        Kind::Read | Kind::Search | Kind::Fetch | Kind::SwitchMode => false,
    }
}
