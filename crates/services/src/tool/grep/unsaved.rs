//! Searches the texts that the client's editor has and that are not saved, in place of those on the disk.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::join_all;
use grep_regex::RegexMatcher;
use tokio::time::timeout;

use super::{Found, Match, collect, matcher, searcher};
use crate::tool::{
    ToolCx, ToolError,
    editor::{self, Buffer},
    path::Target,
};

/// Files of one search that the editor is asked for: it does not tell which ones it has open.
const MAX_ASKED: usize = 32;
/// Time that it has for all of them.
const LIMIT: Duration = Duration::from_secs(2);

/// Returns the files with unsaved texts that count: none unless the editor gives such.
pub(super) fn wanted(cx: &ToolCx<'_>) -> BTreeSet<PathBuf> {
    let is_offered = cx.host.editor().is_some_and(|editor| editor.reads());
    if is_offered { cx.host.known_paths().into_iter().collect() } else { BTreeSet::new() }
}

/// Searches files again that the session knows or that have matches, where the editor has another text for them.
pub(super) async fn search(
    cx: &ToolCx<'_>,
    target: &Target,
    pattern: &str,
    found: &mut Found,
) -> Result<(), ToolError> {
    if !cx.host.editor().is_some_and(|editor| editor.reads()) {
        return Ok(());
    }
    let known = std::mem::take(&mut found.known);
    let with_matches = found.files.keys().filter(|path| !known.contains(*path)).cloned();
    let paths: Vec<PathBuf> = known.iter().cloned().chain(with_matches).take(MAX_ASKED).collect();
    let asked = paths.iter().map(|path| async move {
        let real = real_of(target, path);
        timeout(LIMIT, editor::buffer(cx, path, &real)).await.unwrap_or(Buffer::Unknown)
    });
    let buffers = tokio::select! {
        buffers = join_all(asked) => buffers,
        () = cx.cancel.cancelled() => return Err(ToolError::Cancelled { partial: None }),
    };
    let regex = matcher(pattern)?;
    for (path, buffer) in paths.iter().zip(buffers) {
        if let Some(text) = buffer.unsaved() {
            found.replace(path, matches(&regex, &text));
        }
    }
    Ok(())
}

fn real_of(target: &Target, path: &Path) -> PathBuf {
    if target.is_directory { target.real_of(path) } else { target.real.clone() }
}

/// Returns the first matches in a text of at most some megabytes.
fn matches(regex: &RegexMatcher, text: &str) -> Vec<Match> {
    let mut matches = Vec::new();
    let searched = searcher(grep_searcher::BinaryDetection::none()).search_slice(
        regex,
        text.as_bytes(),
        collect(&mut matches, || true),
    );
    // A text in memory cannot fail to be read; a line that is too wide ends the search, as on the disk.
    let _ = searched;
    matches
}
