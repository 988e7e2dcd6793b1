//! Undo and redo of files: brings those that the undone prompts changed back to how they were before, and forth.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use windlass_base::lock::lock;
use windlass_core::snapshot::{Restored, SnapshotError, Snapshots, Target};
use windlass_protocol::opencode::{
    event::EventPayload, id::SessionId, message::MessageWithParts, part::PartKind, session::Revert,
};

use crate::{
    EngineError, EngineErrorKind, Sessions,
    session::{
        context::SessionCx,
        request::{Command, RevertTo, Reverted},
        revert::{self, Changed, PartPosition},
        state::{Journal, SessionState},
    },
    turn::file_snapshots::{self, CANCELLED_LIMIT, Off, unless_cancelled},
    workspace::loaded::Loaded,
};

/// Bytes of the diff that is kept with a session; it goes out with every change of the session.
const MAX_DIFF: usize = 64 << 10;

/// The end of an undo or redo of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesEnd {
    /// No snapshot shows a change by an undone prompt.
    Unchanged,
    /// Paths are below the worktree.
    Restored {
        restored: Restored,
        /// Files that stay as they are, because the user changed them while something was undone.
        edited: BTreeSet<PathBuf>,
    },
    /// No snapshots are taken here.
    Off(Off),
    Failed(SnapshotError),
    Cancelled,
}

impl Sessions<'_> {
    /// Changes which part of an open, idle session's conversation is undone, and brings its files in step. The next
    /// prompt makes it final.
    pub async fn revert(self, id: &SessionId, to: RevertTo) -> Result<Reverted, EngineError> {
        let ended = {
            let mut sessions = lock(&self.engine.0.sessions.open);
            let open = sessions.get_mut(id).ok_or_else(|| EngineError::session_not_found(id))?;
            let busy = || {
                let message = format!("the session {id} is working; wait for its turn to end, or cancel it");
                EngineError::new(EngineErrorKind::SessionBusy, message)
            };
            if !open.tickets.is_empty() {
                return Err(busy());
            }
            let (done, ended) = oneshot::channel();
            self.engine.inbox(id, open).try_send(Command::Revert { to, done }).map_err(|_| busy())?;
            ended
        };
        let lost = || EngineError::new(EngineErrorKind::Internal, "the session ended before its undo");
        ended.await.unwrap_or_else(|_| Err(lost()))
    }
}

/// Carries an undo out between two turns.
pub async fn carry_out(
    cx: &SessionCx,
    state: &mut SessionState,
    to: &RevertTo,
) -> Result<Reverted, EngineError> {
    cx.engine.workspaces().sync_config(&cx.workspace).await;
    let loaded = cx.workspace.loaded();
    let _sole_use = cx.sole_use("undo")?;
    let before = state.info.revert.clone();
    let Some(changed) = revert::change(state, to)? else {
        return Ok(Reverted { info: state.info.clone(), prompt: None, files: String::new() });
    };
    let end = follow(cx, &loaded, &CancellationToken::new(), state, before).await?;
    let files = sentences(&loaded.config.worktree, &end, &changed);
    Ok(Reverted { info: state.info.clone(), prompt: Some(changed.prompt), files })
}

/// Brings the files in step with the conversation after an undo or redo, and stores both; `before` is the undo that
/// held until now.
pub async fn follow(
    cx: &SessionCx,
    loaded: &Loaded,
    cancel: &CancellationToken,
    state: &mut SessionState,
    before: Option<Revert>,
) -> Result<FilesEnd, EngineError> {
    // A later redo needs it, however this ends.
    keep(state, before.as_ref().and_then(|revert| revert.snapshot.clone()));
    let end = restore(cx, loaded, cancel, state, before).await?;
    let mut journal = Journal::default();
    state.touch();
    journal.session(&state.info);
    cx.commit(&mut journal).await?;
    Ok(end)
}

