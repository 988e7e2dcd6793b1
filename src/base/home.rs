//! What a leading `~` stands for.

use std::path::Path;

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
