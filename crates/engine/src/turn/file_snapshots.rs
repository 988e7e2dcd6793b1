//! Takes snapshots of the files around the tool calls of a step, and stores which files the calls changed.

use std::{
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::ids;
use windlass_core::snapshot::{Change, ComingTree, SnapshotError, Snapshots, StepChanges};
use windlass_protocol::opencode::{
    event::EventPayload,
    file_diff::FileDiff,
    message::{Message, MessageWithParts, UserSummary},
    part::{Part, PartKind, ToolState},
    session::SessionSummary,
    tool::Kind,
};
use windlass_services::tool;

use super::{
    answer::Call,
    calls::{self, CallsEnd},
    toolbox::Toolbox,
};
use crate::{
    Engine, EngineError,
    session::{
        context::{SessionCx, TurnCx},
        state::{Journal, SessionState},
    },
    workspace::loaded::Loaded,
};

/// Time for which tool calls wait for the snapshot before them; then they run without one. The snapshot is taken to
/// its end all the same, unless the turn is cancelled, so that the next one is quick.
const BEFORE_LIMIT: Duration = Duration::from_secs(15);
/// Time for a snapshot once the turn is cancelled, which has to answer within a second.
pub const CANCELLED_LIMIT: Duration = Duration::from_millis(250);
/// The same for the diff of the whole session, which is the last to come.
const CANCELLED_DIFF_LIMIT: Duration = Duration::from_millis(50);
/// Bytes of the patches that are kept with a prompt.
const MAX_PROMPT_PATCHES: usize = 64 << 10;

/// The reason that there are no snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Off {
    NoRepository,
    Setting,
}

/// Returns the snapshots of a configuration's worktree.
pub fn snapshots(engine: &Engine, loaded: &Loaded) -> Result<Arc<Snapshots>, Off> {
    if loaded.config.settings.snapshot == Some(false) {
        return Err(Off::Setting);
    }
    if loaded.config.worktree == Path::new("/") {
        return Err(Off::NoRepository);
    }
    Ok(engine.snapshots(&loaded.config.worktree))
}

/// The snapshot before a step's calls, which is taken while the model still answers.
pub struct Before {
    snapshots: Arc<Snapshots>,
    tree: Tree,
}

enum Tree {
    Taken(String),
    Coming(ComingTree),
}

impl Before {
    /// Begins the snapshot before a step; `None` where there are none.
    pub fn begin(cx: &TurnCx<'_>, state: &mut SessionState) -> Option<Self> {
        let snapshots = snapshots(&cx.session.engine, &cx.loaded).ok()?;
        let tree = match state.turn.newest_tree.take() {
            Some(tree) => Tree::Taken(tree),
            None => {
                let snapshots = snapshots.clone();
                Tree::Coming(AbortOnDropHandle::new(tokio::spawn(async move { snapshots.track().await })))
            }
        };
        Some(Self { snapshots, tree })
    }

    /// Waits for the snapshot, where the calls may change files, and stores it.
    async fn finish(
        self,
        cx: &TurnCx<'_>,
        state: &mut SessionState,
        calls: &[Call],
    ) -> Result<Option<After>, EngineError> {
        if !calls.iter().any(|call| may_change(&call.tool)) {
            return Ok(None);
        }
        let taken = match self.tree {
            Tree::Taken(tree) => Ok(tree),
            Tree::Coming(mut coming) => {
                let taken = tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => return Ok(None),
                    taken = timeout(BEFORE_LIMIT, &mut coming) => taken,
                };
                match taken {
                    Ok(Ok(taken)) => taken,
                    // It panicked.
                    Ok(Err(_)) => return Ok(None),
                    Err(_) => {
                        leave(state, coming);
                        Err(SnapshotError::Slow)
                    }
                }
            }
        };
        let tree = match taken {
            Ok(tree) => tree,
            Err(error) => {
                if self.snapshots.fails_first() {
                    tracing::warn!(%error, "no snapshots of the files are taken here; /undo will not restore them");
                }
                tracing::debug!(session = %cx.session.id, %error, "no snapshot was taken");
                return Ok(None);
            }
        };
        let mut journal = Journal::default();
        if let Some(part) = state.part_mut(0)
            && let PartKind::StepStart { snapshot } = &mut part.kind
        {
            *snapshot = Some(tree.clone());
            journal.part(part);
        }
        cx.commit(&mut journal).await?;
        Ok(Some(After { snapshots: self.snapshots, before: tree, began: SystemTime::now() }))
    }
}

