//! Changes that the client's editor writes: all of them or none.

use std::{fs, io, sync::Arc};

use tokio::sync::OwnedMutexGuard;
use windlass_base::path::real;
use windlass_protocol::opencode::id::SessionId;

use super::{
    Swap, Written, check_unchanged, modified,
    swap::{MOVED, MadeDirectories},
    swap_on_disk,
};
use crate::tool::{
    FileStamp, ToolCx, ToolError, blocking,
    editor::{self, Buffer, Editor, EditorFailure},
    path::display,
};

/// Writes texts by the editor, and changes that it has no request for by ourselves: deletions, contents that are no
/// text, and files with a text that it does not tell. `guards` keep other changes off the files.
pub(super) async fn put(
    cx: &ToolCx<'_>,
    editor: Arc<dyn Editor>,
    swaps: Vec<Swap>,
    guards: Vec<OwnedMutexGuard<()>>,
) -> Result<Written, ToolError> {
    let mut sorted = Sorted::default();
    for swap in swaps {
        sorted.add(cx, swap).await?;
    }
    let editor = SessionsEditor { editor, session_id: cx.session_id.clone() };
    // Goes on when the call is dropped: a patch must not stay half written. Each request has its limit.
    let writing = tokio::spawn(async move {
        let _guards = guards;
        editor.write_all(sorted).await
    });
    writing.await.map_err(|error| ToolError::Internal(format!("a change ended early: {error}")))?
}

/// Changes, sorted by their writers.
#[derive(Default)]
struct Sorted {
    /// The editor, of files as they are on the disk.
    saved: Vec<Swap>,
    /// The editor, of files that it has other texts for.
    unsaved: Vec<Swap>,
    by_us: Vec<Swap>,
}

impl Sorted {
    /// Refuses a change of a file if its text in the editor is no longer the one that the user was shown.
    async fn add(&mut self, cx: &ToolCx<'_>, swap: Swap) -> Result<(), ToolError> {
        let is_text = text_of(swap.after.as_deref()).is_some()
            && swap.before.as_deref().is_none_or(|before| text_of(Some(before)).is_some());
        let list = match editor::buffer(cx, &swap.path, &swap.real).await {
            Buffer::Unsaved(text) if swap.before.as_deref() != Some(text.as_bytes()) => {
                return Err(modified(&swap.path));
            }
            Buffer::Unsaved(_) if !is_text => return Err(editor::is_unsaved(&swap.path)),
            Buffer::Unsaved(_) => &mut self.unsaved,
            Buffer::Saved if is_text => &mut self.saved,
            // It may not have a file open that it does not tell of, and notices if the disk changes.
            Buffer::Saved | Buffer::Unknown => &mut self.by_us,
        };
        list.push(swap);
        Ok(())
    }
}

fn text_of(bytes: Option<&[u8]>) -> Option<&str> {
    str::from_utf8(bytes?).ok()
}

/// The editor, for the files of one session.
struct SessionsEditor {
    editor: Arc<dyn Editor>,
    session_id: SessionId,
}

impl SessionsEditor {
    async fn write_all(&self, sorted: Sorted) -> Result<Written, ToolError> {
        let checked = blocking(move || {
            check_unchanged(&sorted.saved)?;
            check_unchanged(&sorted.by_us)?;
            Ok(sorted)
        });
        let Sorted { saved: mut by_editor, unsaved, mut by_us } = checked.await?;
        by_editor.extend(unsaved);
        let mut made = MadeDirectories::default();
        for n_done in 0..by_editor.len() {
            match self.write(&by_editor[n_done], &mut made).await {
                Ok(()) => {}
                Err(EditorFailure::Gone) => {
                    by_us.extend(by_editor.drain(n_done..));
                    break;
                }
                Err(reason @ (EditorFailure::Silent | EditorFailure::Refused(_))) => {
                    let file = display(&by_editor[n_done].path);
                    // Without an answer it may be written.
                    let is_open = reason == EditorFailure::Silent;
                    by_editor.truncate(n_done + usize::from(is_open));
                    self.take_back(by_editor).await;
                    return Err(ToolError::Model(format!("The editor did not write {file}: {reason}")));
                }
            }
        }
        let on_disk = blocking(move || {
            check_unchanged(&by_us)?;
            swap_on_disk(by_us)
        });
        match on_disk.await {
            Ok(mut written) => {
                made.keep();
                written.extend(by_editor.into_iter().map(|swap| {
                    let metadata = fs::metadata(&swap.real).ok();
                    let content = swap.after.as_deref().unwrap_or_default();
                    let stamp = metadata.map(|it| FileStamp::of(&it).with_content(content));
                    (swap, stamp)
                }));
                Ok(written)
            }
            Err(error) => {
                self.take_back(by_editor).await;
                Err(error)
            }
        }
    }

    async fn write(&self, swap: &Swap, made: &mut MadeDirectories) -> Result<(), EditorFailure> {
        let failed = |error: io::Error| EditorFailure::Refused(error.to_string());
        let (path, place) = (swap.path.clone(), swap.real.clone());
        let (is_new, mut directories) = (swap.before.is_none(), std::mem::take(made));
        let ready = blocking(move || {
            let parent = place.parent().filter(|_| is_new);
            let ready = parent.map_or(Ok(()), |parent| directories.make(parent).map(drop));
            // The editor follows the links that there are now.
            let is_moved = real(&path) != place;
            Ok((directories, ready.and(if is_moved { Err(io::Error::other(MOVED)) } else { Ok(()) })))
        });
        let ready = ready.await.map_err(|error| EditorFailure::Refused(error.to_string()))?;
        *made = ready.0;
        ready.1.map_err(failed)?;
        let text = text_of(swap.after.as_deref()).unwrap_or_default();
        editor::write(self.editor.as_ref(), &self.session_id, &swap.path, text).await?;
        if let Some(like) = swap.like.clone() {
            let place = swap.real.clone();
            let kept = blocking(move || {
                Ok(fs::metadata(like).and_then(|it| fs::set_permissions(place, it.permissions())))
            });
            if let Ok(Err(error)) = kept.await {
                tracing::warn!(file = %swap.path.display(), %error, "a moved file lost its permissions");
            }
        }
        Ok(())
    }

    /// Gives files their texts back after a failure behind them, the newest first.
    async fn take_back(&self, mut written: Vec<Swap>) {
        while let Some(swap) = written.pop() {
            if let Some(text) = text_of(swap.before.as_deref()) {
                let undone = editor::write(self.editor.as_ref(), &self.session_id, &swap.path, text).await;
                if undone.is_ok() {
                    continue;
                }
            }
            let path = swap.path.clone();
            let undone = blocking(move || {
                let is_there = fs::symlink_metadata(&swap.real).is_ok();
                let back = Swap { before: swap.after, after: swap.before, ..swap };
                if back.after.is_some() || is_there { swap_on_disk(vec![back]).map(drop) } else { Ok(()) }
            });
            if let Err(error) = undone.await {
                tracing::error!(file = %path.display(), ?error, "a change was not taken back");
            }
        }
    }
}