async fn restore(
    cx: &SessionCx,
    loaded: &Loaded,
    cancel: &CancellationToken,
    state: &mut SessionState,
    before: Option<Revert>,
) -> Result<FilesEnd, EngineError> {
    let saved = before.as_ref().and_then(|revert| revert.snapshot.clone());
    let snapshots = match file_snapshots::snapshots(&cx.engine, loaded) {
        Ok(snapshots) => snapshots,
        Err(off) => return Ok(FilesEnd::Off(off)),
    };
    let position = |revert: &Revert| revert::position(revert, &state.history);
    let (before, after) = (before.as_ref().map(position), state.info.revert.as_ref().map(position));
    let Some(from) = before.iter().chain(&after).min() else { return Ok(FilesEnd::Unchanged) };
    let patches = patches(&state.history, from, snapshots.worktree());
    if patches.is_empty() {
        return Ok(FilesEnd::Unchanged);
    }
    let now = match unless_cancelled(cancel, CANCELLED_LIMIT, snapshots.track_all()).await {
        Some(Ok(now)) => now,
        Some(Err(error)) => return Ok(FilesEnd::Failed(error)),
        None => return Ok(FilesEnd::Cancelled),
    };
    let saved = saved.unwrap_or_else(|| now.clone());
    keep(state, Some(saved.clone()));
    let mut journal = Journal::default();
    journal.session(&state.info);
    // Redo has to find it, even if the process ends now.
    cx.commit(&mut journal).await?;
    let edited = match &before {
        Some(before) => edited(&snapshots, targets(&patches, Some(before), &saved), &now).await,
        None => Ok(BTreeSet::new()),
    };
    // Without knowing them, their changes could be lost.
    let edited = match edited {
        Ok(edited) => edited,
        Err(error) => return Ok(FilesEnd::Failed(error)),
    };
    let mut targets = targets(&patches, after.as_ref(), &saved);
    targets.retain(|path, _| !edited.contains(path));
    let restored = match snapshots.restore(targets, &now).await {
        Ok(restored) => restored,
        Err(error) => return Ok(FilesEnd::Failed(error)),
    };
    if cx.engine.fleet().sends_files(&cx.id)
        && let Some(Ok(tree)) = unless_cancelled(cancel, CANCELLED_LIMIT, snapshots.track()).await
    {
        cx.engine.fleet().send_files(&cx.id, &snapshots, [&now, &tree]);
    }
    let undone = state.history.iter().filter(|it| after.as_ref().is_some_and(|from| *it.info.id() >= from.0));
    // For clients that show them; the oldest snapshot may be too old to be there.
    let diffs = async {
        let of_undone = file_snapshots::diff(&snapshots, undone).await.unwrap_or_default();
        let of_files = if after.is_some() { diff_since(&snapshots, &saved).await } else { None };
        (of_undone, of_files)
    };
    let (diff, text) = unless_cancelled(cancel, CANCELLED_LIMIT, diffs).await.unwrap_or_default();
    if let Some(revert) = &mut state.info.revert {
        revert.diff = text;
    }
    journal.event(EventPayload::SessionDiff { session_id: state.info.id.clone(), diff });
    cx.commit(&mut journal).await?;
    Ok(FilesEnd::Restored { restored, edited })
}

/// Returns the files that are not as the last undo or redo left them: the user has changed them since, and nothing else
/// would bring that back.
async fn edited(
    snapshots: &Snapshots,
    left: BTreeMap<PathBuf, Target>,
    now: &Target,
) -> Result<BTreeSet<PathBuf>, SnapshotError> {
    let mut by_tree: BTreeMap<Target, Vec<PathBuf>> = BTreeMap::new();
    for (path, tree) in left {
        by_tree.entry(tree).or_default().push(path);
    }
    let mut edited = BTreeSet::new();
    for (tree, paths) in by_tree {
        let changes = match snapshots.changes(&tree, now, false).await {
            Ok(changes) => changes,
            // A tree that is too old to be there says nothing.
            Err(SnapshotError::Gone) => continue,
            Err(error) => return Err(error),
        };
        let changed: BTreeSet<PathBuf> = changes.into_iter().map(|change| change.path).collect();
        edited.extend(paths.into_iter().filter(|path| changed.contains(path)));
    }
    Ok(edited)
}

/// Returns how the files differ from a tree; `None` where that is nothing, or too much.
async fn diff_since(snapshots: &Snapshots, tree: &str) -> Option<String> {
    let now = snapshots.track().await.ok()?;
    let changes = snapshots.changes(tree, &now, true).await.ok()?;
    let diff: String = changes.into_iter().map(|change| change.patch).collect();
    (1..=MAX_DIFF).contains(&diff.len()).then_some(diff)
}

