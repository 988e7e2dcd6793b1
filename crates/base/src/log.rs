//! Names and formats shared by all log events.

use std::time::Instant;

/// The target of events that the user is shown in another way: they go into the log file, not to standard
/// error.
pub const SHOWN: &str = "shown";

/// The target of problems in a configuration that is read for the first time: some commands show them themselves.
pub const CONFIGURED: &str = "configured";

/// Formats the time since `began`, such as `1.2s`.
pub fn duration(began: Instant) -> String {
    format!("{:.1?}", began.elapsed())
}
