//! The directories in which children are looked up, and look up theirs: no relative ones, which would be a project's.

use std::sync::OnceLock;

static SEARCH: OnceLock<String> = OnceLock::new();

/// Gives all children this value of `PATH` unless they are given another. Called at the start of the process.
pub fn limit(absolute: String) {
    // Only the first call counts.
    let _ = SEARCH.set(absolute);
}

/// Returns the variable for a child; none where the process's own serves.
pub(super) fn variable() -> Option<(&'static str, &'static str)> {
    SEARCH.get().map(|search| ("PATH", search.as_str()))
}
