//! What happens to files, and how the user is told of it.

/// What happens to a file in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    Add,
    Update,
    Delete,
    Move,
}

/// What becomes of several files, as the user is told: files that are only changed are named, one that is moved by both
/// its names, and as soon as one is added or deleted it is said of each what happens to it.
pub fn told<'a>(deeds: impl Iterator<Item = (Deed, &'a str)> + Clone) -> String {
    let is_plain = deeds.clone().all(|(deed, _)| matches!(deed, Deed::Update | Deed::Move));
    let told = deeds.map(|(deed, name)| match deed {
        Deed::Add => format!("add {name}"),
        Deed::Delete => format!("delete {name}"),
        Deed::Update if !is_plain => format!("update {name}"),
        // An arrow says it.
        Deed::Update | Deed::Move => name.to_owned(),
    });
    told.collect::<Vec<_>>().join(", ")
}
