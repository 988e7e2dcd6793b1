//! Undo and redo of files: brings those that the undone prompts changed back to how they were before, and forth.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use windlass_protocol::opencode::{
    event::EventPayload, id::MessageId, message::MessageWithParts, part::PartKind, session::Revert,
};

use super::{
    context::TurnCx,
    revert,
    state::{Journal, SessionState},
};
use crate::{
    engine::{
        EngineError,
        turn::file_snapshots::{self, CANCELLED_LIMIT, Off, unless_cancelled},
    },
    snapshot::{Restored, SnapshotError, Target},
};

/// The end of an undo or redo of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesEnd {
    /// No snapshot shows a change by an undone prompt.
    Unchanged,
    /// Paths are below the worktree.
    Restored(Restored),
    /// No snapshots are taken here.
    Off(Off),
    Failed(SnapshotError),
    Cancelled,
}

/// Brings the files in step with the conversation after an undo or redo; `before` is what was undone until now.
pub async fn follow(
    cx: &TurnCx<'_>,
    state: &mut SessionState,
    before: Option<Revert>,
) -> Result<FilesEnd, EngineError> {
    let saved = before.as_ref().and_then(|revert| revert.snapshot.clone());
    // A later redo needs it, however this ends.
    keep(state, saved.clone());
    let snapshots = match file_snapshots::snapshots(&cx.session.engine, &cx.loaded) {
        Ok(snapshots) => snapshots,
        Err(off) => return Ok(FilesEnd::Off(off)),
    };
    let after = state.info.revert.as_ref().map(|revert| revert.message_id.clone());
    let from = before.iter().map(|revert| &revert.message_id).chain(&after).min().cloned();
    let Some(from) = from else { return Ok(FilesEnd::Unchanged) };
    let worktree = snapshots.worktree().to_owned();
    let patches = patches(&state.history, &from, &worktree);
    if patches.is_empty() {
        return Ok(FilesEnd::Unchanged);
    }
    let now = match unless_cancelled(&cx.cancel, CANCELLED_LIMIT, snapshots.track()).await {
        Some(Ok(now)) => now,
        Some(Err(error)) => return Ok(FilesEnd::Failed(error)),
        None => return Ok(FilesEnd::Cancelled),
    };
    let saved = saved.unwrap_or_else(|| now.clone());
    keep(state, Some(saved.clone()));
    let mut journal = Journal::default();
    journal.session(&state.info);
    // Redo has to find it, whatever happens to the process now.
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await?;
    let restored = match snapshots.restore(targets(patches, after.as_ref(), &saved), &now).await {
        Ok(restored) => restored,
        Err(error) => return Ok(FilesEnd::Failed(error)),
    };
    let undone = state.history.iter().filter(|it| after.as_ref().is_some_and(|from| it.info.id() >= from));
    // For clients that show it; the oldest snapshot may be too old to be there.
    let diff = file_snapshots::diff(&snapshots, undone);
    let diff = unless_cancelled(&cx.cancel, CANCELLED_LIMIT, diff).await;
    let diff = diff.and_then(Result::ok).unwrap_or_default();
    journal.event(EventPayload::SessionDiff { session_id: state.info.id.clone(), diff });
    journal.commit(cx.session.engine.storage(), cx.session.engine.bus()).await?;
    Ok(FilesEnd::Restored(restored))
}

/// Keeps the tree that a redo of everything brings back.
fn keep(state: &mut SessionState, saved: Option<String>) {
    if let Some(revert) = &mut state.info.revert {
        revert.snapshot = saved;
    }
}

/// A file that a step changed, and the tree before that step.
struct Patched {
    message: MessageId,
    path: PathBuf,
    tree: String,
}

/// Returns the files that steps from a message on changed, the oldest step first.
fn patches(history: &[MessageWithParts], from: &MessageId, worktree: &Path) -> Vec<Patched> {
    let mut patches = Vec::new();
    for message in history.iter().filter(|it| it.info.id() >= from && !revert::is_local_only(it, history)) {
        for part in &message.parts {
            let PartKind::Patch { hash, files } = &part.kind else { continue };
            for file in files {
                // The worktree may be another one than when the session began.
                let Ok(path) = Path::new(file).strip_prefix(worktree) else { continue };
                let (message, path) = (message.info.id().clone(), path.to_owned());
                patches.push(Patched { message, path, tree: hash.clone() });
            }
        }
    }
    patches
}

/// Returns the tree from which each file is taken: of files whose changes are undone from `from` on, the tree before
/// the first of these changes; of the others `saved`.
fn targets(patches: Vec<Patched>, from: Option<&MessageId>, saved: &str) -> BTreeMap<PathBuf, Target> {
    let mut targets: BTreeMap<PathBuf, (bool, Target)> = BTreeMap::new();
    for Patched { message, path, tree } in patches {
        let is_undone = from.is_some_and(|from| message >= *from);
        let target = targets.entry(path).or_insert_with(|| (false, saved.to_owned()));
        if is_undone && !target.0 {
            *target = (true, tree);
        }
    }
    targets.into_iter().map(|(path, (_, tree))| (path, tree)).collect()
}