/// Lets a snapshot go on that no call waits for, so that the next one is quick; one of a session is enough.
fn leave(state: &mut SessionState, coming: ComingTree) {
    if state.background_snapshot.as_ref().is_none_or(AbortOnDropHandle::is_finished) {
        state.background_snapshot = Some(coming);
    }
}

/// Runs the calls of a step and stores which files they changed, where snapshots are taken.
pub async fn run_calls(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    toolbox: &Toolbox,
    calls: Vec<Call>,
    before: Option<Before>,
) -> Result<CallsEnd, EngineError> {
    let after = match before {
        Some(before) => before.finish(cx, state, &calls).await?,
        None => {
            // The user may change files until the next call.
            state.turn.newest_tree = None;
            None
        }
    };
    let end = calls::run(cx, state, toolbox, calls).await?;
    if let Some(after) = after {
        after.take(cx, state, end == CallsEnd::Interrupted).await?;
    }
    Ok(end)
}

/// Begins the snapshot before a step's calls as soon as one may change files; an answer without such a call costs nothing.
pub fn begin_before(cx: &TurnCx<'_>, state: &mut SessionState, calls: &[Call], before: &mut Option<Before>) {
    if before.is_none() && calls.iter().any(|call| may_change(&call.tool)) {
        *before = Before::begin(cx, state);
    }
}

/// Returns true for a tool that may change files. Tools from elsewhere may do anything.
fn may_change(tool: &str) -> bool {
    match tool::look(tool).kind {
        Kind::Execute | Kind::Edit | Kind::Other => true,
        // A subagent thinks, and works.
        Kind::Think => tool == "task",
        Kind::Read | Kind::Search | Kind::Fetch | Kind::SwitchMode => false,
    }
}

/// The snapshot behind a step's calls, once they have run.
struct After {
    snapshots: Arc<Snapshots>,
    before: String,
    /// The time at which the calls began.
    began: SystemTime,
}

impl After {
    /// Takes the snapshot and stores the files that changed.
    async fn take(
        self,
        cx: &TurnCx<'_>,
        state: &mut SessionState,
        is_interrupted: bool,
    ) -> Result<(), EngineError> {
        let tracked = async {
            let tree = self.snapshots.track().await?;
            let changes = self.snapshots.changes_since(self.began, &self.before, &tree).await?;
            Ok::<_, SnapshotError>((tree, changes))
        };
        let (tree, changes) = match unless_cancelled(&cx.cancel, CANCELLED_LIMIT, tracked).await {
            Some(Ok(tracked)) => tracked,
            None => {
                tracing::warn!(session = %cx.session.id, "a turn was cancelled before its snapshot was taken");
                return Ok(());
            }
            Some(Err(error)) => {
                tracing::warn!(session = %cx.session.id, %error, "the files that a step changed are not known");
                return Ok(());
            }
        };
        // An interrupted step has no end that would tell it from one with unknown changes.
        if changes != StepChanges::default() || is_interrupted {
            let mut journal = Journal::default();
            let patch = patch(self.snapshots.worktree(), self.before, changes);
            state.push_part(patch, &mut journal);
            cx.commit(&mut journal).await?;
        }
        state.turn.newest_tree = Some(tree);
        Ok(())
    }
}

/// Returns the part that names the files which a step changed.
fn patch(worktree: &Path, before: String, changes: StepChanges) -> PartKind {
    let StepChanges { held, left_out } = changes;
    let whole = |path: &Path| worktree.join(path).display().to_string();
    let files = held.iter().map(|change| whole(&change.path)).collect();
    let left_out = left_out.iter().map(|path| whole(path)).collect();
    PartKind::Patch { hash: before, files, left_out }
}

/// A step with calls that may have changed files, and behind which no snapshot was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenStep<'a> {
    /// The tree before its calls.
    before: &'a str,
    /// The time at which the first of them began.
    began: SystemTime,
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

