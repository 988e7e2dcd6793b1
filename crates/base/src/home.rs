//! Expansion of a leading `~`.

use std::path::{Path, PathBuf};

/// Replaces a leading `~` by the user's home, as a shell does; `~other` stays unchanged.
pub fn expand(home: &Path, text: &str) -> String {
    match text.strip_prefix('~') {
        Some("") => home.to_string_lossy().into_owned(),
        Some(rest) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/')).to_string_lossy().into_owned()
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Resolves a name that may begin with `~/`; any other relative name starts from `base`.
pub fn join(home: &Path, base: &Path, name: &str) -> PathBuf {
    match name.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => base.join(name),
    }
}
