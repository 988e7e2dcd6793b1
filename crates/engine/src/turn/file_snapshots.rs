//! Takes snapshots of the files around the tool calls of a step, and stores which files the calls changed.
//!
//! The snapshot behind the calls is taken beside the next request to the model; whatever the answer is, it is waited for
//! before the answer is dealt with, and so it is before a prompt is taken in and at the end of the turn.

use std::{
    convert::Infallible,
    future::Future,
    path::Path,
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use windlass_base::ids;
use windlass_core::snapshot::{Change, ComingTree, SnapshotError, Snapshots, StepChanges};
use windlass_protocol::opencode::{
    event::EventPayload,
    file_diff::FileDiff,
    id::{MessageId, SessionId},
    message::{Message, MessageWithParts, UserSummary},
    part::{Part, PartKind},
    session::SessionSummary,
};

use super::{
    answer::Call,
    calls::{self, CallsEnd},
    toolbox::Toolbox,
};
use crate::{
    Engine, EngineError,
    session::{
        context::{SessionCx, TurnCx},
        open_step::{After, ComingChanges, Found, OpenStep, may_change},
        revert,
        state::{Journal, SessionState},
        summary::is_summary,
    },
    workspace::loaded::Loaded,
};

/// Time for which tool calls wait for the snapshot before them; then they run without one. The snapshot is taken to
/// its end all the same, unless the turn is cancelled, so that the next one is quick.
const BEFORE_LIMIT: Duration = Duration::from_secs(15);
/// Time in which they wait without a word.
const UNTOLD: Duration = Duration::from_secs(2);
const FIRST_TIME: &str =
    "The files of this repository are being recorded for /undo, which takes this long the first time alone.";
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
    /// That behind the calls of the step before: nothing but the model's answer came since.
    Newest,
    Coming(ComingTree),
}

impl Before {
    /// Begins the snapshot before a step; `None` where there are none.
    pub fn begin(cx: &TurnCx<'_>, state: &mut SessionState) -> Option<Self> {
        let snapshots = snapshots(&cx.session.engine, &cx.loaded).ok()?;
        let is_known = state.turn.newest_tree.is_some() || state.turn.coming_changes.is_some();
        let tree = if is_known { Tree::Newest } else { Tree::Coming(track(&snapshots)) };
        Some(Self { snapshots, tree })
    }