/// Keeps the tree that a redo of everything brings back.
fn keep(state: &mut SessionState, saved: Option<String>) {
    if let Some(revert) = &mut state.info.revert {
        revert.snapshot = saved;
    }
}

/// A file that a step changed, and the tree before that step.
struct Patched {
    position: PartPosition,
    path: PathBuf,
    tree: String,
}

/// Returns the files that steps from a place on changed, the oldest step first.
fn patches(history: &[MessageWithParts], from: &PartPosition, worktree: &Path) -> Vec<Patched> {
    let mut patches = Vec::new();
    for message in history.iter().filter(|it| *it.info.id() >= from.0 && !revert::is_local_only(it, history))
    {
        for (part_idx, part) in message.parts.iter().enumerate() {
            let PartKind::Patch { hash, files, left_out: _ } = &part.kind else { continue };
            let position = (message.info.id().clone(), part_idx);
            if position < *from {
                continue;
            }
            for file in files {
                // The worktree may be another one than when the session began.
                let Ok(path) = Path::new(file).strip_prefix(worktree) else { continue };
                let (position, path) = (position.clone(), path.to_owned());
                patches.push(Patched { position, path, tree: hash.clone() });
            }
        }
    }
    patches
}

/// Returns the tree from which each file is taken: of files with changes undone from `from` on, the tree before the
/// first of these changes; of the others `saved`.
fn targets(patches: &[Patched], from: Option<&PartPosition>, saved: &str) -> BTreeMap<PathBuf, Target> {
    let mut targets: BTreeMap<PathBuf, (bool, Target)> = BTreeMap::new();
    for Patched { position, path, tree } in patches {
        let is_undone = from.is_some_and(|from| position >= from);
        let target = targets.entry(path.clone()).or_insert_with(|| (false, saved.to_owned()));
        if is_undone && !target.0 {
            *target = (true, tree.clone());
        }
    }
    targets.into_iter().map(|(path, (_, tree))| (path, tree)).collect()
}

/// Returns the sentences about the files of an undo or redo.
pub fn sentences(worktree: &Path, end: &FilesEnd, changed: &Changed) -> String {
    let list = |paths: &[PathBuf]| {
        let lines = paths.iter().map(|path| format!("- `{}`", worktree.join(path).display()));
        lines.collect::<Vec<_>>().join("\n")
    };
    let named = |files: Vec<&String>| list(&files.into_iter().map(PathBuf::from).collect::<Vec<_>>());
    let reason = match end {
        FilesEnd::Unchanged | FilesEnd::Restored { .. } => {
            let mut text = String::new();
            if let FilesEnd::Restored { restored: Restored { changed, skipped }, edited } = end {
                if !edited.is_empty() {
                    text.push_str(&format!(
                        "\n\nThese files stay as they are, because you changed them since the last undo or redo:\n{}",
                        list(&edited.iter().cloned().collect::<Vec<_>>())
                    ));
                }
                if !changed.is_empty() {
                    text.push_str(&format!("\n\nRestored files:\n{}", list(changed)));
                }
                if !skipped.is_empty() {
                    text.push_str(&format!(
                        "\n\nThese files stay as they are, because no snapshot holds their present content:\n{}",
                        list(skipped)
                    ));
                }
            }
            if !changed.unsaved.is_empty() {
                text.push_str(&format!(
                    "\n\nThese files are not restored, because no snapshot shows their changes:\n{}",
                    named(changed.unsaved.iter().collect())
                ));
            }
            if changed.has_open_step {
                text.push_str(
                    "\n\nA step was interrupted, and the files that it changed are not known; they stay changed.",
                );
            }
            return text;
        }
        FilesEnd::Off(Off::NoRepository) => "snapshots need a git repository".to_owned(),
        FilesEnd::Off(Off::Setting) => "`snapshot` is false in the configuration".to_owned(),
        FilesEnd::Failed(error) => error.to_string(),
        FilesEnd::Cancelled => "the command was cancelled".to_owned(),
    };
    if changed.files.is_empty() {
        return format!("\n\nFiles are not restored: {reason}. Whatever commands changed stays changed.");
    }
    format!(
        "\n\nFiles are not restored: {reason}. These were changed and stay so, like whatever commands changed:\n{}",
        named(changed.files.iter().collect())
    )
}
