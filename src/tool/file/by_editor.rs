//! Changes that the client's editor writes: all of them or none, as far as it keeps its word.

use std::{fs, path::Path};

use super::{Swap, holds, put_on_disk};
use crate::{
    base::path::real,
    tool::{FileStamp, ToolCx, ToolError, blocking, editor},
};

/// Writes texts by the editor, and what it has no request for by ourselves: deletions, and what is no text.
pub(super) async fn put(cx: &ToolCx<'_>, swaps: Vec<Swap>) -> Result<(), ToolError> {
    let (by_editor, by_us): (Vec<Swap>, Vec<Swap>) =
        swaps.into_iter().partition(|swap| text_of(swap).is_some());
    for swap in &by_editor {
        check(cx, swap).await?;
    }
    let mut written: Vec<&Swap> = Vec::new();
    for swap in &by_editor {
        let done = async {
            make_directory(&swap.real).await?;
            editor::write(cx, &swap.path, text_of(swap).unwrap_or_default()).await
        };
        if let Err(error) = done.await {
            take_back(cx, &written).await;
            return Err(error);
        }
        written.push(swap);
    }
    for swap in &by_editor {
        let content = swap.after.as_deref().unwrap_or_default();
        if let Ok(metadata) = fs::metadata(&swap.real) {
            cx.host.record_read(&swap.real, FileStamp::of(&metadata).with_content(content));
        }
        cx.host.edited(&swap.path, &swap.real);
    }
    if by_us.is_empty() {
        return Ok(());
    }
    let put = put_on_disk(cx, by_us).await;
    if put.is_err() {
        take_back(cx, &by_editor.iter().collect::<Vec<_>>()).await;
    }
    put
}

fn text_of(swap: &Swap) -> Option<&str> {
    str::from_utf8(swap.after.as_deref()?).ok()
}

/// Refuses a change of a file that is not any more what the user was shown: on the disk or in the editor.
async fn check(cx: &ToolCx<'_>, swap: &Swap) -> Result<(), ToolError> {
    let (file, place, before) = (swap.path.clone(), swap.real.clone(), swap.before.clone());
    let is_saved = blocking(move || holds(&file, &real(&place), before.as_deref())).await?;
    let is_same = match editor::unsaved(cx, &swap.path, &swap.real).await {
        Some(text) => swap.before.as_deref() == Some(text.as_bytes()),
        None => is_saved,
    };
    if is_same {
        return Ok(());
    }
    Err(ToolError::Model(format!(
        "File {} was modified while permission was being asked. Read it again and retry.",
        swap.path.display()
    )))
}

/// Makes the directory of a new file, which the editor may not make.
async fn make_directory(file: &Path) -> Result<(), ToolError> {
    let Some(parent) = file.parent().map(Path::to_owned) else { return Ok(()) };
    blocking(move || {
        fs::create_dir_all(&parent)
            .map_err(|error| ToolError::Model(format!("Cannot make {}: {error}", parent.display())))
    })
    .await
}

/// Gives files their texts back after a failure behind them.
async fn take_back(cx: &ToolCx<'_>, written: &[&Swap]) {
    for swap in written {
        let before = swap.before.as_deref().and_then(|before| str::from_utf8(before).ok());
        let undone = match before {
            Some(text) => editor::write(cx, &swap.path, text).await.map(drop),
            None => fs::remove_file(&swap.real).map_err(|error| ToolError::Model(error.to_string())),
        };
        if let Err(error) = undone {
            tracing::warn!(file = %swap.path.display(), ?error, "a change was not taken back");
        }
    }
}
