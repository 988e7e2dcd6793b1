//! Files as the client's editor has them: texts with changes that are not saved yet, and writes that go through it.

use std::{fs, io::Read, path::Path, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout;
use windlass_base::{path, pinned};
use windlass_protocol::opencode::id::SessionId;

use super::{ToolCx, ToolError, blocking, path::display};

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
    /// Returns a file's text.
    fn read(&self, session: &SessionId, path: &Path) -> BoxFuture<'static, Result<String, EditorFailure>>;
    /// Writes a whole file.
    fn write(
        &self,
        session: &SessionId,
        path: &Path,
        text: &str,
    ) -> BoxFuture<'static, Result<(), EditorFailure>>;
}

/// Reason why an editor did not carry out a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditorFailure {
    /// It has ended its connection.
    #[error("it is gone")]
    Gone,
    /// It may still do it.
    #[error("it did not answer within {LIMIT:?}")]
    Silent,
    #[error("{0}")]
    Refused(String),
}

/// A file's text in the editor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// The same as on the disk; also where the editor does not read, or there is no file.
    Saved,
    /// Another one than on the disk.
    Unsaved(String),
    /// The editor does not tell it, or it is not to be asked for.
    Unknown,
}

impl Buffer {
    /// Returns the text that is not saved.
    pub(super) fn unsaved(self) -> Option<String> {
        match self {
            Self::Unsaved(text) => Some(text),
            Self::Saved | Self::Unknown => None,
        }
    }
}

/// A file on the disk, as far as its text can be compared with the editor's.
enum Disk {
    None,
    Text(String),
    Other,
}

/// Asks the editor for a file's text, unless its path leads elsewhere by now than to `real`.
pub(super) async fn buffer(cx: &ToolCx<'_>, path: &Path, real: &Path) -> Buffer {
    let Some(editor) = cx.host.editor().filter(|editor| editor.reads()) else { return Buffer::Saved };
    let (named, place) = (path.to_owned(), real.to_owned());
    let saved = match blocking(move || Ok(on_disk(&named, &place))).await {
        Ok(Disk::Text(saved)) => saved,
        Ok(Disk::None) => return Buffer::Saved,
        Ok(Disk::Other) | Err(_) => return Buffer::Unknown,
    };
    let text =
        match timeout(LIMIT, editor.read(cx.session_id, path)).await.unwrap_or(Err(EditorFailure::Silent)) {
            Ok(text) => text,
            Err(reason) => {
                tracing::info!(file = %path.display(), %reason, "the editor gave no text");
                return Buffer::Unknown;
            }
        };
    // Editors leave out the mark and the carriage returns, and put them back when they save.
    let plain = |text: &str| text.strip_prefix(BOM).unwrap_or(text).replace("\r\n", "\n");
    if plain(&text) == plain(&saved) { Buffer::Saved } else { Buffer::Unsaved(text) }
}

/// Reads a file that the editor may be asked for: editors do not show bytes that are no text as they are.
fn on_disk(path: &Path, real: &Path) -> Disk {
    let Ok(metadata) = fs::metadata(real) else { return Disk::None };
    if !metadata.is_file() || metadata.len() > MAX_BYTES || path::real(path) != real {
        return Disk::Other;
    }
    let mut bytes = Vec::new();
    let read = pinned::open_file(real).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    match (read, String::from_utf8(bytes)) {
        (Ok(_), Ok(text)) => Disk::Text(text),
        _ => Disk::Other,
    }
}

/// Has the editor write a text.
pub(super) async fn write(
    editor: &dyn Editor,
    session: &SessionId,
    path: &Path,
    text: &str,
) -> Result<(), EditorFailure> {
    timeout(LIMIT, editor.write(session, path, text)).await.unwrap_or(Err(EditorFailure::Silent))
}

/// Returns the editor that writes files in our place.
pub(super) fn writer(cx: &ToolCx<'_>) -> Option<Arc<dyn Editor>> {
    cx.host.editor().filter(|editor| editor.writes())
}

/// The refusal to change a file on the disk while the editor has another text for it.
pub(super) fn is_unsaved(path: &Path) -> ToolError {
    ToolError::Model(format!(
        "{} has unsaved changes in the editor, so it was left alone. Ask the user to save it, then read it again.",
        display(path)
    ))
}
