//! Files as the client's editor has them: texts with changes that are not saved yet, and writes that go through it.

use std::{fs, io::Read, path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use windlass_protocol::opencode::id::SessionId;

use super::{ToolCx, ToolError, blocking, path::display};
use crate::base::pinned;

/// The mark at the beginning of some texts.
pub(crate) const BOM: &str = "\u{feff}";

/// Time that an editor may take to give or take a text.
const LIMIT: Duration = Duration::from_secs(10);

/// Maximum bytes of a file that the editor is asked for.
const MAX_BYTES: u64 = 4 << 20;

/// An editor that reads or writes files in our place. Dropping a future takes the request back.
pub trait Editor: Send + Sync {
    /// True if it gives texts of files.
    fn reads(&self) -> bool;
    /// True if it writes texts.
    fn writes(&self) -> bool;
    /// Returns a file's text; an error is the editor's reason.
    fn read(&self, session: &SessionId, path: &Path) -> BoxFuture<'static, Result<String, String>>;
    /// Writes a whole file; an error is the editor's reason.
    fn write(&self, session: &SessionId, path: &Path, text: &str) -> BoxFuture<'static, Result<(), String>>;
}

/// Returns the text that the editor has for a file, if it is another one than that on the disk: with changes that are
/// not saved. An editor that fails or says nothing has none.
pub(super) async fn unsaved(cx: &ToolCx<'_>, path: &Path, real: &Path) -> Option<String> {
    let editor = cx.host.editor().filter(|editor| editor.reads())?;
    let real = real.to_owned();
    let saved = blocking(move || {
        let is_meant = fs::metadata(&real).is_ok_and(|it| it.is_file() && it.len() <= MAX_BYTES);
        let mut bytes = Vec::new();
        let file = if is_meant { pinned::open_file(&real).ok() } else { None };
        let read = file.and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes).ok());
        Ok(read.map(|_| bytes))
    });
    // What is no text is not shown by editors as it is.
    let saved = String::from_utf8(saved.await.ok()??).ok()?;
    let text = match timeout(LIMIT, editor.read(cx.session_id, path)).await {
        Ok(Ok(text)) => text,
        Ok(Err(reason)) => {
            tracing::info!(file = %path.display(), reason, "the editor gave no text");
            return None;
        }
        Err(_) => {
            tracing::warn!(file = %path.display(), "the editor gave no text in time");
            return None;
        }
    };
    // Editors leave out the mark and the carriage returns, and put them back when they save.
    let plain = |text: &str| text.strip_prefix(BOM).unwrap_or(text).replace("\r\n", "\n");
    (plain(&text) != plain(&saved)).then_some(text)
}

/// Has the editor write a text; false if it does not write.
pub(super) async fn write(cx: &ToolCx<'_>, path: &Path, text: &str) -> Result<bool, ToolError> {
    let Some(editor) = writer(cx) else { return Ok(false) };
    let reason = match timeout(LIMIT, editor.write(cx.session_id, path, text)).await {
        Ok(Ok(())) => return Ok(true),
        Ok(Err(reason)) => reason,
        Err(_) => format!("it did not answer within {LIMIT:?}"),
    };
    Err(ToolError::Model(format!("The editor did not write {}: {reason}", display(path))))
}

/// Returns the editor that writes files in our place.
pub(super) fn writer(cx: &ToolCx<'_>) -> Option<Arc<dyn Editor>> {
    cx.host.editor().filter(|editor| editor.writes())
}
