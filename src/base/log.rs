//! Words that all events of the log share.

use std::time::Instant;

/// The target of events that a person hears of in another way: they go into the file and not to standard error.
pub const TOLD: &str = "told";

/// The time since `began`, such as `1.2s`.
pub fn duration(began: Instant) -> String {
    format!("{:.1?}", began.elapsed())
}
