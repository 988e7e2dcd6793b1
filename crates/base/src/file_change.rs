//! The summary of changes to files for the user.

use windlass_protocol::opencode::tool_metadata::FileChange;

/// Summarises file changes for a title: plain names if all are edits or moves (`a, b`), otherwise a verb for
/// each (`add a, update b`).
pub fn summary<'a>(changes: impl Iterator<Item = (FileChange, &'a str)> + Clone) -> String {
    let is_plain = changes.clone().all(|(change, _)| matches!(change, FileChange::Update | FileChange::Move));
    let names = changes.map(|(change, name)| match change {
        FileChange::Add => format!("add {name}"),
        FileChange::Delete => format!("delete {name}"),
        FileChange::Update if !is_plain => format!("update {name}"),
        // The name of a moved file contains an arrow.
        FileChange::Update | FileChange::Move => name.to_owned(),
    });
    names.collect::<Vec<_>>().join(", ")
}