    /// Waits for the snapshot, where the calls may change files, and stores it.
    async fn finish(
        self,
        cx: &TurnCx<'_>,
        state: &mut SessionState,
        calls: &[Call],
    ) -> Result<Option<After>, EngineError> {
        let newest = state.turn.newest_tree.take();
        if !calls.iter().any(|call| may_change(&call.tool)) {
            return Ok(None);
        }
        let taken = match (self.tree, newest) {
            (Tree::Newest, Some(tree)) => Ok(tree),
            (tree, _) => {
                let mut coming = match tree {
                    Tree::Newest => track(&self.snapshots),
                    Tree::Coming(coming) => coming,
                };
                let taken = tokio::select! {
                    biased;
                    () = cx.cancel.cancelled() => return Ok(None),
                    taken = timeout(BEFORE_LIMIT, &mut coming) => taken,
                    never = tell_of_wait(cx) => match never {},
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

/// Tells the user of a wait that is long; never ends.
async fn tell_of_wait(cx: &TurnCx<'_>) -> Infallible {
    sleep(UNTOLD).await;
    cx.session.warning_log.notify_once(cx.session.engine.bus(), FIRST_TIME);
    std::future::pending().await
}

fn track(snapshots: &Arc<Snapshots>) -> ComingTree {
    let snapshots = snapshots.clone();
    AbortOnDropHandle::new(tokio::spawn(async move { snapshots.track().await }))
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
    if state.turn.coming_changes.is_some() {
        settle(cx.session, state, &cx.cancel).await?;
        if cx.cancel.is_cancelled() {
            return Ok(CallsEnd::Interrupted);
        }
    }
    let after = match before {
        Some(before) => before.finish(cx, state, &calls).await?,
        None => {
            // The user may change files until the next call.
            state.turn.newest_tree = None;
            None
        }
    };
    let end = calls::run(cx, state, toolbox, calls).await?;
    state.turn.after = after;
    if end == CallsEnd::Interrupted {
        begin_after(cx.session, state);
        settle(cx.session, state, &cx.cancel).await?;
    }
    Ok(end)
}

/// Begins the snapshot before a step's calls as soon as one may change files; an answer without such a call costs nothing.
pub fn begin_before(cx: &TurnCx<'_>, state: &mut SessionState, calls: &[Call], before: &mut Option<Before>) {
    if before.is_none() && calls.iter().any(|call| may_change(&call.tool)) {
        *before = Before::begin(cx, state);
    }
}

/// Begins the snapshot behind the newest step, if its calls may have changed files.
pub fn begin_after(cx: &SessionCx, state: &mut SessionState) {
    let Some(after) = state.turn.after.take() else { return };
    let Some(message) = state.history.last() else { return };
    let message_id = message.info.id().clone();
    let finish = message.parts.iter().rfind(|part| matches!(part.kind, PartKind::StepFinish { .. })).cloned();
    let (engine, session_id, cut) = (cx.engine.clone(), cx.id.clone(), CancellationToken::new());
    let found = find(engine, (session_id, message_id.clone()), after, finish, cut.clone());
    let found = AbortOnDropHandle::new(tokio::spawn(found));
    state.turn.coming_changes = Some(ComingChanges { message_id, cut, found });
}

/// Takes the snapshot behind a step and stores the files that changed; `finish` is the end of the step, if it has one.
async fn find(
    engine: Engine,
    (session_id, message_id): (SessionId, MessageId),
    after: After,
    finish: Option<Part>,
    cut: CancellationToken,
) -> Result<Found, EngineError> {
    let After { snapshots, before, began } = after;
    let taken = async {
        let tree = snapshots.track().await?;
        let changes = snapshots.changes_since(began, &before, &tree).await?;
        Ok((tree, changes))
    };
    let (tree, changes) = tokio::select! {
        biased;
        taken = taken => match taken {
            Ok(taken) => taken,
            Err(error) => return Ok(Found::Failed(error)),
        },
        () = cut.cancelled() => return Ok(Found::Cut),
    };
    let (mut journal, mut parts) = (Journal::default(), Vec::new());
    // An interrupted step has no end that would tell it from one with unknown changes.
    engine.fleet().send_files(&session_id, &snapshots, [&before, &tree]);
    if changes != StepChanges::default() || finish.is_none() {
        let kind = patch(snapshots.worktree(), before, changes);
        let part = Part { id: ids::part(), session_id, message_id, kind };
        journal.part(&part);
        parts.push(part);
    }
    if let Some(mut finish) = finish
        && let PartKind::StepFinish { snapshot, .. } = &mut finish.kind
    {
        *snapshot = Some(tree.clone());
        journal.note_part(&finish);
        parts.push(finish);
    }
    journal.commit(engine.storage(), engine.bus()).await?;
    Ok(Found::Changes { tree, parts })
}

/// Waits for the snapshot behind the last step, if one is being taken.
pub async fn settle(
    cx: &SessionCx,
    state: &mut SessionState,
    cancel: &CancellationToken,
) -> Result<(), EngineError> {
    let Some(ComingChanges { message_id, cut, mut found }) = state.turn.coming_changes.take() else {
        return Ok(());
    };
    cx.engine.fleet().tell_of_files(&cx.id);
    let ended = match unless_cancelled(cancel, CANCELLED_LIMIT, &mut found).await {
        Some(ended) => ended,
        None => {
            cut.cancel();
            found.await
        }
    };
    match ended {
        Ok(Ok(Found::Changes { tree, parts })) => {
            state.history.note(&message_id, parts);
            state.turn.newest_tree = Some(tree);
        }
        Ok(Ok(Found::Failed(error))) => {
            tracing::warn!(session = %cx.id, %error, "the files that a step changed are not known");
        }
        Ok(Ok(Found::Cut)) => {
            tracing::warn!(session = %cx.id, "a turn was cancelled before its snapshot was taken");
        }
        Ok(Err(error)) => return Err(error),
        Err(error) => tracing::warn!(session = %cx.id, %error, "a snapshot ended early"),
    }
    Ok(())
}

/// Brings the files of a session that was another machine's.
pub async fn bring(cx: &SessionCx, state: &mut SessionState, cancel: &CancellationToken) {
    if let Ok(snapshots) = snapshots(&cx.engine, &cx.workspace.loaded()) {
        let is_undone = state.info.revert.is_some();
        let fleet = cx.engine.fleet();
        let brought = fleet.bring_files(cx, &snapshots, &state.history, is_undone, cancel).await;
        state.brought = brought.or(state.brought.take());
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

/// Finds out which files the newest step changed, if a sudden end or a cancellation came before the snapshot behind it,
/// and stores them. Where that fails, an undo says so.
pub async fn recover(cx: &SessionCx, state: &mut SessionState) -> Result<(), EngineError> {
    let Some((message_id, OpenStep { before, began })) = newest_open(&state.history) else { return Ok(()) };
    // The files of a subagent's step are known by its parent's, and those of a copied one by the session that ran it.
    let created = u64::try_from(state.info.time.created).unwrap_or_default();
    let is_copied = began < SystemTime::UNIX_EPOCH + Duration::from_millis(created);
    if state.info.parent_id.is_some() || is_copied {
        return Ok(());
    }
    let Ok(snapshots) = snapshots(&cx.engine, &cx.workspace.loaded()) else { return Ok(()) };
    // The step ran on another machine, in other files.
    if cx.engine.fleet().has_files_elsewhere(&cx.id, &snapshots) {
        return Ok(());
    }
    let tracked = async {
        let tree = snapshots.track().await?;
        let changes = snapshots.changes_since(began, before, &tree).await?;
        cx.engine.fleet().send_files(&cx.id, &snapshots, [before, &tree]);
        Ok(changes)
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
        session_id: cx.id.clone(),
        message_id: message_id.clone(),
        kind: patch(snapshots.worktree(), before.to_owned(), changes),
    };
    let mut journal = Journal::default();
    journal.part(&part);
    cx.commit(&mut journal).await?;
    let message_id = part.message_id.clone();
    state.history.note(&message_id, vec![part]);
    Ok(())
}

/// Finds the newest step that is open. Only an answer that broke off may be behind it, before any of its calls was run:
/// others waited for the snapshot, as later prompts did.
fn newest_open(history: &[MessageWithParts]) -> Option<(&MessageId, OpenStep<'_>)> {
    for message in history.iter().rev().take_while(|message| !revert::is_prompt(message)) {
        if let Some(open) = OpenStep::of(message) {
            return Some((message.info.id(), open));
        }
        let has_been_behind = |part: &Part| {
            matches!(part.kind, PartKind::StepStart { snapshot: Some(_) } | PartKind::StepFinish { .. })
        };
        if !is_summary(message) && message.parts.iter().any(has_been_behind) {
            return None;
        }
    }
    None
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
    settle(cx, state, cancel).await?;
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