/// Finds out which files the newest step changed, if a sudden end or a cancellation came before the snapshot behind it,
/// and stores them. Where that fails, an undo says so.
pub async fn recover(cx: &SessionCx, state: &mut SessionState) -> Result<(), EngineError> {
    let is_answer = |message: &MessageWithParts| matches!(message.info, Message::Assistant(_));
    let Some(message_idx) = state.history.iter().rposition(is_answer) else { return Ok(()) };
    let message = &state.history[message_idx];
    let Some(OpenStep { before, began }) = OpenStep::of(message) else { return Ok(()) };
    // The files of a subagent's step are known by its parent's.
    if state.info.parent_id.is_some() {
        return Ok(());
    }
    let Ok(snapshots) = snapshots(&cx.engine, &cx.workspace.loaded()) else { return Ok(()) };
    let tracked = async {
        let tree = snapshots.track().await?;
        snapshots.changes_since(began, before, &tree).await
    };
    let changes = match timeout(BEFORE_LIMIT, tracked).await.unwrap_or(Err(SnapshotError::Slow)) {
        Ok(changes) => changes,
        Err(error) => {
            tracing::warn!(session = %cx.id, %error, "the files that an interrupted step changed are not known");
            return Ok(());
        }
    };
    let part = Part {
        id: ids::part(),
        session_id: message.info.session_id().clone(),
        message_id: message.info.id().clone(),
        kind: patch(snapshots.worktree(), before.to_owned(), changes),
    };
    let mut journal = Journal::default();
    journal.part(&part);
    cx.commit(&mut journal).await?;
    if let Some(message) = state.history.older_mut(message_idx) {
        message.parts.push(part);
    }
    Ok(())
}

/// Does work until the turn is cancelled, and then for `limit` more; `None` if it is not done by then.
pub async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return Some(done),
        () = cancel.cancelled() => {}
    }
    timeout(limit, work).await.ok()
}

/// Stores and shows the size of the session's changes, if its newest turn changed any file.
pub async fn report(
    cx: &SessionCx,
    state: &mut SessionState,
    cancel: &CancellationToken,
) -> Result<(), EngineError> {
    state.turn.newest_tree = None;
    if cancel.is_cancelled() {
        state.background_snapshot = None;
    }
    let answers = state.history.iter().rev().take_while(|it| matches!(it.info, Message::Assistant(_)));
    let has_changed = answers
        .flat_map(|it| &it.parts)
        .any(|part| matches!(&part.kind, PartKind::Patch { files, .. } if !files.is_empty()));
    if !has_changed {
        return Ok(());
    }
    let Ok(snapshots) = snapshots(&cx.engine, &cx.workspace.loaded()) else { return Ok(()) };
    let diff = diff(&snapshots, state.history.iter());
    // The oldest snapshot may be too old to be there.
    let Some(Ok(diff)) = unless_cancelled(cancel, CANCELLED_DIFF_LIMIT, diff).await else { return Ok(()) };
    state.info.summary = Some(SessionSummary {
        additions: diff.iter().map(|file| file.additions).sum(),
        deletions: diff.iter().map(|file| file.deletions).sum(),
        files: diff.len() as u64,
    });
    let mut journal = Journal::default();
    state.touch();
    journal.session(&state.info);
    journal.event(EventPayload::SessionDiff { session_id: state.info.id.clone(), diff });
    if let Some(prompt_idx) = state.history.iter().rposition(|it| matches!(it.info, Message::User(_))) {
        let of_turn = self::diff(&snapshots, state.history.iter().skip(prompt_idx));
        if let Some(Ok(diffs)) = unless_cancelled(cancel, CANCELLED_DIFF_LIMIT, of_turn).await {
            let summary = UserSummary { diffs: without_long_patches(diffs) };
            if let Some(prompt) = state.history.summarize(prompt_idx, summary) {
                journal.message(prompt);
            }
        }
    }
    cx.commit(&mut journal).await
}

/// Leaves out the patches that do not fit into the space that a prompt has for them, from the first that is too long.
fn without_long_patches(mut diffs: Vec<FileDiff>) -> Vec<FileDiff> {
    let mut n_bytes = 0;
    for diff in &mut diffs {
        n_bytes += diff.patch.len();
        if n_bytes > MAX_PROMPT_PATCHES {
            diff.patch = String::new();
        }
    }
    diffs
}

/// Returns the files that differ between the first snapshot of messages and the last.
pub async fn diff<'a>(
    snapshots: &Snapshots,
    messages: impl Iterator<Item = &'a MessageWithParts>,
) -> Result<Vec<FileDiff>, SnapshotError> {
    let (mut first, mut last) = (None, None);
    for part in messages.flat_map(|message| &message.parts) {
        if let PartKind::StepStart { snapshot: Some(tree) } = &part.kind {
            first = first.or(Some(tree));
        } else if let PartKind::StepFinish { snapshot: Some(tree), .. } = &part.kind {
            last = Some(tree);
        }
    }
    let (Some(first), Some(last)) = (first, last) else { return Ok(Vec::new()) };
    let changes = snapshots.changes(first, last, true).await?;
    Ok(changes.into_iter().map(file_diff).collect())
}

fn file_diff(change: Change) -> FileDiff {
    FileDiff {
        file: change.path.display().to_string(),
        patch: change.patch,
        additions: change.additions,
        deletions: change.deletions,
        status: change.status.name().to_owned(),
    }
}
