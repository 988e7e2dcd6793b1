//! Kinds of changes to files, and their summary for the user.

/// The overall change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Add,
    Update,
    Delete,
    Move,
}

/// Summarises file changes for a title: plain names if all are edits or moves (`a, b`), otherwise a verb for
/// each (`add a, update b`).
pub fn told<'a>(deeds: impl Iterator<Item = (Deed, &'a str)> + Clone) -> String {
    let is_plain = deeds.clone().all(|(deed, _)| matches!(deed, Deed::Update | Deed::Move));
    let told = deeds.map(|(deed, name)| match deed {
        Deed::Add => format!("add {name}"),
        Deed::Delete => format!("delete {name}"),
        Deed::Update if !is_plain => format!("update {name}"),
        // The name of a moved file contains an arrow.
        Deed::Update | Deed::Move => name.to_owned(),
    });
    told.collect::<Vec<_>>().join(", ")
}
