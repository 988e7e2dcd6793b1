//! What a leading `~` stands for.

use std::path::{Path, PathBuf};

/// A leading `~` is the user's home, as in a shell; another user's stays as it is.
pub fn expand(home: &Path, text: &str) -> String {
    match text.strip_prefix('~') {
        Some("") => home.to_string_lossy().into_owned(),
        Some(rest) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/')).to_string_lossy().into_owned()
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Where a name leads that may begin with `~/`; any other is relative to `base`.
pub fn join(home: &Path, base: &Path, name: &str) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => base.join(name),
    }
}
